"""only_private from end to end: NOT PRIVATE in every place, nothing leaves, no row is found outside the zone."""

import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.support.data.planted_strings import PLANTED, found_outside, planted_rows
from tests.support.paths import ROOT
from tests.support.runs.pipeline import Pipeline, last_json
from tests.support.runs.served_flow import call_api

Done = tuple[Pipeline, dict[str, Any], str]
"""The command, the summary of its run, and what it printed."""


@pytest.fixture(scope="module")
def finished(own_server: tuple[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Done:
    folder = tmp_path_factory.mktemp("only")
    pipeline = Pipeline(folder / "home", own_server[0], method="only_private")
    (folder / "owner").mkdir()
    path = planted_rows(folder / "owner" / "rows.parquet")
    config = pipeline.config(private={"path": path, "name": "planted"})
    # The rows have no cap of their own, so they have the default cap.
    pipeline.call("run", "only_private", "--config", str(config), "--json", code=3)
    pipeline.answer("budget", "cap", "planted", "--epsilon", "inf", "--reason", "a comparison")
    done = pipeline.call("run", "only_private", "--config", str(config), "--json", code=0)
    return pipeline, last_json(done.stdout), done.stdout + done.stderr


def test_nothing_of_a_row_and_nothing_of_the_model_is_found_outside_the_zone(
    finished: Done, own_server: tuple[str, Path]
) -> None:
    pipeline, summary, said = finished
    assert found_outside(pipeline.home, PLANTED) == []
    assert found_outside(own_server[1], PLANTED) == []
    assert not [word for word in PLANTED if word in said]
    models = [path for path in pipeline.home.rglob("head.npz") if path.is_file()]
    assert [path.relative_to(pipeline.home).parts[:2] for path in models] == [
        ("private", "students")
    ]
    assert "120" not in said.replace(summary["run_id"], ""), "the number of private rows"


def test_every_place_says_that_it_is_not_private(
    finished: Done, own_server: tuple[str, Path]
) -> None:
    pipeline, summary, _ = finished
    run_id = summary["run_id"]
    message = (
        summary["not_private"],
        summary["epsilon_spent"],
        summary["n_synthetic"],
        summary["degraded"],
    )
    assert message == (True, None, 0, False)
    manifest = json.loads((pipeline.home / "runs" / run_id / "manifest.json").read_text())
    assert manifest["not_private"] is True
    assert manifest["plan"]["private"] is False
    page = Path(summary["report"]).read_text()
    assert "<strong>NOT PRIVATE</strong>" in page
    assert "a student trained on the private rows" in page
    assert "votes of the private rows" not in page
    assert "NO NOISE is added" in page
    assert "wasp export" not in page
    tags = call_api(own_server[0], f"/flow_runs/{summary['prefect_run_id']}", method="GET")["tags"]
    assert "NOT PRIVATE" in tags
    with sqlite3.connect(pipeline.home / "mlflow.db") as database:
        stored = dict(database.execute("select key, value from tags").fetchall())
    assert stored["wasp.privacy"] == "NOT PRIVATE"
    assert "infinite (NOT PRIVATE)" in pipeline.call("runs").stdout
    shown = pipeline.call("show", run_id).stdout
    assert "NOT PRIVATE" in shown
    assert "export" not in shown
    assert "NOT PRIVATE" in pipeline.call("predict", run_id, "a text").stderr
    plan = pipeline.call(
        "plan", "only_private", "--config", str(pipeline.home.parent / "home-config.yaml")
    ).stdout
    assert "NOT PRIVATE   trains a student" in plan


def test_the_book_and_the_page_of_the_officer_list_the_exposure(
    finished: Done,
) -> None:
    pipeline, summary, _ = finished
    status = pipeline.answer("budget", "show")["datasets"][0]
    assert status["exposed"] is True
    message = [
        (entry["kind"], entry["slot"])
        for entry in pipeline.entries("planted")
        if entry["run_id"] == summary["run_id"]
    ]
    assert message.count(("expose", "train-0")) == 1
    message = pipeline.answer("budget", "report", "planted")
    assert [entry["what"] for entry in message["touched"]] == ["train-0 without noise"]
    page = Path(message["page"]).read_text()
    assert "WITHOUT NOISE" in page
    assert "a student trained on the private rows as they are" in page
    assert "by at most 0 (L2)" not in page


def test_nothing_of_it_can_be_exported(finished: Done, tmp_path: Path) -> None:
    pipeline, summary, _ = finished
    refused = pipeline.call("export", summary["run_id"], str(tmp_path / "bundle"), code=2)
    assert "NOT PRIVATE" in refused.stderr
    assert not (tmp_path / "bundle").exists()


def test_another_run_that_reuses_the_exposure_is_not_private_either(
    finished: Done, tmp_path: Path
) -> None:
    pipeline, summary, _ = finished
    text = (ROOT / "flows" / "config" / "task_files" / "support_desk.yaml").read_text(
        encoding="utf-8"
    )
    (tmp_path / "other.yaml").write_text(
        re.sub("(?m)^item: .*", "item: another item", text), encoding="utf-8"
    )
    rows = {"path": str(pipeline.home.parent / "owner" / "rows.parquet"), "name": "planted"}
    config = pipeline.config(private=rows, task=str(tmp_path / "other.yaml"))
    other = pipeline.answer("run", "only_private", "--config", str(config))
    assert other["run_id"] != summary["run_id"]
    assert (other["epsilon_spent"], other["epsilon_added"]) == (None, 0.0)
    assert (other["releases"], other["releases_charged"]) == (1, 0)
    message = pipeline.answer("budget", "report", "planted")
    line = next(run for run in message["runs"] if run["run_id"] == other["run_id"])
    assert (line["loss"], line["added"], line["sure"]) == (None, 0.0, [1.0, 1.0])
