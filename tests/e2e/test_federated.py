"""Parties as processes with folders and books of their own, a coordinator's run, one real Prefect server."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chisquare

from connectors.interfaces.rows import RowsRef
from flows.federation.partition import PartyFile, partition
from flows.runtime.stores import open_ledger
from tasks.federation.partition import Partition
from tests.support.processes.parties import party_processes, wait_for_parties
from tests.support.runs.federation import PLANTED, planted_rows
from tests.support.runs.pipeline import Pipeline, last_json
from tests.support.runs.served_flow import artifacts, ask


@pytest.fixture
def parties(api: str, tmp_path: Path) -> Path:
    folder = tmp_path / "parties"
    rows = planted_rows(tmp_path / "rows.parquet")
    partition(RowsRef(str(rows)), folder, Partition(3), PartyFile("8", api=api, embedder="hashing"), tmp_path / "home")
    rows.unlink()
    for file in folder.glob("*/party.yaml"):
        file.write_text(file.read_text() + "poll_seconds: 0.5\n")
    return folder


def uniform(data: bytes) -> float:
    """Return the p-value of a chi-squared test that all bytes are equally likely."""
    return float(chisquare(np.bincount(np.frombuffer(data, np.uint8), minlength=256)).pvalue)


def test_three_parties_and_a_coordinator_from_start_to_end(api: str, tmp_path: Path, parties: Path) -> None:
    pipeline = Pipeline(tmp_path / "home", api)
    files = sorted(parties.glob("*/party.yaml"))
    changes = {
        "private": None,
        "parties": {"registry": str(parties / "parties.yaml"), "exchange": str(parties / "exchange"), "minutes": 4},
        "embedder": {"connector": "hashing", "model": "", "options": {}},
        "method": {"iterations": 2, "samples": 48, "votes": 4, "examples": 4},
        "tracking": {"mlflow": f"sqlite:///{tmp_path}/mlflow.db"},
    }
    config = pipeline.config(**changes)
    values = config.read_text()
    config.write_text(values.replace("options:\n    dimension: 128", "options: {}"))
    with party_processes(files, pipeline.environment, tmp_path / "parties.log") as processes:
        wait_for_parties(api, list(processes))
        done = pipeline.call("run", "wasp", "--config", str(config), "--json")
    assert done.returncode == 0, done.stderr[-3000:] + (tmp_path / "parties.log").read_text()[-2000:]
    summary = last_json(done.stdout)
    assert (summary["state"], summary["releases"], summary["n_synthetic"]) == ("done", 1, 48)
    assert 3.9 < summary["epsilon_spent"] <= 4.0
    rounds = summary["parties"]["rounds"]
    assert [one["parties"] for one in rounds] == [3]
    assert rounds[0]["of_one"]["up"]["masked"] - 24 * 2 * 4 < 600, "four bytes for each count, and a signed header"
    assert "Parties" in Path(summary["report"]).read_text()

    # each party has its own lines, the coordinator those of the sums
    for home in (*(party.parent / "state" for party in files), tmp_path / "home"):
        book = open_ledger(home)
        (dataset,) = book.datasets()
        status = book.status(dataset)
        assert (status.releases, status.open_runs) == (1, ())
        assert 3.9 < status.spent <= 4.0

    # Prefect: the table of the round, the parties' own runs
    shown = artifacts(api, summary["prefect_run_id"])["parties-0"]
    assert {row["state"] for row in json.loads(shown["data"])} == {"masked"}
    body = {"flow_runs": {"tags": {"all_": [summary["run_id"]]}}, "limit": 50}
    runs = ask(api, "/flow_runs/filter", body)
    assert [run["state_name"] for run in runs] == ["Masked"] * 3
    assert all(set(run["parameters"]) == {"run_id", "iteration", "attempt"} for run in runs)

    # what the coordinator, its server and its tracking hold: no row, no votes of one party
    for place in (tmp_path / "home", parties / "exchange"):
        for path in (path for path in place.rglob("*") if path.is_file()):
            assert PLANTED.encode() not in path.read_bytes(), path
    assert PLANTED.encode() not in (tmp_path / "mlflow.db").read_bytes()
    told = [ask(api, f"/{kind}/filter", {"limit": 200}) for kind in ("logs", "artifacts", "flow_runs", "task_runs")]
    assert PLANTED not in json.dumps(told)
    uploads = sorted((parties / "exchange").glob("parties/*/rounds/*/iteration=*/attempt=*/masked"))
    assert len(uploads) == 3
    assert min(uniform(upload.read_bytes()[-192:]) for upload in uploads) > 1e-7
