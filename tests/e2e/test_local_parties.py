"""`wasp run --local-parties`: server, folders and processes of a federated try by one command, and nothing left."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.paths import ROOT
from tests.support.runs.pipeline import SMALL, Pipeline, last_json


def call(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = Pipeline(folder / "home").environment | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "flows.cli.main", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=550)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    values = SMALL | {
        "private": None,
        "parties": {"registry": "parties/parties.yaml", "exchange": "parties/exchange", "minutes": 4},
        "embedder": {"connector": "hashing", "model": "", "options": {}},
        "method": {"guidance": "votes", "iterations": 2, "samples": 48, "votes": 4, "examples": 4},
    }
    (tmp_path / "try.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    return tmp_path


def test_one_command_runs_a_federated_try_and_leaves_no_process(folder: Path) -> None:
    done = call(folder, "run", "try", "--local-parties", "3", "--json")
    assert done.returncode == 0, done.stderr[-3000:]
    summary = last_json(done.stdout)
    assert [one["parties"] for one in summary["parties"]["rounds"]] == [3]
    assert (summary["releases"], summary["n_synthetic"]) == (1, 48)
    assert len(list((folder / "parties").glob("*/party.yaml"))) == 3
    left = [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(folder).encode() in path.read_bytes()]
    assert left == []
    other = call(folder, "run", "try", "--local-parties", "2")
    assert other.returncode == 2
    assert "has 3 parties, and --local-parties asks for 2" in other.stderr


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parties": None, "private": SMALL["private"]}, "needs 'parties:'"),
        ({"task": "imdb"}, "no example records of the task 'imdb' are shipped"),
    ],
)
def test_a_try_without_parties_or_records_is_one_clear_error(
    folder: Path, changes: dict[str, object], message: str
) -> None:
    values = yaml.safe_load((folder / "try.yaml").read_text(encoding="utf-8")) | changes
    (folder / "try.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    refused = call(folder, "run", "try", "--local-parties", "3")
    assert refused.returncode == 2, refused.stderr
    assert message in refused.stderr
    assert not (folder / "parties").exists()


def test_a_comparison_runs_its_cells_with_real_parties_whose_rows_vary_with_the_seed(folder: Path) -> None:
    values = yaml.safe_load((folder / "try.yaml").read_text(encoding="utf-8"))
    rounds = {"iterations": 2, "samples": 36, "population": 24, "look_ahead": 2, "mask_rounds": 1}
    (folder / "pre_text.yaml").write_text(yaml.safe_dump(values | {"method": rounds}), encoding="utf-8")
    rows = [
        {"name": "WASP", "config": "try.yaml", "set": {"method.samples": 36}},
        {"name": "PrE-Text", "flow": "pre_text", "config": "pre_text.yaml"},
    ]
    places = {"parties.registry": "rows-{seed}/parties.yaml", "parties.exchange": "rows-{seed}/exchange"}
    comparison = {"title": "Parties", "metrics": ["accuracy", "fid"], "rows": rows, "set": places, "seeds": [0, 1]}
    (folder / "matrix.yaml").write_text(yaml.safe_dump(comparison), encoding="utf-8")
    done = call(folder, "compare", "--config", "matrix.yaml", "--local-parties", "3", "--json")
    assert done.returncode == 0, done.stderr[-3000:]
    summary = last_json(done.stdout)
    assert summary["failed"] == 0
    assert [len(list((folder / f"rows-{seed}").glob("*/party.yaml"))) for seed in (0, 1)] == [3, 3]
    for cell in summary["cells"]:
        run = json.loads((folder / "home" / "runs" / cell["run_id"] / "summary.json").read_text(encoding="utf-8"))
        assert {one["parties"] for one in run["parties"]["rounds"]} == {3}, cell["row"]
    again = call(folder, "compare", "--config", "matrix.yaml", "--json")
    assert last_json(again.stdout)["reused"] == 4, "stored results need no party"
