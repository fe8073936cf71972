"""Two runs that share their first vote: no place states less than the privacy loss of a run's own output."""

import sqlite3
from pathlib import Path

import pytest

from tests.support.runs.pipeline import Pipeline


def test_a_run_that_reuses_a_vote_states_what_its_output_loses_and_what_it_added(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    pipeline.run()
    summary = pipeline.run(method={"examples": 2})  # prompts differ only after the first vote
    assert (summary["releases"], summary["releases_charged"]) == (2, 1)
    assert summary["epsilon_spent"] == pytest.approx(4.0, abs=1e-3)
    assert summary["epsilon_added"] == pytest.approx(2.694, abs=1e-2)
    shown = pipeline.call("show", summary["run_id"]).stdout
    assert "privacy loss of the output: epsilon 4.0000 at delta 1e-05 per record in 2 releases" in shown
    assert "added: epsilon 2.6945 (releases: 1 charged, 1 reused from earlier runs)" in shown
    listed = next(line for line in pipeline.call("runs").stdout.splitlines() if summary["run_id"] in line)
    assert "2.6945" in listed
    assert "4.0000" in listed
    officer = Path(pipeline.answer("budget", "report", "desk")["page"]).read_text(encoding="utf-8")
    assert "98.2 % / 35.5 %" in officer
    assert "93.7 %" not in officer
    page = Path(summary["report"]).read_text(encoding="utf-8")
    assert "releases: 1 charged, 1 reused" in page
    assert "at most 98.2 % sure" in page
    with sqlite3.connect(pipeline.home / "mlflow.db") as database:
        query = "select key, value from metrics where key like 'privacy/epsilon_%' and run_uuid = ?"
        tracked = dict(database.execute(query, (summary["mlflow_run_id"],)).fetchall())
    assert tracked["privacy/epsilon_total"] == summary["epsilon_spent"]
    assert tracked["privacy/epsilon_added"] == summary["epsilon_added"]
    pipeline.answer("export", summary["run_id"], str(tmp_path / "bundle"))
    card = (tmp_path / "bundle" / "README.md").read_text(encoding="utf-8")
    assert "Privacy loss of these texts: epsilon 4.0000" in card
    assert "Added to the budget of the dataset by this run: epsilon 2.694" in card
    assert "Releases: 2 (1 charged, 1 reused)" in card
