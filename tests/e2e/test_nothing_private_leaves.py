"""Planted strings: nothing of a private row is found outside the private zone, whatever happens to the run."""

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
    assert [found for folder in folders for found in found_outside(folder, PLANTED)] == []
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
    assert {found.split(" in ")[0] for found in found_outside(tmp_path, PLANTED)} == set(PLANTED)


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
        private={"path": str(owner / "rows.parquet"), "name": "planted", "person": "whose"}, privacy=privacy
    )
    done = pipeline.call("run", pipeline.flow, "--config", str(config), "--json")
    assert done.returncode == 0, done.stderr[-3000:]
    run_id = last_json(done.stdout)["run_id"]
    exported = pipeline.call("export", run_id, str(tmp_path / "bundle"))
    assert exported.returncode == 0, exported.stderr
    printed = done.stdout + done.stderr + exported.stdout + exported.stderr
    assert_found_nowhere(pipeline.home, prefect, tmp_path / "bundle", printed=printed)
    with sqlite3.connect(pipeline.home / "mlflow.db") as database:
        stored = database.execute("select digest, dataset_profile from datasets where name = 'planted'").fetchall()
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
    done = pipeline.call("run", "wasp", "--config", str(pipeline.config(private={"path": str(path), "name": "odd"})))
    assert done.returncode == 0, done.stderr[-3000:]
    assert "crimsonpelican-label" not in done.stdout + done.stderr
    assert [
        problem["row"] for problem in json.loads((pipeline.home / "private/problems/odd.json").read_text())["problems"]
    ] == [5]
    assert_found_nowhere(pipeline.home, prefect, printed=done.stdout + done.stderr)


def test_an_error_inside_the_private_zone_keeps_its_words(
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
    done = pipeline.call("run", "wasp", "--config", str(pipeline.config(private={"path": str(owner / "rows.parquet")})))
    assert done.returncode == 2, done.stderr[-2000:]
    assert "PRIVATE-STEP" in done.stderr
    told = [file.read_text() for file in (pipeline.home / "private" / "problems").glob("failure-*")]
    assert told
    assert PLANTED[0] in told[0]
    assert_found_nowhere(pipeline.home, prefect, printed=done.stdout + done.stderr)
