"""Federated runs with real processes: one command, each process killed, PrE-Text, a store, and what others can read."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from connectors.interfaces.rows import RowsRef
from flows.federation.local_parties import partition
from flows.runtime.stores import open_ledger
from tasks.private.parties.partition import Partition
from tests.support.data.planted_strings import PLANTED, found_outside, planted_rows
from tests.support.paths import ROOT
from tests.support.runs.federation import both_sides, clear_sum, edit_party, open_federated
from tests.support.runs.pipeline import SMALL, Pipeline, last_json
from tests.support.servers.s3 import s3_server
from tests.support.waits import WAIT_SECONDS, wait_until

METHOD = {"guidance": "votes", "iterations": 2, "samples": 48, "votes": 4, "examples": 4}


class Scene:
    """Parties in folders, their processes, and the coordinator's command."""

    def __init__(self, folder: Path, api: str | None = None) -> None:
        self.folder, self.pipeline = (
            folder,
            Pipeline(folder / "home", api or "", {"PYTHONPATH": str(ROOT)}),
        )
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.write()

    def write(self, **changes: Any) -> None:
        """Write the coordinator's configuration."""
        parties = {"registry": "parties/parties.yaml", "exchange": "parties/exchange", "minutes": 4}
        values = SMALL | {
            "private": None,
            "parties": parties | changes.pop("parties", {}),
            "embedder": {"connector": "hashing", "model": "", "options": {}},
            "method": METHOD,
        }
        (self.folder / "try.yaml").write_text(yaml.safe_dump(values | changes), encoding="utf-8")

    def refused(self, *arguments: str) -> str:
        return self.pipeline.call(*arguments, code=2, folder=self.folder).stderr

    def answer(self, *arguments: str) -> dict[str, Any]:
        return self.pipeline.answer(*arguments, folder=self.folder)

    def begin(self) -> "subprocess.Popen[str]":
        """Start a run."""
        return self.pipeline.start("run", "try", "--json", folder=self.folder)

    def start(self, party: str) -> None:
        """Type `wasp party` on the machine of a party."""
        folder, command = (
            self.folder / "parties" / party,
            ["flows.cli.main", "party", "--config", "party.yaml"],
        )
        remaining = {
            name: value for name, value in self.pipeline.environment.items() if name != "WASP_HOME"
        }
        with (folder / "party.log").open("ab") as log:
            self.processes[party] = subprocess.Popen(
                [sys.executable, "-m", *command], cwd=folder, env=remaining, stdout=log, stderr=log
            )

    def kill(self, party: str) -> None:
        self.processes[party].kill()
        self.processes[party].wait(WAIT_SECONDS)

    def waiting(self, party: str) -> int:
        return (
            (self.folder / "parties" / party / "party.log").read_text().count("waiting for rounds")
        )

    def exchange(self, pattern: str) -> list[Path]:
        """Return the messages of a kind, as KIND/PARTY."""
        kind, party = pattern.split("/")
        return sorted(
            (self.folder / "parties/exchange/parties").glob(f"{party}/rounds/*/*/*/{kind}")
        )

    def until(self, holds: Callable[[], Any]) -> None:
        wait_until(holds, log=self.logs, every=0.02)

    def logs(self) -> str:
        return "\n".join(
            file.read_text()[-1500:] for file in self.folder.glob("parties/*/party.log")
        )

    def releases(self) -> dict[str, int]:
        homes = {
            file.parent.name: file.parent / "state"
            for file in self.folder.glob("parties/*/party.yaml")
        }
        counts = {}
        for name, home in (homes | {"coordinator": self.folder / "home"}).items():
            ledger = open_ledger(home)
            counts[name] = sum(ledger.status(dataset).releases for dataset in ledger.datasets())
        return counts

    def result(self, run: "subprocess.Popen[str]") -> dict[str, Any]:
        """Return the facts of the run's only round."""
        output, errors = run.communicate(timeout=500)
        assert run.returncode == 0, errors[-3000:] + self.logs()
        (round_,) = last_json(output)["parties"]["rounds"]
        return dict(round_)


ONCE = dict.fromkeys(["party-1", "party-2", "party-3", "coordinator"], 1)


@pytest.fixture
def scene(api: str, tmp_path: Path) -> Iterator[Scene]:
    """Three parties that wait for rounds; two suffice."""
    made = Scene(tmp_path, api)
    made.write(parties={"minimum": 2, "minutes": 1.5})
    rows = planted_rows(tmp_path / "rows.parquet")
    settings = Partition(3, epsilon=8.0, embedder="hashing")
    partition(RowsRef(rows), tmp_path / "parties", settings, tmp_path / "home")
    try:
        for party in ("party-1", "party-2", "party-3"):
            made.start(party)
        made.until(lambda: all(made.waiting(party) for party in made.processes))
        yield made
    finally:
        for process in made.processes.values():
            if process.poll() is None:
                os.kill(process.pid, signal.SIGCONT)
                process.terminate()
        assert {process.wait(WAIT_SECONDS) for process in made.processes.values()}


