"""Planted strings: nothing of a private row is found outside the private zone, even if the run fails."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.support.data.planted_strings import PLANTED, found_outside, planted_rows
from tests.support.runs.pipeline import Pipeline, last_json


def assert_found_nowhere(*folders: Path, printed: str) -> None:
    """Fail if anything of a planted row is in a folder outside the private zone, or was printed."""
    assert [result for folder in folders for result in found_outside(folder, PLANTED)] == []
    assert [word for word in PLANTED if word in printed] == []


@pytest.fixture
def owner(tmp_path: Path) -> Path:
    """Return the folder of an owner with planted rows."""
    (tmp_path / "owner").mkdir()
    planted_rows(tmp_path / "owner" / "rows.parquet")
    return tmp_path / "owner"


def test_the_search_finds_what_is_planted(tmp_path: Path) -> None:
    planted_rows(tmp_path / "rows.parquet")
    (tmp_path / "private").mkdir()
    planted_rows(tmp_path / "private" / "rows.parquet")
    assert {result.split(" in ")[0] for result in found_outside(tmp_path, PLANTED)} == set(PLANTED)


@pytest.mark.parametrize(
    ("method", "privacy"),
    [
        ("wasp", {"protects": "record"}),
        ("wasp", {"protects": "person", "rows_per_person": 2}),
        ("pre_text", {"protects": "record"}),
        ("pre_text", {"protects": "person", "rows_per_person": 2}),
        ("aug_pe", {"protects": "record"}),
        ("dp_sgd_gen", {"protects": "record"}),
        ("dp_kps", {"protects": "record"}),
        ("kd_tutor", {"protects": "record"}),
    ],
)
def test_nothing_of_a_private_row_is_found_after_a_run(
    own_server: tuple[str, Path], owner: Path, tmp_path: Path, method: str, privacy: dict[str, Any]
) -> None:
    api, prefect = own_server
    pipeline = Pipeline(tmp_path / "home", api, method=method)
    config = pipeline.config(
        private={"path": str(owner / "rows.parquet"), "name": "planted", "person": "whose"},
        privacy=privacy,
    )
    done = pipeline.call("run", pipeline.flow, "--config", str(config), "--json", code=0)
    run_id = last_json(done.stdout)["run_id"]
    exported = pipeline.call("export", run_id, str(tmp_path / "bundle"), code=0)
    printed = done.stdout + done.stderr + exported.stdout + exported.stderr
    assert_found_nowhere(pipeline.home, prefect, tmp_path / "bundle", printed=printed)
    with sqlite3.connect(pipeline.home / "mlflow.db") as database:
        stored = database.execute(
            "select digest, dataset_profile from datasets where name = 'planted'"
        ).fetchall()
    assert stored
    assert all("120" not in str(profile) and digest == "not-recorded" for digest, profile in stored)


def test_an_odd_row_changes_no_outcome_and_is_found_nowhere(
    own_server: tuple[str, Path], owner: Path, tmp_path: Path
) -> None:
    api, prefect = own_server
    pipeline = Pipeline(tmp_path / "home", api)
    path = owner / "rows.parquet"
    rows = pd.read_parquet(path)
    rows.loc[5, "label"] = "crimsonpelican-label"
    rows.to_parquet(path)
    done = pipeline.call(
        "run",
        "wasp",
        "--config",
        str(pipeline.config(private={"path": str(path), "name": "odd"})),
        code=0,
    )
    assert "crimsonpelican-label" not in done.stdout + done.stderr
    assert [
        problem["row"]
        for problem in json.loads((pipeline.home / "private/problems/odd.json").read_text())[
            "problems"
        ]
    ] == [5]
    assert_found_nowhere(pipeline.home, prefect, printed=done.stdout + done.stderr)


def test_an_error_inside_the_private_zone_keeps_its_message(
    own_server: tuple[str, Path], owner: Path, tmp_path: Path
) -> None:
    """An embedder that chokes on a private text quotes it in its error; the quote stays in the zone."""
    api, prefect = own_server
    pipeline = Pipeline(tmp_path / "home", api)
    pipeline.patched(
        "import connectors.embedders.registry as e\n"
        "def choke(self, texts):\n    raise ValueError('cannot encode ' + ' '.join(texts))\n"
        "e.HashingEmbedder.embed_alone = choke\n"
    )
    done = pipeline.call(
        "run",
        "wasp",
        "--config",
        str(pipeline.config(private={"path": str(owner / "rows.parquet")})),
        code=2,
    )
    assert "PRIVATE-STEP" in done.stderr
    message = [
        file.read_text() for file in (pipeline.home / "private" / "problems").glob("failure-*")
    ]
    assert message
    assert PLANTED[0] in message[0]
    assert_found_nowhere(pipeline.home, prefect, printed=done.stdout + done.stderr)


# --- rows of persons and of a registered dataset: noise, ledger and report say so
PERSON = {"protects": "person", "rows_per_person": 4}


def test_a_person_is_protected_with_all_rows(pipeline: Pipeline, tmp_path: Path) -> None:
    private = {"path": planted_rows(tmp_path / "rows.parquet"), "name": "ward", "person": "whose"}
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
    assert (
        "one person (at most 4 rows of each, joined by max)"
        in (tmp_path / "bundle" / "README.md").read_text()
    )
    records = pipeline.call(
        "run", "wasp", "--config", str(pipeline.config(private=private)), code=2
    )
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
    pipeline.answer(
        "dataset",
        "add",
        "clinic",
        "--path",
        path,
        "--person",
        "whose",
        "--epsilon-cap",
        "4",
        "--yes",
    )
    plan = pipeline.call("plan", "wasp", "--config", config)
    assert "registered dataset clinic" in plan.stdout
    summary = pipeline.answer("run", "wasp", "--config", config)
    assert summary["epsilon_spent"] == pytest.approx(4.0, rel=1e-6)
    files = [
        file for file in (pipeline.home / "runs" / summary["run_id"]).rglob("*") if file.is_file()
    ]
    assert len(files) > 5
    assert not [file for file in files if b"owners_folder" in file.read_bytes()]
    # The cap of the owner is spent.
    pipeline.call(
        "run",
        "wasp",
        "--config",
        str(pipeline.config(private="clinic", execution={"seed": 7})),
        code=3,
    )
    pipeline.answer("resume", summary["run_id"])
