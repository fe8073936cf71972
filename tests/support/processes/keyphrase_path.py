"""The release path of DP-KPS: two releases, and the texts that are drawn from them."""

import hashlib
from pathlib import Path

from connectors.interfaces.artifacts import ArtifactRef
from flows.config.files import check_config
from flows.engine.prepare import prepare
from flows.engine.run_manifest import open_manifest
from flows.methods.dp_kps.config import DpKpsConfig
from flows.methods.dp_kps.run import DpKpsRun
from tasks.guidance import phrases as keyphrases
from tasks.private.phrases import step as phrase_releases
from tests.support.processes.release_path import Tell

TERMS = (
    "private",
    "row",
    "number",
    "about",
    "login",
    "problem",
    "billing",
    "question",
    "slow",
    "internet",
    "delivery",
)


def open_run(home: Path, rows: str) -> DpKpsRun:
    """Return the run, on hashed vectors; phrases are its texts, so that no model has to be loaded."""
    terms = Path(rows).with_name("terms.txt")
    if not terms.exists():
        terms.write_text("\n".join(TERMS))
    values = {
        "task": "support_desk",
        "private": {"path": rows, "name": "desk"},
        "vocabulary": {"path": str(terms)},
        "embedder": {"connector": "hashing", "model": "", "options": {"dimension": 16}},
        "method": {"texts": "phrases", "samples": 96, "vocabulary_terms": 8, "length": 3},
        "execution": {"seed": 0},
    }
    prepared = prepare("dp_kps", check_config(DpKpsConfig, values, "the test"), home)
    return DpKpsRun(prepared, open_manifest("dp_kps", prepared), 0.0)


def release_path(home: Path, rows: str, tell: Tell) -> None:
    """Reserve; charge, draw, write and read each part; draw sequences and texts; settle."""
    run = open_run(home, rows)
    tools, name, ledger = run.tools, run.tools.run_name, run.tools.ledger
    run.progress.manifest.update()
    ledger.reserve(name.dataset, run.prepared.plan, "me")

    def report(what: str, ref: ArtifactRef) -> None:
        tell(
            f"{what} {hashlib.sha256(tools.artifacts.read_table(ref).to_csv().encode()).hexdigest()}"
        )

    counted, _ = phrase_releases.count_terms(tools, run.vocabulary_spec)
    report("vocabulary", counted)
    terms, _ = keyphrases.choose_terms(tools, run.vocabulary_spec, counted)
    density, _ = phrase_releases.estimate_densities(tools, run.density_spec, terms)
    report("density", density)
    sequences, _ = keyphrases.draw_phrases(tools, run.density_spec, terms, density)
    report("sequences", sequences)
    texts, _ = keyphrases.phrases_as_texts(tools, sequences, run.prepared.card.label_names, 96)
    report("texts", texts.samples)
    ledger.finish(name.dataset, name.run_id)
    tell("end")
