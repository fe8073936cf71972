"""A whole run on a registered dataset: it knows the name, and nothing outside the zone knows the location."""

from pathlib import Path

import pytest

from tests.support.data.planted_strings import planted_rows
from tests.support.runs.pipeline import Pipeline


@pytest.mark.runs
def test_a_run_names_its_dataset_and_no_file_of_it_has_the_location(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path / "home")
    (tmp_path / "owners_folder").mkdir()
    path = planted_rows(tmp_path / "owners_folder" / "rows.parquet")
    config = str(pipeline.config(private="clinic"))
    unknown = pipeline.call("run", "wasp", "--config", config, "--json")
    assert (unknown.returncode, "wasp dataset add clinic" in unknown.stderr) == (2, True)
    pipeline.answer("dataset", "add", "clinic", "--path", path, "--person", "whose", "--epsilon-cap", "4")
    plan = pipeline.call("plan", "wasp", "--config", config)
    assert "registered dataset clinic" in plan.stdout
    summary = pipeline.answer("run", "wasp", "--config", config)
    assert summary["epsilon_spent"] == pytest.approx(4.0, rel=1e-6)
    files = [file for file in (pipeline.home / "runs" / summary["run_id"]).rglob("*") if file.is_file()]
    assert len(files) > 5
    assert not [file for file in files if b"owners_folder" in file.read_bytes()]
    again = pipeline.call("run", "wasp", "--config", str(pipeline.config(private="clinic", execution={"seed": 7})))
    assert again.returncode == 3, "the cap of the owner is spent"
    pipeline.answer("resume", summary["run_id"])
