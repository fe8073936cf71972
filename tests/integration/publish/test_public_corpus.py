"""A whole run with classes whose names say nothing and a public corpus: both kinds of texts leave, marked."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.support.paths import DESK
from tests.support.runs.pipeline import Pipeline
from tests.support.runs.served_flow import states_of_steps
from tests.support.tracking import client_of

QUEUES = {
    "queue_1": ["login_problem"],
    "queue_2": ["billing_question"],
    "queue_3": ["slow_internet"],
    "queue_4": ["delivery_delay"],
    "queue_5": ["cancel_contract"],
    "queue_6": ["hardware_fault"],
}
CORPUS = {
    "path": "builtin:support_desk/public.parquet",
    "source": "Help desk of a made-up town",
    "licence": "cc-by-4.0",
}
UNNAMED: dict[str, Any] = {
    "task": "support_queues",
    "private": {"classes": QUEUES},
    "test": {"classes": QUEUES},
    "text_labels": "soft",
}
CHANGES: dict[str, Any] = UNNAMED | {
    "method": {"guidance": "kernel", "iterations": 2, "samples": 72, "examples": 4},
    "public_corpus": CORPUS,
}
Finished = tuple[Pipeline, dict[str, Any]]


@pytest.fixture(scope="module")
def finished(api: str, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    pipeline = Pipeline(tmp_path_factory.mktemp("corpus") / "home", api)
    return pipeline, pipeline.run(**CHANGES)


def exported(pipeline: Pipeline, run_id: str, folder: Path) -> tuple[pd.DataFrame, str]:
    """Export a run; return the rows and the card of its bundle, which verifies."""
    pipeline.answer("export", run_id, str(folder))
    assert pipeline.answer("verify-bundle", str(folder))["problems"] == []
    rows = pd.read_parquet(folder / "synthetic.parquet")
    lines = (folder / "synthetic.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["text"] for line in lines] == rows["text"].tolist()
    return rows, (folder / "README.md").read_text(encoding="utf-8")


def test_the_bundle_has_written_and_public_texts_with_source_and_licence(
    finished: Finished, tmp_path: Path
) -> None:
    pipeline, run = finished
    rows, card = exported(pipeline, run["run_id"], tmp_path / "out")
    public = rows[rows["source"] != ""]
    assert set(public["source"]) == {CORPUS["source"]}
    assert sorted(public["text"]) == sorted(pd.read_parquet(DESK / "public.parquet")["text"])
    assert (public["plm"] == "").all()
    assert rows["sample_id"].is_unique
    assert len(rows) - len(public) == run["n_synthetic"] == 72
    assert rows["plm"].nunique() == 3
    assert set(rows["label_best"]) <= set(QUEUES)
    assert np.array(rows["label_soft"].tolist()).sum(axis=1) == pytest.approx(1, abs=1e-5)
    assert "60 further texts are copies of public texts of Help desk of a made-up town" in card
    assert "(licence cc-by-4.0)" in card
    assert "- `source` (text): source of a public text" in card


def test_no_further_release_is_charged_and_the_floors_have_the_public_texts(
    finished: Finished,
) -> None:
    pipeline, run = finished
    assert pipeline.released() == ["guidance"]
    assert run["releases"] == 1
    measured = run["usefulness"]
    assert measured["public"]["texts"] <= measured["zero_shot"]["texts"]
    assert run["public_accuracy"] == measured["public"]["value"]
    assert measured["accuracy"]["texts"] == 132
    assert "public texts labelled by the release" in Path(run["report"]).read_text()


def test_the_run_says_how_near_the_corpus_is_and_tracks_rows_by_source(finished: Finished) -> None:
    pipeline, run = finished
    report = json.loads((pipeline.home / "runs" / run["run_id"] / "report.json").read_text())
    (section,) = (part for part in report["sections"] if part["title"] == "Public texts")
    assert "60 texts of Help desk of a made-up town (licence cc-by-4.0)" in section["text"]
    assert "mean of the release: corpus 0." in section["text"]
    client = client_of(f"sqlite:///{pipeline.home / 'mlflow.db'}")
    tracked = client.get_run(run["mlflow_run_id"]).data.metrics
    assert (tracked["texts/rows_written"], tracked["texts/rows_public"]) == (72, 60)


def heads(pipeline: Pipeline, run_id: str) -> set[str]:
    """Return the inputs of a run's soft labels: `others` are labelled by the head of `samples`."""
    manifest = pipeline.home / "runs" / run_id / "_soft_labels.parquet.json"
    return set(json.loads(manifest.read_text())["inputs"])


def test_names_decide_which_head_labels_the_public_texts(
    finished: Finished, tmp_path: Path
) -> None:
    pipeline, run = finished
    assert heads(pipeline, run["run_id"]) == {"samples"}
    plain = {name: CHANGES[name] for name in ("method", "text_labels", "public_corpus")}
    copy = pipeline.copied(tmp_path / "home")
    named = copy.run(**plain, private={"name": "named"})
    assert heads(copy, named["run_id"]) == {"samples", "others"}
    assert copy.released("named") == ["guidance"]


def test_public_texts_can_be_left_out_and_a_repeated_run_reuses_all(
    finished: Finished, tmp_path: Path
) -> None:
    pipeline, run = finished
    again = pipeline.run(**CHANGES, export={"public_rows": False})
    assert again["run_id"] == run["run_id"]
    states = states_of_steps(pipeline.api, again["prefect_run_id"])
    assert states["label public corpus"] == states["label softly"] == states["collect"] == "Reused"
    assert pipeline.released() == ["guidance"]
    rows, card = exported(pipeline, run["run_id"], tmp_path / "out")
    assert len(rows) == 72
    assert "source" not in rows
    assert "public texts of Help desk of a made-up town (licence cc-by-4.0) are not in this" in card
