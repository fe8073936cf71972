"""Guidance by a released density, and releases of a method next to it, reported the same way everywhere."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from datasets import load_dataset

from flows.config.task_files import load_task
from flows.engine.plan import planned
from tasks.reporting import terminal as text
from tests.support.runs.pipeline import Pipeline
from tests.support.runs.prepared_run import config

Ran = tuple[Pipeline, dict[str, Any]]


@pytest.fixture(scope="module")
def ran(api: str, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    pipeline = Pipeline(tmp_path_factory.mktemp("guided") / "home", api)
    return pipeline, pipeline.run(
        method={"guidance": "auto"}, private={"rows": 60, "rows_are_public": True}
    )


def test_a_run_releases_one_density_and_ends_with_all_texts(ran: Ran) -> None:
    pipeline, summary = ran
    folder = pipeline.home / "runs" / summary["run_id"]
    assert summary["releases"] == 1
    assert 3.99 < summary["epsilon_spent"] <= 4
    assert list(pipeline.releases(summary["run_id"])) == ["guidance/release.parquet"]
    assert summary["n_synthetic"] == 72
    assert not summary["degraded"], summary["problems"]
    chosen = pd.read_parquet(folder / "iteration=1" / "selection.parquet")
    assert chosen.groupby(["label", "kind"]).size().tolist() == [4, 2] * 6, (
        "as many good ones as a prompt shows"
    )
    report = json.loads((folder / "report.json").read_text())
    (released,) = report["released"]
    assert "one sum of features per class" in released["text"]
    page = (folder / "report.html").read_text()
    assert "Released: one sum of features per class" in page
    assert "The rows are public: exactly 60 are drawn, stratified by class" in page


def test_another_run_on_the_same_rows_reads_the_density_back_without_a_charge(ran: Ran) -> None:
    pipeline, summary = ran
    changes = {
        "method": {"guidance": "auto", "samples": 54},
        "student": {"kind": "mlp", "epochs": 3},
    }
    again = pipeline.run(**changes, private={"rows": 60, "rows_are_public": True})
    assert again["run_id"] != summary["run_id"]
    assert pipeline.releases(again["run_id"]) == pipeline.releases(summary["run_id"])
    assert again["releases_charged"] == 0
    (status,) = pipeline.answer("budget", "show", "desk")["datasets"]
    assert status["spent"] == pytest.approx(summary["epsilon_spent"], rel=1e-3)
    assert again["epsilon_spent"] == summary["epsilon_spent"], (
        "the texts stand on the release, whoever paid"
    )


def test_the_plan_says_what_to_change_where_votes_drown_in_noise_or_all_texts_become_examples(
    home: Path,
) -> None:
    assert "Or set method.guidance: auto" in text.plan(
        planned(config(private={"rows": 110, "of": 120}))
    )
    few = {"guidance": "kernel", "iterations": 2, "samples": 36}
    lines = text.plan(planned(config(method=few, private={"rows": 6, "of": 120})))
    assert "1 density of the private rows per class" in lines
    assert "nearly all become examples. Write more texts" in lines


def test_a_bundle_has_soft_labels_and_says_what_guided_its_texts(ran: Ran, tmp_path: Path) -> None:
    pipeline, summary = ran
    folder = tmp_path / "bundle"
    pipeline.answer("export", summary["run_id"], str(folder), "--license", "cc-by-4.0")
    card = " ".join((folder / "README.md").read_text().split())
    assert "Released with noise: one sum of features per class" in card
    assert "only voted" not in card
    assert "label_soft" in card
    table = pd.read_parquet(folder / "synthetic.parquet")
    assert card.index("Train on label_soft") < card.index("Privacy statement")
    page = (pipeline.home / "runs" / summary["run_id"] / "report.html").read_text()
    assert "Train on label_soft" in page
    labels = load_task("support_desk").label_names
    soft = pd.DataFrame(table["label_soft"].tolist(), columns=list(labels))
    assert table["label_best"].tolist() == soft.idxmax(axis=1).tolist()
    assert soft.shape == (len(table), 6)
    assert soft.sum(axis=1).to_numpy() == pytest.approx(1, abs=1e-4)
    fields = json.loads((folder / "croissant.json").read_text())["recordSet"][0]["field"]
    assert next(field for field in fields if field["name"] == "label_soft")["repeated"] is True
    loaded = load_dataset("parquet", data_files=str(folder / "synthetic.parquet"), split="train")
    assert len(loaded[0]["label_soft"]) == 6
