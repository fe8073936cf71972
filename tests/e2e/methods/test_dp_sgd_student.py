"""A student that learns by DP-SGD, and texts chosen by such a classifier: one charge each, read back, no bundle."""

import json
from pathlib import Path

import pytest

from tests.support.runs.pipeline import Pipeline, last_json


def released(pipeline: Pipeline) -> list[str]:
    entries = last_json(pipeline.call("budget", "history", "desk", "--json").stdout)["entries"]
    return [entry["slot"] for entry in entries if entry["kind"] == "release"]


def test_the_student_is_paid_once_tested_and_no_bundle(api: str, tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path / "home", api, method="dp_sgd_student")
    summary = pipeline.run()
    assert (summary["releases"], summary["n_synthetic"], summary["not_private"]) == (1, 0, False)
    assert 3.0 < summary["epsilon_spent"] <= 4.0
    assert summary["accuracy"] is not None
    again = pipeline.run()
    assert again["accuracy"] == summary["accuracy"]
    assert released(pipeline) == ["training"]
    folder = pipeline.home / "runs" / summary["run_id"]
    places = json.loads((folder / "report.json").read_text())["places"]
    assert (Path(places["student"]) / "student.json").exists()
    refused = pipeline.call("export", summary["run_id"], str(tmp_path / "bundle"))
    assert refused.returncode == 2
    assert "has no synthetic texts" in refused.stderr
    assert pipeline.call("budget", "verify", "desk").returncode == 0


@pytest.mark.parametrize("clipping", [pytest.param("hooks", marks=pytest.mark.slow), "ghost"])
def test_texts_are_chosen_by_a_classifier_that_learned_by_dp_sgd(api: str, tmp_path: Path, clipping: str) -> None:
    pipeline = Pipeline(tmp_path / "home", api, method="kd_tutor")
    steps = {"declared_rows": 120, "batch_rows": 60, "steps": 6, "clipping": clipping}
    summary = pipeline.run(method={"select": "dp_sgd", "training": steps})
    assert sorted(released(pipeline)) == ["labels", "training"]
    assert (summary["releases"], summary["n_synthetic"]) == (2, 36)
    assert summary["epsilon_spent"] <= 4.0
    page = (pipeline.home / "runs" / summary["run_id"] / "report.html").read_text()
    assert "steps of DP-SGD" in page
    assert "the number of private rows in each class" in page
