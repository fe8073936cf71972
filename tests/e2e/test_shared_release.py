"""Two runs that share their first vote: no place states less than the privacy loss of a run's own output."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.support.runs.pipeline import Pipeline


@pytest.fixture(scope="module")
def second(api: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Pipeline, dict[str, Any]]:
    """The second of two runs: prompts differ only after the first vote, so that the ledger holds it already."""
    pipeline = Pipeline(tmp_path_factory.mktemp("shared") / "home", api)
    pipeline.run()
    return pipeline, pipeline.run(method={"examples": 2})


def test_the_summary_has_both_figures(second: tuple[Pipeline, dict[str, Any]]) -> None:
    _, summary = second
    assert (summary["releases"], summary["releases_charged"]) == (2, 1)
    assert summary["epsilon_spent"] == pytest.approx(4.0, abs=1e-3)
    assert summary["epsilon_added"] == pytest.approx(2.694, abs=1e-2)


def test_the_page_of_the_officer_states_the_loss_of_the_output(second: tuple[Pipeline, dict[str, Any]]) -> None:
    pipeline, summary = second
    told = pipeline.answer("budget", "report", "desk")
    line = next(run for run in told["runs"] if run["run_id"] == summary["run_id"])
    assert line["loss"] == pytest.approx(summary["epsilon_spent"], rel=1e-9)
    assert line["added"] == pytest.approx(summary["epsilon_added"], rel=1e-9)
    assert line["sure"][0] == pytest.approx(0.982, abs=1e-3)
    assert "98.2 % / 35.5 %" in Path(told["page"]).read_text(encoding="utf-8")
    assert "93.7 %" not in Path(told["page"]).read_text(encoding="utf-8")


def test_commands_report_and_tracking_show_both_figures(second: tuple[Pipeline, dict[str, Any]]) -> None:
    pipeline, summary = second
    shown = pipeline.call("show", summary["run_id"]).stdout
    assert "privacy loss of the output: epsilon 4.0000 at delta 1e-05 per record in 2 releases" in shown
    assert "added: epsilon 2.6945 (releases: 1 charged, 1 reused from earlier runs)" in shown
    listed = next(line for line in pipeline.call("runs").stdout.splitlines() if summary["run_id"] in line)
    assert "2.6945" in listed
    assert "4.0000" in listed
    page = Path(summary["report"]).read_text(encoding="utf-8")
    assert "releases: 1 charged, 1 reused" in page
    assert "at most 98.2 % sure" in page
    with sqlite3.connect(pipeline.home / "mlflow.db") as database:
        query = "select value from metrics where key = ? and run_uuid = ?"
        tracked = {
            name: database.execute(query, (name, summary["mlflow_run_id"])).fetchone()[0]
            for name in ("privacy/epsilon_total", "privacy/epsilon_added")
        }
    assert tracked == {
        "privacy/epsilon_total": summary["epsilon_spent"],
        "privacy/epsilon_added": summary["epsilon_added"],
    }


def test_the_bundle_states_the_loss_of_its_texts(second: tuple[Pipeline, dict[str, Any]], tmp_path: Path) -> None:
    pipeline, summary = second
    pipeline.answer("export", summary["run_id"], str(tmp_path / "bundle"))
    card = (tmp_path / "bundle" / "README.md").read_text(encoding="utf-8")
    assert "Privacy loss of these texts: epsilon 4.0000" in card
    assert "Added to the budget of the dataset by this run: epsilon 2.694" in card
    assert "Releases: 2 (1 charged, 1 reused)" in card
