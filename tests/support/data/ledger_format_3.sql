BEGIN TRANSACTION;
CREATE TABLE ledger_book (
	id INTEGER NOT NULL, 
	version INTEGER NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "ledger_book" VALUES(1,3);
CREATE TABLE ledger_datasets (
	dataset TEXT NOT NULL, 
	entries INTEGER NOT NULL, 
	head TEXT NOT NULL, 
	PRIMARY KEY (dataset)
);
INSERT INTO "ledger_datasets" VALUES('bank',16,'c90966f5584d670b0350427300982829ce561c747dc385e35461bed23a37038a');
INSERT INTO "ledger_datasets" VALUES('shop',11,'cfd682971d37aced59fa3d1557dfc84b5a20126760b2798369fb913dfc7fead6');
INSERT INTO "ledger_datasets" VALUES('copy',10,'92ce3a05ce70f6efd4d8c8a39498c538c20dd5bd81a32428a3cc5d15fdc75cca');
CREATE TABLE ledger_entries (
	dataset TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	kind TEXT NOT NULL, 
	at TEXT NOT NULL, 
	who TEXT NOT NULL, 
	flow TEXT NOT NULL, 
	run_id TEXT NOT NULL, 
	slot TEXT NOT NULL, 
	step_key TEXT NOT NULL, 
	mechanism TEXT NOT NULL, 
	sensitivity FLOAT, 
	sensitivity_reason TEXT NOT NULL, 
	noise_scale FLOAT, 
	protects TEXT NOT NULL, 
	adjacency TEXT NOT NULL, 
	event_json TEXT NOT NULL, 
	detail_json TEXT NOT NULL, 
	epsilon FLOAT, 
	delta FLOAT, 
	output_hash TEXT NOT NULL, 
	previous TEXT NOT NULL, 
	hash TEXT NOT NULL, 
	PRIMARY KEY (dataset, number)
);
INSERT INTO "ledger_entries" VALUES('bank',1,'register','2026-11-25T18:53:29.744970+00:00','owner','','','','','',NULL,'',NULL,'','','','{"fingerprint":"fingerprint-1","key":"key-1","marks":"28e205fc4a1fd617b622872083675e21d1f78268c0183717b0611ded66ce7500","name":"bank","records":"fa1844c2988ad15ab7b49e0ece09684500fad94df916859fb9a43ff85f5bb477"}',NULL,NULL,'','','799b5012c70893cca4265f2dfd2eee320671695cc27059dd89c6a09784574727');
INSERT INTO "ledger_entries" VALUES('bank',2,'cap','2026-11-25T18:53:29.845770+00:00','owner','','','','','',NULL,'',NULL,'','','','{"delta":1e-05,"epsilon":0.846129068134555,"protects":"record","reason":"default cap of the ledger"}',0.0,1.0e-05,'','799b5012c70893cca4265f2dfd2eee320671695cc27059dd89c6a09784574727','46d2927e082f9c234e01e42eb2f221142ceb7dfd6d5ab35456fde2f4a8146263');
INSERT INTO "ledger_entries" VALUES('bank',3,'view','2026-11-25T18:53:29.891799+00:00','owner','','','','','',NULL,'',NULL,'','','','{"name":"bank","view":{"path":"bank.csv"}}',0.0,1.0e-05,'','46d2927e082f9c234e01e42eb2f221142ceb7dfd6d5ab35456fde2f4a8146263','902341a79b88ccf969f80ca7353e902f4b6ed2a48b2a0964ca091b4d90a8ea20');
INSERT INTO "ledger_entries" VALUES('bank',4,'reserve','2026-11-25T18:53:29.929126+00:00','me','wasp','run-1','','','',NULL,'',NULL,'','','','{"charges":[{"adjacency":"add_remove","event_json":"{\"sensitivity\":1.0,\"sigma\":10.0,\"type\":\"gaussian\"}","mechanism":"votes","noise_scale":10.0,"protects":"record","sensitivity":1.0,"sensitivity_reason":"one record moves one vote"},{"adjacency":"add_remove","event_json":"{\"sensitivity\":1.0,\"sigma\":10.0,\"type\":\"gaussian\"}","mechanism":"votes","noise_scale":10.0,"protects":"record","sensitivity":1.0,"sensitivity_reason":"one record moves one vote"}],"delta":1e-05}',0.0,1.0e-05,'','902341a79b88ccf969f80ca7353e902f4b6ed2a48b2a0964ca091b4d90a8ea20','bbfa752762ef44ee6485481051216983830f581ecf334098505ec1e9f838e262');
INSERT INTO "ledger_entries" VALUES('bank',5,'release','2026-11-25T18:53:29.973602+00:00','me','wasp','run-1','votes-0','key-0','votes',1.0,'one record moves one vote',10.0,'record','add_remove','{"sensitivity":1.0,"sigma":10.0,"type":"gaussian"}','{"extra":false}',4.84852591218808137707e-01,1.0e-05,'099c2b7239ae95ba87868b1667daeb87f3f9274370ea9c185adca5c87098476c','bbfa752762ef44ee6485481051216983830f581ecf334098505ec1e9f838e262','fb84350afeba2820c13630229822b51c14b47137f591394dd6ea80c871d3d51b');
INSERT INTO "ledger_entries" VALUES('bank',6,'release','2026-11-25T18:53:30.013368+00:00','me','wasp','run-1','votes-1','key-1','votes',1.0,'one record moves one vote',10.0,'record','add_remove','{"sensitivity":1.0,"sigma":10.0,"type":"gaussian"}','{"extra":false}',6.88614042441511253755e-01,1.0e-05,'58bcb16231c644773fd5ad7613db7b69de52875198ab8b24f6169315537dc753','fb84350afeba2820c13630229822b51c14b47137f591394dd6ea80c871d3d51b','0b9bab758a9864f91286a9d49642af171cb0409a2ffcfe7c1ce0b7bac0220124');
INSERT INTO "ledger_entries" VALUES('bank',7,'void','2026-11-25T18:53:30.069322+00:00','admin','wasp','run-1','votes-1','','',NULL,'',NULL,'','','','{"number":6,"reason":"nobody saw it"}',4.84852591218808137707e-01,1.0e-05,'','0b9bab758a9864f91286a9d49642af171cb0409a2ffcfe7c1ce0b7bac0220124','9e8be67a04e5491f9e227180a36558f7c9ace0c80c7639819032308d2f88f291');
INSERT INTO "ledger_entries" VALUES('bank',8,'finish','2026-11-25T18:53:30.113101+00:00','me','wasp','run-1','','','',NULL,'',NULL,'','','','{}',4.84852591218808137707e-01,1.0e-05,'','9e8be67a04e5491f9e227180a36558f7c9ace0c80c7639819032308d2f88f291','3fc0db735531e18d8c5562e3e9ac2ac0a330305f076024c6c3f1db700c078218');
INSERT INTO "ledger_entries" VALUES('shop',1,'register','2026-11-25T18:53:30.163831+00:00','owner','','','','','',NULL,'',NULL,'','','','{"fingerprint":"fingerprint-2","key":"key-1","marks":"4a35eb980488963fa34f1baa258ed7e01c4b5bf51489e242fc2e8c24e4b52a57","name":"shop","records":"01f650e85c95620160b40ed22626dca932e9f700ffe599be060da184dd4d7822"}',NULL,NULL,'','','573ca5ab189978de78313c90704fee2912095c1995c99238c048a581290178ea');
INSERT INTO "ledger_entries" VALUES('shop',2,'cap','2026-11-25T18:53:30.166036+00:00','owner','','','','','',NULL,'',NULL,'','','','{"delta":1e-05,"epsilon":0.846129068134555,"protects":"record","reason":"default cap of the ledger"}',0.0,1.0e-05,'','573ca5ab189978de78313c90704fee2912095c1995c99238c048a581290178ea','23cc968d71e714eedf766ce31b072337be1b5a7c8d8c8dd15278d631ef42dfe9');
INSERT INTO "ledger_entries" VALUES('shop',3,'cap','2026-11-25T18:53:30.203460+00:00','owner','','','','','',NULL,'',NULL,'','','','{"delta":2e-05,"epsilon":9.0,"protects":"record","reason":"agreed","trainings":[1.0,1e-05]}',0.0,2.0e-05,'','23cc968d71e714eedf766ce31b072337be1b5a7c8d8c8dd15278d631ef42dfe9','3b20916a6cb106ce45bb2fabe6f6408eda7d5ca36fe00bb77ae96a9932b6f7b3');
INSERT INTO "ledger_entries" VALUES('shop',4,'reserve','2026-11-25T18:53:30.269199+00:00','me','wasp','run-2','','','',NULL,'',NULL,'','','','{"charges":[{"adjacency":"add_remove","event_json":"{\"sensitivity\":1.0,\"sigma\":10.0,\"type\":\"gaussian\"}","mechanism":"votes","noise_scale":10.0,"protects":"record","sensitivity":1.0,"sensitivity_reason":"one record moves one vote"},{"adjacency":"add_remove","event_json":"{\"sensitivity\":1.0,\"sigma\":10.0,\"type\":\"gaussian\"}","mechanism":"votes","noise_scale":10.0,"protects":"record","sensitivity":1.0,"sensitivity_reason":"one record moves one vote"}],"delta":1e-05}',0.0,2.0e-05,'','3b20916a6cb106ce45bb2fabe6f6408eda7d5ca36fe00bb77ae96a9932b6f7b3','40d545d7ba9fddad9596aea2f768a91f1378496dde2fe0f1765453c68e0c1dc7');
INSERT INTO "ledger_entries" VALUES('copy',1,'register','2026-11-25T18:53:30.324533+00:00','owner','','','','','',NULL,'',NULL,'','','','{"fingerprint":"fingerprint-3","key":"key-1","marks":"e2ccddbf602fd551f508b102d959e19ec89623fe3ece08d5a6dd4d1b69186354","name":"copy","records":"3dc3df41f354cf31193b8b25276760191321f4661a8ce158d5675a7420488d9b"}',NULL,NULL,'','','56641ea8a45d4a64a527c14ab9a080c9f654cc9d8ba509b652dd19b3e91b199f');
INSERT INTO "ledger_entries" VALUES('bank',9,'group','2026-11-25T18:53:30.329964+00:00','owner','','','','','',NULL,'',NULL,'','','','{"group":"with bank","members":["bank","copy","shop"],"why":["near copies","same persons"]}',4.84852591218808137707e-01,1.0e-05,'','3fc0db735531e18d8c5562e3e9ac2ac0a330305f076024c6c3f1db700c078218','72549a93a769dfef758d4aa0319ddb20a39251bc44f94015bfbc66310845a4bd');
INSERT INTO "ledger_entries" VALUES('bank',10,'group reserve','2026-11-25T18:53:30.330550+00:00','me','wasp','run-2','','','',NULL,'',NULL,'','','','{"carried":true,"charges":[{"adjacency":"add_remove","event_json":"{\"sensitivity\":1.0,\"sigma\":10.0,\"type\":\"gaussian\"}","mechanism":"votes","noise_scale":10.0,"protects":"record","sensitivity":1.0,"sensitivity_reason":"one record moves one vote"},{"adjacency":"add_remove","event_json":"{\"sensitivity\":1.0,\"sigma\":10.0,\"type\":\"gaussian\"}","mechanism":"votes","noise_scale":10.0,"protects":"record","sensitivity":1.0,"sensitivity_reason":"one record moves one vote"}],"delta":1e-05,"entry":"","line":0,"of":"shop"}',4.84852591218808137707e-01,1.0e-05,'','72549a93a769dfef758d4aa0319ddb20a39251bc44f94015bfbc66310845a4bd','3d9461969f72875cf27f61c33357a5a12e3b6c51e7a625328515e8adaf931fac');
INSERT INTO "ledger_entries" VALUES('copy',2,'group','2026-11-25T18:53:30.331008+00:00','owner','','','','','',NULL,'',NULL,'','','','{"group":"with bank","members":["bank","copy","shop"],"why":["near copies","same persons"]}',NULL,NULL,'','56641ea8a45d4a64a527c14ab9a080c9f654cc9d8ba509b652dd19b3e91b199f','f6dfcc3ed35a22b8a146d1b9c04e2a40bff9593e949a946e048e11b4767cfbf8');
INSERT INTO "ledger_entries" VALUES('copy',3,'group release','2026-11-25T18:53:30.331467+00:00','me','wasp','run-1','votes-0','key-0','votes',1.0,'one record moves one vote',10.0,'record','add_remove','{"sensitivity":1.0,"sigma":10.0,"type":"gaussian"}','{"carried":true,"entry":"fb84350afeba2820c13630229822b51c14b47137f591394dd6ea80c871d3d51b","extra":false,"line":5,"of":"bank"}',4.84852591218808137707e-01,1.0e-05,'099c2b7239ae95ba87868b1667daeb87f3f9274370ea9c185adca5c87098476c','f6dfcc3ed35a22b8a146d1b9c04e2a40bff9593e949a946e048e11b4767cfbf8','af1d5397377b3f7a75fa1b006a1a211da3fc368b75daeb4647f235b78055db98');
INSERT INTO "ledger_entries" VALUES('copy',4,'group reserve','2026-11-25T18:53:30.331968+00:00','me','wasp','run-2','','','',NULL,'',NULL,'','','','{"carried":true,"charges":[{"adjacency":"add_remove","event_json":"{\"sensitivity\":1.0,\"sigma\":10.0,\"type\":\"gaussian\"}","mechanism":"votes","noise_scale":10.0,"protects":"record","sensitivity":1.0,"sensitivity_reason":"one record moves one vote"},{"adjacency":"add_remove","event_json":"{\"sensitivity\":1.0,\"sigma\":10.0,\"type\":\"gaussian\"}","mechanism":"votes","noise_scale":10.0,"protects":"record","sensitivity":1.0,"sensitivity_reason":"one record moves one vote"}],"delta":1e-05,"entry":"","line":0,"of":"shop"}',4.84852591218808137707e-01,1.0e-05,'','af1d5397377b3f7a75fa1b006a1a211da3fc368b75daeb4647f235b78055db98','c46355f61063debc071b6e2148026a60f2540882098e41c49f84a3bd28ba2475');
INSERT INTO "ledger_entries" VALUES('shop',5,'group','2026-11-25T18:53:30.332464+00:00','owner','','','','','',NULL,'',NULL,'','','','{"group":"with bank","members":["bank","copy","shop"],"why":["near copies","same persons"]}',0.0,2.0e-05,'','40d545d7ba9fddad9596aea2f768a91f1378496dde2fe0f1765453c68e0c1dc7','5316e11ccdc1e0437bb3dcc9ea65c4b443093f4693c7b6cc91697ea6aa839f10');
INSERT INTO "ledger_entries" VALUES('shop',6,'group release','2026-11-25T18:53:30.332912+00:00','me','wasp','run-1','votes-0','key-0','votes',1.0,'one record moves one vote',10.0,'record','add_remove','{"sensitivity":1.0,"sigma":10.0,"type":"gaussian"}','{"carried":true,"entry":"fb84350afeba2820c13630229822b51c14b47137f591394dd6ea80c871d3d51b","extra":false,"line":5,"of":"bank"}',4.70183367811238150935e-01,2.0e-05,'099c2b7239ae95ba87868b1667daeb87f3f9274370ea9c185adca5c87098476c','5316e11ccdc1e0437bb3dcc9ea65c4b443093f4693c7b6cc91697ea6aa839f10','c5c6eeaa544df10a593d10053dab0e152b9c9611afe87007ae4b69f90463aa7e');
INSERT INTO "ledger_entries" VALUES('copy',5,'cap','2026-11-25T18:53:30.333924+00:00','owner','','','','','',NULL,'',NULL,'','','','{"delta":1e-05,"epsilon":0.846129068134555,"protects":"record","reason":"default cap of the ledger"}',4.84852591218808137707e-01,1.0e-05,'','c46355f61063debc071b6e2148026a60f2540882098e41c49f84a3bd28ba2475','3c011233198db22294e8fc070dc361db60c0f571a2b7b15cc6b7d16e568e2a54');
INSERT INTO "ledger_entries" VALUES('shop',7,'release','2026-11-25T18:53:30.389778+00:00','me','wasp','run-2','votes-0','key-5','votes',1.0,'one record moves one vote',10.0,'record','add_remove','{"sensitivity":1.0,"sigma":10.0,"type":"gaussian"}','{"extra":false}',6.67868627749044874164e-01,2.0e-05,'30c56f992dec92359de27e021732fececf779a1c7a67c36943f0036db7c0d7ca','c5c6eeaa544df10a593d10053dab0e152b9c9611afe87007ae4b69f90463aa7e','33e077b5d2663377bb5c3dd4b9f8b9c968bbe410f028ece2e510f1189a022b6c');
INSERT INTO "ledger_entries" VALUES('bank',11,'group release','2026-11-25T18:53:30.390407+00:00','me','wasp','run-2','votes-0','key-5','votes',1.0,'one record moves one vote',10.0,'record','add_remove','{"sensitivity":1.0,"sigma":10.0,"type":"gaussian"}','{"entry":"33e077b5d2663377bb5c3dd4b9f8b9c968bbe410f028ece2e510f1189a022b6c","extra":false,"line":7,"of":"shop"}',6.88614042441511253755e-01,1.0e-05,'30c56f992dec92359de27e021732fececf779a1c7a67c36943f0036db7c0d7ca','3d9461969f72875cf27f61c33357a5a12e3b6c51e7a625328515e8adaf931fac','f92e5e0a8dae4a7e702bc17a0fe7f738ae14daadb47b50b7b93a30876fc19fb4');
INSERT INTO "ledger_entries" VALUES('copy',6,'group release','2026-11-25T18:53:30.390863+00:00','me','wasp','run-2','votes-0','key-5','votes',1.0,'one record moves one vote',10.0,'record','add_remove','{"sensitivity":1.0,"sigma":10.0,"type":"gaussian"}','{"entry":"33e077b5d2663377bb5c3dd4b9f8b9c968bbe410f028ece2e510f1189a022b6c","extra":false,"line":7,"of":"shop"}',6.88614042441511253755e-01,1.0e-05,'30c56f992dec92359de27e021732fececf779a1c7a67c36943f0036db7c0d7ca','3c011233198db22294e8fc070dc361db60c0f571a2b7b15cc6b7d16e568e2a54','6a56361250f7aa3650d2f9d15be078a48b3ab1a7a63348336fa154aba9e42833');
INSERT INTO "ledger_entries" VALUES('shop',8,'look','2026-11-25T18:53:30.407310+00:00','me','wasp','run-2','fid-0','','',NULL,'',NULL,'','','','{"what":"FID","where":"report"}',6.67868627749044874164e-01,2.0e-05,'','33e077b5d2663377bb5c3dd4b9f8b9c968bbe410f028ece2e510f1189a022b6c','77af4182d99b81bda58d90c25355f806a0c30457c8eb4e147c9025e8155e710a');
INSERT INTO "ledger_entries" VALUES('bank',12,'group look','2026-11-25T18:53:30.407893+00:00','me','wasp','run-2','fid-0','','',NULL,'',NULL,'','','','{"entry":"77af4182d99b81bda58d90c25355f806a0c30457c8eb4e147c9025e8155e710a","line":8,"of":"shop","what":"FID","where":"report"}',6.88614042441511253755e-01,1.0e-05,'','f92e5e0a8dae4a7e702bc17a0fe7f738ae14daadb47b50b7b93a30876fc19fb4','c6194deffca4a0c38443306208df9aa959c512b2d0c0b4db95c64f9727ba7784');
INSERT INTO "ledger_entries" VALUES('copy',7,'group look','2026-11-25T18:53:30.408419+00:00','me','wasp','run-2','fid-0','','',NULL,'',NULL,'','','','{"entry":"77af4182d99b81bda58d90c25355f806a0c30457c8eb4e147c9025e8155e710a","line":8,"of":"shop","what":"FID","where":"report"}',6.88614042441511253755e-01,1.0e-05,'','6a56361250f7aa3650d2f9d15be078a48b3ab1a7a63348336fa154aba9e42833','3c0e655ff5a85f2f17c70197c726f90ac50ce3f7ead939ed68f9d184c7d98ce3');
INSERT INTO "ledger_entries" VALUES('shop',9,'refuse','2026-11-25T18:53:30.442241+00:00','you','wasp','run-3','','','',NULL,'',NULL,'','','','{"left":0.0,"missing":7.005717967435215,"needs":7.786140424415115}',6.67868627749044874164e-01,2.0e-05,'','77af4182d99b81bda58d90c25355f806a0c30457c8eb4e147c9025e8155e710a','d17fdd1bba3a74483fbdd21351d22bf2a9f6d92f1ebfa62ed61df3d556ff8cbf');
INSERT INTO "ledger_entries" VALUES('bank',13,'export','2026-11-25T18:53:30.479715+00:00','me','wasp','run-1','','','',NULL,'',NULL,'','','','{}',6.88614042441511253755e-01,1.0e-05,'','c6194deffca4a0c38443306208df9aa959c512b2d0c0b4db95c64f9727ba7784','738c1e821e92a27a929bb3ebfd03c64492222a25eadb412f46f28d2bd8015d10');
INSERT INTO "ledger_entries" VALUES('bank',14,'cap','2026-11-25T18:53:30.525426+00:00','owner','','','','','',NULL,'',NULL,'','','','{"delta":1e-05,"epsilon":9.0,"protects":"record","reason":"raised"}',6.88614042441511253755e-01,1.0e-05,'','738c1e821e92a27a929bb3ebfd03c64492222a25eadb412f46f28d2bd8015d10','b2056bf47e317b25082ab2dc8f74da803ab8c0a8e5de4b6553bb4647befb7c78');
INSERT INTO "ledger_entries" VALUES('copy',8,'cap','2026-11-25T18:53:30.564750+00:00','owner','','','','','',NULL,'',NULL,'','','','{"delta":1e-05,"epsilon":null,"protects":"record","reason":"lifted"}',6.88614042441511253755e-01,1.0e-05,'','3c0e655ff5a85f2f17c70197c726f90ac50ce3f7ead939ed68f9d184c7d98ce3','9e298706535e5abae1b0588c957b42c42dcb056d8e1e3fdce45cdd86ad288124');
INSERT INTO "ledger_entries" VALUES('bank',15,'reserve','2026-11-25T18:53:30.613780+00:00','me','wasp','run-4','','','',NULL,'',NULL,'','','','{"charges":[{"adjacency":"add_remove","event_json":"{\"sensitivity\":1.0,\"sigma\":10.0,\"type\":\"gaussian\"}","mechanism":"votes","noise_scale":10.0,"protects":"record","sensitivity":1.0,"sensitivity_reason":"one record moves one vote"}],"delta":1e-05}',6.88614042441511253755e-01,1.0e-05,'','b2056bf47e317b25082ab2dc8f74da803ab8c0a8e5de4b6553bb4647befb7c78','c8963efeb85b2ffc59699e793775e37ec7ef2810ab1202b064285c6fd49d48f2');
INSERT INTO "ledger_entries" VALUES('copy',9,'group reserve','2026-11-25T18:53:30.614487+00:00','me','wasp','run-4','','','',NULL,'',NULL,'','','','{"charges":[{"adjacency":"add_remove","event_json":"{\"sensitivity\":1.0,\"sigma\":10.0,\"type\":\"gaussian\"}","mechanism":"votes","noise_scale":10.0,"protects":"record","sensitivity":1.0,"sensitivity_reason":"one record moves one vote"}],"delta":1e-05,"entry":"c8963efeb85b2ffc59699e793775e37ec7ef2810ab1202b064285c6fd49d48f2","line":15,"of":"bank"}',6.88614042441511253755e-01,1.0e-05,'','9e298706535e5abae1b0588c957b42c42dcb056d8e1e3fdce45cdd86ad288124','747f3642732cca487d356767af2464735b052f3604b5e513ab2ef7c1dd996f59');
INSERT INTO "ledger_entries" VALUES('shop',10,'group reserve','2026-11-25T18:53:30.614980+00:00','me','wasp','run-4','','','',NULL,'',NULL,'','','','{"charges":[{"adjacency":"add_remove","event_json":"{\"sensitivity\":1.0,\"sigma\":10.0,\"type\":\"gaussian\"}","mechanism":"votes","noise_scale":10.0,"protects":"record","sensitivity":1.0,"sensitivity_reason":"one record moves one vote"}],"delta":1e-05,"entry":"c8963efeb85b2ffc59699e793775e37ec7ef2810ab1202b064285c6fd49d48f2","line":15,"of":"bank"}',6.67868627749044874164e-01,2.0e-05,'','d17fdd1bba3a74483fbdd21351d22bf2a9f6d92f1ebfa62ed61df3d556ff8cbf','01423685db74312e96eca503ac7c9dc534ab7e576149b9ffddfc7f646c4b23ef');
INSERT INTO "ledger_entries" VALUES('bank',16,'release','2026-11-25T18:53:30.676852+00:00','me','wasp','run-4','votes-0','key-7','votes',1.0,'one record moves one vote',10.0,'record','add_remove','{"sensitivity":1.0,"sigma":10.0,"type":"gaussian"}','{"extra":false}',0.846129068134555,1.0e-05,'bf768f1d128eef6cb23f3aed393f04cb9486631ee60cd46fee0a44a9f7dabd51','c8963efeb85b2ffc59699e793775e37ec7ef2810ab1202b064285c6fd49d48f2','c90966f5584d670b0350427300982829ce561c747dc385e35461bed23a37038a');
INSERT INTO "ledger_entries" VALUES('copy',10,'group release','2026-11-25T18:53:30.677519+00:00','me','wasp','run-4','votes-0','key-7','votes',1.0,'one record moves one vote',10.0,'record','add_remove','{"sensitivity":1.0,"sigma":10.0,"type":"gaussian"}','{"entry":"c90966f5584d670b0350427300982829ce561c747dc385e35461bed23a37038a","extra":false,"line":16,"of":"bank"}',0.846129068134555,1.0e-05,'bf768f1d128eef6cb23f3aed393f04cb9486631ee60cd46fee0a44a9f7dabd51','747f3642732cca487d356767af2464735b052f3604b5e513ab2ef7c1dd996f59','92ce3a05ce70f6efd4d8c8a39498c538c20dd5bd81a32428a3cc5d15fdc75cca');
INSERT INTO "ledger_entries" VALUES('shop',11,'group release','2026-11-25T18:53:30.678011+00:00','me','wasp','run-4','votes-0','key-7','votes',1.0,'one record moves one vote',10.0,'record','add_remove','{"sensitivity":1.0,"sigma":10.0,"type":"gaussian"}','{"entry":"c90966f5584d670b0350427300982829ce561c747dc385e35461bed23a37038a","extra":false,"line":16,"of":"bank"}',8.20721227885065074403e-01,2.0e-05,'bf768f1d128eef6cb23f3aed393f04cb9486631ee60cd46fee0a44a9f7dabd51','01423685db74312e96eca503ac7c9dc534ab7e576149b9ffddfc7f646c4b23ef','cfd682971d37aced59fa3d1557dfc84b5a20126760b2798369fb913dfc7fead6');
CREATE TABLE ledger_fingerprints (
	fingerprint TEXT NOT NULL, 
	dataset TEXT NOT NULL, 
	PRIMARY KEY (fingerprint)
);
INSERT INTO "ledger_fingerprints" VALUES('fingerprint-1','bank');
INSERT INTO "ledger_fingerprints" VALUES('fingerprint-2','shop');
INSERT INTO "ledger_fingerprints" VALUES('fingerprint-3','copy');
CREATE TABLE ledger_marks (
	mark TEXT NOT NULL, 
	dataset TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	PRIMARY KEY (mark, dataset)
);
INSERT INTO "ledger_marks" VALUES('n1','bank','near',1);
INSERT INTO "ledger_marks" VALUES('n2','bank','near',1);
INSERT INTO "ledger_marks" VALUES('n3','bank','near',1);
INSERT INTO "ledger_marks" VALUES('n4','bank','near',1);
INSERT INTO "ledger_marks" VALUES('place-1','bank','place',1);
INSERT INTO "ledger_marks" VALUES('person-1','shop','person',1);
INSERT INTO "ledger_marks" VALUES('n1','copy','near',1);
INSERT INTO "ledger_marks" VALUES('n2','copy','near',1);
INSERT INTO "ledger_marks" VALUES('n3','copy','near',1);
INSERT INTO "ledger_marks" VALUES('n4','copy','near',1);
INSERT INTO "ledger_marks" VALUES('person-1','copy','person',1);
CREATE TABLE ledger_names (
	name TEXT NOT NULL, 
	dataset TEXT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "ledger_names" VALUES('bank','bank');
INSERT INTO "ledger_names" VALUES('shop','shop');
INSERT INTO "ledger_names" VALUES('copy','copy');
CREATE TABLE ledger_outputs (
	dataset TEXT NOT NULL, 
	step_key TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	output BLOB NOT NULL, 
	PRIMARY KEY (dataset, step_key)
);
INSERT INTO "ledger_outputs" VALUES('bank','key-0',5,X'6E6F6973652D30');
INSERT INTO "ledger_outputs" VALUES('shop','key-5',7,X'6E6F6973652D35');
INSERT INTO "ledger_outputs" VALUES('bank','key-7',16,X'6E6F6973652D37');
CREATE TABLE ledger_records (
	record TEXT NOT NULL, 
	dataset TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	PRIMARY KEY (record)
);
INSERT INTO "ledger_records" VALUES('a','bank',1);
INSERT INTO "ledger_records" VALUES('b','bank',1);
INSERT INTO "ledger_records" VALUES('c','bank',1);
INSERT INTO "ledger_records" VALUES('x','shop',1);
INSERT INTO "ledger_records" VALUES('y','shop',1);
INSERT INTO "ledger_records" VALUES('z','copy',1);
CREATE TABLE ledger_seals (
	dataset TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	seal TEXT NOT NULL, 
	PRIMARY KEY (dataset, number)
);
INSERT INTO "ledger_seals" VALUES('bank',2,'8c6b44587a4a3db5971a99b955380bf97b9afb478dd616db35a21838c5a5c623');
INSERT INTO "ledger_seals" VALUES('bank',3,'8cb99a4fa00b7562ddfc0d15a62b9621162bc7044776d61b8c34fcf3ad1a5084');
INSERT INTO "ledger_seals" VALUES('bank',4,'b801576d32c5e81b1365a9f14d9f6ca609a45d980295ae738587290c1b4c7fb8');
INSERT INTO "ledger_seals" VALUES('bank',5,'a873bd049c276835df431fec4b0af71ecf4a5af453dae19bf1faaab4b3011f7e');
INSERT INTO "ledger_seals" VALUES('bank',6,'9107d9f4f1f8513562cb05cee691c24c89117a927b3d47ccb9a0f7f36efc564b');
INSERT INTO "ledger_seals" VALUES('bank',7,'fcdb11f1622df86b76162712dc124225d3b8e9934d8a67cbd9d7a98ed0c5d713');
INSERT INTO "ledger_seals" VALUES('bank',8,'a21f19346a679e22ac1928a0a7bb73410a8c6f30afa1cfcbe2c09e506f624edd');
INSERT INTO "ledger_seals" VALUES('shop',1,'4da977320811ca52db5a7f177508fde0d0e34c343ac93c9495471a974da0e69c');
INSERT INTO "ledger_seals" VALUES('shop',2,'c372da7f2b34bd2cee3e381531f83572446f8c933324a553a49047da1e7cadbd');
INSERT INTO "ledger_seals" VALUES('shop',3,'75d366be8dc44f21a0451ce5864e57f39dd8f902357127fcf196ab99eba12cd4');
INSERT INTO "ledger_seals" VALUES('shop',4,'24baf708686bc4a884ec9f6442c05a07215e5dda6e03b21a751d03154718bc12');
INSERT INTO "ledger_seals" VALUES('copy',1,'b0f8e944a10dfa6da9a020a9ec59806658792f947a3ab04de3e9cb100fae691b');
INSERT INTO "ledger_seals" VALUES('bank',9,'7468d023a1cb4e94b3cf63af0259a6af736684d18cfb8ff5d9d731041d8f4e2d');
INSERT INTO "ledger_seals" VALUES('bank',10,'e97a3fa9f4609d73a35154f7ffe9dc2b99792bf33c1bd9d3435e1921430638c2');
INSERT INTO "ledger_seals" VALUES('copy',2,'00a028f41538220fd1fd75d77c44eae16459b61c6b229894ac51305eeb136689');
INSERT INTO "ledger_seals" VALUES('copy',3,'89ea9e8ce89103a55b28e8e5e6a56b7061721880f0497e9520df8e55a5cefd56');
INSERT INTO "ledger_seals" VALUES('copy',4,'3c5f9fbd8bdb740939d6802a791fc4dda97ce5a098b223f3c39b17af5410f4ad');
INSERT INTO "ledger_seals" VALUES('shop',5,'01fffd8df6d50bd263aba855980af0b39b5269143bf09f326ca6b02cf8d0d5d9');
INSERT INTO "ledger_seals" VALUES('shop',6,'39b92079eac542575c34e29ffc2411fe2d547e3cbbf2b380dc752392a98cd256');
INSERT INTO "ledger_seals" VALUES('copy',5,'865e5ccdb8530f000c3eb1d6b093ae48a81e36693e3a6cea1e821223cc8afcb3');
INSERT INTO "ledger_seals" VALUES('shop',7,'23bccf9e6bc297498593544c13c635ae0a330c197a23eb11b975dd4cccb7eea0');
INSERT INTO "ledger_seals" VALUES('bank',11,'997ddd9644a69aeefe7e29c66b5d80688db4bf2d196abd1fbddd2f96d0996433');
INSERT INTO "ledger_seals" VALUES('copy',6,'d7d325e05bcb7c8f723a2fad60481d26548601f3cbd0e696035df8aae2409d7e');
INSERT INTO "ledger_seals" VALUES('shop',8,'16966a863c14673a1438ed7d0949de95d7003aff08c0f9334994d537f6783977');
INSERT INTO "ledger_seals" VALUES('bank',12,'94848518208506bf13a012c17eb989c7ec63ffc107d8c20687651884809095a6');
INSERT INTO "ledger_seals" VALUES('copy',7,'be442532c708381d8e5a7fe5efdd2695182d90818e4147fbf1952c93e7d355b8');
INSERT INTO "ledger_seals" VALUES('shop',9,'a85f82943ebab679ee39de7baf6d03e28876ff94273f585c84e81849771f6045');
INSERT INTO "ledger_seals" VALUES('bank',13,'f61201efa5e941654bcafa9e85de47ba7f0ce909a98b853f9c8a8da0c30582fc');
INSERT INTO "ledger_seals" VALUES('bank',14,'238425ae35f448cf26d27130218031161f45161cb144bb91ed20d19cc818f86d');
INSERT INTO "ledger_seals" VALUES('copy',8,'4756c8cb32681cd48e816f498b3a37a285cbbf06fc131bccc805d7ffdbbc3b12');
INSERT INTO "ledger_seals" VALUES('bank',15,'9e5b88e16fae864a7b3d1e5fdabdcaa406113bb09050772e5fc8a27a97d39537');
INSERT INTO "ledger_seals" VALUES('copy',9,'5eb7bc2fae8e4c84296faacc9209594eb7b97f4ab2279ebf0467d42f4005671a');
INSERT INTO "ledger_seals" VALUES('shop',10,'e99cc614390bd2abbd5f345bc2f4c24056978f15c063daa97996057f094fbb8a');
INSERT INTO "ledger_seals" VALUES('bank',16,'d3d27f3d943de2a6878b1ea01cf3650c69647d21a68ddc7bb93a665a7f4b555a');
INSERT INTO "ledger_seals" VALUES('copy',10,'141461216ccee204ad8b990691beaf40cdee90e4c9aa137a60715b88bb288d49');
INSERT INTO "ledger_seals" VALUES('shop',11,'98cac56e4b47da19ccf031309eacbd8c8ed75c1bc1631e26aec2e0b410528f6a');
CREATE INDEX ledger_records_of ON ledger_records (dataset, number);
CREATE INDEX ledger_marks_of ON ledger_marks (dataset, number);
COMMIT;
