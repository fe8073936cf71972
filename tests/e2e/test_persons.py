"""Rows of persons and of a registered dataset in whole runs: noise, ledger and report say so."""

from pathlib import Path

import pandas as pd
import pytest

import connectors.data
from tests.support.data.planted_strings import planted_rows
from tests.support.runs.pipeline import Pipeline

PERSON = {"protects": "person", "rows_per_person": 4}


def patients(folder: Path) -> str:
    """Write private rows, three of each person."""
    rows = pd.read_parquet(Path(connectors.data.__file__).parent / "support_desk" / "private.parquet")
    rows["patient"] = [f"patient {number // 3}" for number in range(len(rows))]
    folder.mkdir(exist_ok=True)
    rows.to_parquet(folder / "rows.parquet")
    return str(folder / "rows.parquet")


def test_a_person_is_protected_with_all_rows(pipeline: Pipeline, tmp_path: Path) -> None:
    private = {"path": patients(tmp_path / "owner"), "name": "ward", "person": "patient"}
    pipeline.answer("budget", "cap", "ward", "--epsilon", "4", "--declare", "--protects", "person")
    done = pipeline.run(private=private, privacy=PERSON)
    assert done["epsilon_spent"] == pytest.approx(4.0, abs=1e-3)
    book = pipeline.entries("ward")
    released = [entry for entry in book if entry["kind"] == "release"]
    assert {entry["protects"] for entry in released} == {"person"}
    one_row = (8 / 3 * (1 - 4**-8)) ** 0.5
    assert {round(entry["sensitivity"], 6) for entry in released} == {round(2 * one_row, 6)}
    report = Path(done["report"]).read_text(encoding="utf-8")
    assert "one person with all of their used rows" in report
    pipeline.answer("export", done["run_id"], str(tmp_path / "bundle"))
    assert "one person (at most 4 rows of each, joined by max)" in (tmp_path / "bundle" / "README.md").read_text()
    records = pipeline.call("run", "wasp", "--config", str(pipeline.config(private=private)))
    assert records.returncode == 2
    assert "privacy.protects: person" in records.stderr


# --- a whole run on a registered dataset: it knows the name, and nothing outside the zone knows the location
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