def test_one_command_runs_a_federated_try_and_leaves_no_process(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    summary = scene.answer("run", "try", "--local-parties", "3")
    assert [each["parties"] for each in summary["parties"]["rounds"]] == [3]
    assert (summary["releases"], summary["n_synthetic"]) == (1, 48)
    left = [
        path
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if str(tmp_path).encode() in path.read_bytes()
    ]
    assert left == []
    refused = scene.refused("run", "try", "--local-parties", "2")
    assert "has 3 parties, and --local-parties asks for 2" in refused


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parties": None, "private": SMALL["private"]}, "needs 'parties:'"),
        ({"task": "imdb"}, "no example records of the task 'imdb' are shipped"),
    ],
)
def test_a_try_without_parties_or_records_is_one_clear_error(
    tmp_path: Path, changes: dict, message: str
) -> None:
    scene = Scene(tmp_path)
    values = yaml.safe_load((tmp_path / "try.yaml").read_text()) | changes
    (tmp_path / "try.yaml").write_text(yaml.safe_dump(values))
    assert message in scene.refused("run", "try", "--local-parties", "3")
    assert not (tmp_path / "parties").exists()


def test_a_run_from_start_to_end_charges_each_ledger_and_shows_no_row(scene: Scene) -> None:
    assert scene.result(scene.begin())["parties"] == 3
    assert scene.releases() == ONCE
    scene.until(lambda: not open_runs(scene.folder))
    for home in (*scene.folder.glob("parties/*/state"), scene.folder / "home"):
        ledger = open_ledger(home)
        (dataset,) = ledger.datasets()
        assert 3.9 < ledger.status(dataset).spent <= 4.0
    for location in ("home", "parties/exchange"):
        assert found_outside(scene.folder / location, PLANTED) == []
    assert not [word for word in PLANTED if word in scene.logs()]
    assert len(scene.exchange("masked/*")) == 3


def open_runs(folder: Path) -> list[str]:
    """Return the reservations of all parties."""
    ledgers = [open_ledger(home) for home in folder.glob("parties/*/state")]
    return [
        run
        for ledger in ledgers
        for dataset in ledger.datasets()
        for run in ledger.status(dataset).open_runs
    ]


def test_a_party_killed_before_it_answered_is_left_out(scene: Scene) -> None:
    os.kill(scene.processes["party-2"].pid, signal.SIGSTOP)
    run = scene.begin()
    scene.until(lambda: scene.exchange("keys/party-1"))
    scene.kill("party-2")
    assert list(scene.result(run)["dropped"]) == ["party-2"]
    assert scene.releases() == ONCE | {"party-2": 0}


def test_a_party_killed_when_it_had_announced_its_key_is_replaced_by_its_next_process(
    scene: Scene,
) -> None:
    """Its key died with it: before all are ready that costs nobody anything."""
    os.kill(scene.processes["party-3"].pid, signal.SIGSTOP)
    run = scene.begin()
    scene.until(lambda: scene.exchange("keys/party-1") and scene.exchange("keys/party-2"))
    scene.kill("party-1")
    scene.start("party-1")
    scene.until(lambda: scene.waiting("party-1") == 2)
    os.kill(scene.processes["party-3"].pid, signal.SIGCONT)
    assert scene.result(run)["parties"] == 3
    assert scene.releases() == ONCE


def test_a_party_and_the_coordinator_killed_after_masking_change_nothing(scene: Scene) -> None:
    run = scene.begin()
    scene.until(lambda: scene.exchange("masked/party-1"))
    run.kill()
    scene.kill("party-1")
    run.wait()
    scene.start("party-1")
    sent = {path: path.read_bytes() for path in scene.exchange("masked/*")}
    round_ = scene.result(scene.begin())
    assert (round_["attempt"], round_["parties"]) == (1, 3)
    assert {path: path.read_bytes() for path in sent} == sent, "nobody masked twice with one key"
    assert scene.releases() == ONCE


def test_a_comparison_runs_its_cells_with_real_parties_whose_rows_vary_with_the_seed(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path)
    values = yaml.safe_load((tmp_path / "try.yaml").read_text())
    rounds = {"iterations": 2, "samples": 36, "population": 24, "look_ahead": 2}
    (tmp_path / "pre_text.yaml").write_text(yaml.safe_dump(values | {"method": rounds}))
    rows = [
        {"name": "WASP", "config": "try.yaml", "set": {"method.samples": 36}},
        {"name": "PrE-Text", "flow": "pre_text", "config": "pre_text.yaml"},
    ]
    places = {
        "parties.registry": "rows-{seed}/parties.yaml",
        "parties.exchange": "rows-{seed}/exchange",
    }
    comparison = {
        "title": "Parties",
        "metrics": ["accuracy", "fid"],
        "rows": rows,
        "set": places,
        "seeds": [0, 1],
    }
    (tmp_path / "matrix.yaml").write_text(yaml.safe_dump(comparison))
    summary = scene.answer("compare", "--config", "matrix.yaml", "--local-parties", "3")
    assert summary["failed"] == 0
    for cell in summary["cells"]:
        run = json.loads((tmp_path / "home" / "runs" / cell["run_id"] / "summary.json").read_text())
        assert {each["parties"] for each in run["parties"]["rounds"]} == {3}, cell["row"]
    assert scene.answer("compare", "--config", "matrix.yaml")["reused"] == 4, (
        "stored results need no party"
    )


def test_parties_meet_on_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with s3_server(tmp_path) as store:
        bucket = store.bucket("parties")
        for name, value in store.environment.items():
            monkeypatch.setenv(name, value)
        federated = open_federated(tmp_path / "f", parties={"exchange": bucket})
        for party in federated.parties:
            federated = edit_party(federated, party, exchange=bucket)
        votes, info, _ = federated.vote()
        assert np.array_equal(both_sides(votes), clear_sum(federated))
        assert len([name for name in store.names("parties") if name.endswith("/masked")]) == 3
        assert info["parties"] == ["party-1", "party-2", "party-3"]
