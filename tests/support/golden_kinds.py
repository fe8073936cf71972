"""Configurations of the tests that release each kind of result in each way: a method of `values`, and changes of it."""

PERSON = ("private.person=who", "privacy.protects=person", "privacy.rows_per_person=3")
REPLACED = "privacy.adjacency=replace_one"
NO_NOISE = "privacy.epsilon=.inf"
VOTES = "method.guidance=votes"
DENSITY = "method.guidance=kernel"
AUTO = "method.guidance=auto"
PARTIES = "parties={registry: REGISTRY, exchange: exchange, name: desks}"
VOCABULARY = "vocabulary={path: 'builtin:vocabularies/demo.parquet'}"
TRAINED = (
    "method.select=dp_sgd",
    "method.training={declared_rows: 120, batch_rows: 120, steps: 4}",
)
"""All rows in each step: the noise of such a training is found in the least time."""
LAPLACE = "discriminator.noise=laplace"

KINDS: dict[str, tuple[str, ...]] = {
    # votes
    "votes without noise": ("wasp", NO_NOISE),
    "votes, replacing": ("wasp", REPLACED),
    "votes, exact rows": ("wasp", "private.rows=60"),
    "votes, exact rows of a source": ("wasp", "private.rows=60", "private.of=120"),
    "votes, public rows": ("wasp", "private.rows=60", "private.rows_are_public=true"),
    "votes, paper": ("wasp", "privacy.calibration=paper"),
    "votes, paper, replacing": ("wasp", "privacy.calibration=paper", REPLACED),
    "votes, one each": ("wasp", "method.votes=1"),
    "votes, too much noise": ("wasp", "private.declared_rows=120", "privacy.epsilon=0.5"),
    "votes of persons": ("wasp", *PERSON),
    "votes of persons, sum": ("wasp", *PERSON, "privacy.joined_by=sum"),
    "votes of persons, mean": ("wasp", *PERSON, "privacy.joined_by=mean"),
    "votes of persons, replacing": ("wasp", *PERSON, REPLACED),
    "no rows": ("wasp", AUTO, "private=null"),
    "votes, a group": ("wasp", "private.group=helpdesk"),
    "near votes, paper": ("pre_text", "privacy.calibration=paper"),
    "near votes without noise": ("pre_text", NO_NOISE),
    "near votes of persons": ("pre_text", *PERSON),
    # votes of parties
    "parties": ("wasp", "private=null", PARTIES),
    "parties, two collude": (
        "wasp",
        "private=null",
        PARTIES,
        "parties.colluding=2",
        "parties.minimum=5",
    ),
    "parties, none colludes": ("wasp", "private=null", PARTIES, "parties.colluding=0"),
    "parties of persons": ("wasp", "private=null", PARTIES, *PERSON[1:]),
    "parties without noise": ("wasp", "private=null", PARTIES, NO_NOISE),
    "parties, near votes": ("pre_text", "private=null", PARTIES),
    # one density
    "density": ("wasp", DENSITY, "private.declared_rows=120"),
    "density without noise": ("wasp", DENSITY, NO_NOISE),
    "density, replacing": ("wasp", DENSITY, REPLACED),
    "density of persons": ("wasp", DENSITY, *PERSON),
    "density of persons, replacing": ("wasp", DENSITY, *PERSON, REPLACED),
    "density, too much noise": ("wasp", DENSITY, "private.declared_rows=20", "privacy.epsilon=0.5"),
    "density, hard labels": ("wasp", DENSITY, "text_labels=hard"),
    "auto, opened": ("wasp", AUTO, "private.declared_rows=120"),
    "auto, closed": ("wasp", AUTO, "private.declared_rows=40"),
    "auto, closed to persons": ("wasp", AUTO, "private.declared_rows=40", *PERSON),
    # a vocabulary, and densities of phrases
    "words before votes": ("aug_pe", "method.keywords=private_vocabulary", VOCABULARY),
    "words before votes, split": (
        "aug_pe",
        "method.keywords=private_vocabulary",
        VOCABULARY,
        "privacy.vocabulary_epsilon=1",
        REPLACED,
    ),
    "phrases, Laplace": ("dp_kps", "privacy.setting=pure"),
    "phrases, Laplace, replacing": ("dp_kps", "privacy.setting=pure", REPLACED),
    "phrases, paper": ("dp_kps", "privacy.setting=paper"),
    "phrases, replacing": ("dp_kps", REPLACED),
    "phrases, split": ("dp_kps", "privacy.vocabulary_epsilon=1"),
    # label counts, answers of teachers, a classifier
    "answers": ("kd_tutor", "class_balance=balanced"),
    "answers, Laplace": ("kd_tutor", "class_balance=balanced", LAPLACE),
    "answers with public rows": (
        "kd_tutor",
        "public={path: 'builtin:support_desk/public.parquet'}",
    ),
    "counts and answers, Laplace": ("kd_tutor", LAPLACE),
    "counts and answers, paper": ("kd_tutor", "privacy.calibration=paper"),
    "counts and answers, replacing": ("kd_tutor", REPLACED),
    "counts and answers, split": ("kd_tutor", "privacy.tutor_epsilon=1"),
    "counts and answers without noise": ("kd_tutor", NO_NOISE),
    "exact counts and answers": ("kd_tutor", "class_balance=exact"),
    "counts": ("kd_tutor", "method.select=chance"),
    "exact counts": ("kd_tutor", "method.select=chance", "class_balance=exact"),
    "counts and a classifier": ("kd_tutor", *TRAINED),
    "a classifier": ("kd_tutor", *TRAINED, "class_balance=balanced"),
    "exact counts and a classifier": ("kd_tutor", *TRAINED, "class_balance=exact"),
    "counts and a classifier without noise": ("kd_tutor", *TRAINED, NO_NOISE),
    # trainings
    "language model without noise": ("dp_sgd_gen", NO_NOISE),
    "classifier without noise": ("dp_sgd_student", NO_NOISE),
    "fine-tuned classifier": ("dp_sgd_student", "student={kind: finetune, model: embedded}"),
}
"""Each configuration by its name."""
