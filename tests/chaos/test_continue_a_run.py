"""A deployed run fails at some step; Retry, a new run and `wasp resume` each go on from what is finished."""

import json
import os
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from connectors.models.base.completion_store import CompletionStore
from tests.support.runs.pipeline import Pipeline, values
from tests.support.runs.served_flow import OVER, Served, served
from tests.support.servers.vendor import VendorServer
from tests.support.servers.vendor_messages import Reply, Request

STEPS = {
    "selection.parquet": "select",
    "weights.parquet": "weigh",
    "measures.json": "measure",
    "release.parquet": "vote",
}


@dataclass
class World:
    """One deployment on one model server and one state folder."""

    pipeline: Pipeline
    server: VendorServer
    served: Served

    @property
    def folder(self) -> Path:
        """The folder of the only run."""
        (result,) = (self.pipeline.home / "runs").iterdir()
        return result

    def wait(self, run: str, moment: Callable[[], bool]) -> None:
        """Wait for a moment of a run."""
        look = time.monotonic() + 2
        while not moment():
            time.sleep(0.002)
            if time.monotonic() > look:
                assert self.served.state(run)["type"] not in OVER, self.served.state(run)
                look = time.monotonic() + 2

    def kill(self) -> None:
        """Kill -9 the process of the run."""
        pid = json.loads((self.folder / "manifest.json").read_text(encoding="utf-8"))["process"]
        os.kill(pid, signal.SIGKILL)

    def lines(self) -> list[str]:
        """Return the hashes of the releases in the budget book."""
        try:
            with sqlite3.connect(
                f"file:{self.pipeline.home / 'ledger.db'}?mode=ro", uri=True
            ) as book:
                result = book.execute(
                    "SELECT hash FROM ledger_entries WHERE kind = 'release' ORDER BY at"
                ).fetchall()
        except sqlite3.OperationalError:
            return []
        return [row[0] for row in result]

    def answers(self) -> set[tuple[str, int]]:
        """Return prompt and seed of every answer that is kept."""
        store = CompletionStore(self.pipeline.home / "completions")
        result = {
            (entry.prompt.text, entry.prompt.seed % 2**31)
            for name in store.identities()
            for entry in store.since(name, 0)
        }
        store.close()
        return result

    def finished(self) -> set[str]:
        """Return the names of the steps whose artifacts are whole."""
        result = {"collect"} if (self.folder / "_synthetic.parquet.json").exists() else set()
        for location in self.folder.glob("iteration=*/_*.json"):
            step = STEPS.get(location.name[1:].removesuffix(".json"))
            result |= {f"{step} t={location.parent.name[10:]}"} if step else set()
        for location in self.folder.glob("iteration=*/plm=*/_samples.parquet.json"):
            if '"down": ""' in location.read_text():
                result.add(
                    f"generate {location.parent.name[4:]} t={location.parent.parent.name[10:]}"
                )
        return result


# --- what fails
def plm_down(world: World) -> str:
    """Both models hang up in the middle of the second iteration: after twelve answers and three more."""
    heard: Counter[str] = Counter()

    def hang_up(request: Request) -> Reply | None:
        heard[request.body["model"]] += 1
        return Reply(drop=True) if heard[request.body["model"]] > 15 else None

    world.server.plan = hang_up
    run = world.served.run()
    state = world.served.end(run)
    assert state["name"] == "Failed"
    assert "Every PLM is down in iteration 1" in state["message"]
    assert "wasp resume" in _error(world)
    world.server.plan = lambda request: None
    return run


def disk_full(world: World) -> str:
    """The disk of the state folder is full while the second iteration is written."""
    world.server.latency = 0.05
    run = world.served.run()
    world.wait(run, lambda: world.server.count >= 30)
    filler = world.pipeline.home / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"0" * 65536)
        except OSError:
            pass
    state = world.served.end(run)
    filler.unlink()
    assert state["name"] == "Failed"
    assert "full" in state["message"], state["message"]
    return run


def _killed(world: World, moment: Callable[[], bool], latency: float = 0.0) -> str:
    world.server.latency = latency
    run = world.served.run()
    world.wait(run, moment)
    world.kill()
    assert world.served.end(run)["name"] == "Crashed"
    return run


def killed_in_writing(world: World) -> str:
    """kill -9 of the run's process while models answer."""
    return _killed(world, lambda: world.server.count >= 36, latency=0.05)


def killed_in_the_vote(world: World) -> str:
    """kill -9 at the moment at which the second vote's noise is in the ledger."""
    return _killed(world, lambda: len(world.lines()) == 2)


def killed_in_training(world: World) -> str:
    """kill -9 once all texts are collected and the student is being trained."""
    return _killed(
        world, lambda: bool(list((world.pipeline.home / "runs").glob("*/_synthetic.parquet.json")))
    )


def host_lost(world: World) -> str:
    """kill -9 of the serving process and the run together; the heartbeat's automation marks the run crashed."""
    world.server.latency = 0.05
    run = world.served.run()
    world.wait(run, lambda: world.server.count >= 36)
    world.served.stop(kill=True)
    world.kill()
    assert world.served.state(run)["name"] == "Running", "nobody is left to say what happened"
    world.served.set_state(run, type="CRASHED", name="Crashed", message="No heartbeat")
    world.served.start()
    return run


# --- how it goes on
def by_retry(world: World, run: str) -> str:
    """Click Retry."""
    world.served.retry(run)
    return run


def by_new_run(world: World, run: str) -> str:
    """Start the deployment again with the same parameters."""
    return world.served.run()


def by_resume(world: World, run: str) -> str:
    """Type the command that the manifest names."""
    return str(world.pipeline.answer("resume", world.folder.name)["prefect_run_id"])


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Mount a disk of 200 MB, the least that a run wants twice over, at `folder`; skip where that is not allowed."""
    folder.mkdir(mode=0o700)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200m,mode=0700", "tmpfs", str(folder)],
        capture_output=True,
    )
    if mounted.returncode:
        pytest.skip("mounting a small disk is not allowed here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def world(api: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    home = tmp_path / "home"
    pipeline = Pipeline(home, api, {"VENDOR_KEY": "sk-none"})
    with VendorServer() as server:
        plms = [
            server.plm(name=name, model=name, options={"tries": 2}) for name in ("gpt", "other")
        ]
        if "disk_full" in request.node.name:
            request.getfixturevalue("disk")
        # The folders of two workers of pytest, which share a Prefect server, differ in their parent alone.
        name = f"chaos-{tmp_path.parent.name}-{tmp_path.name}"
        with served(pipeline, name, values(plms=plms)) as deployment:
            yield World(pipeline, server, deployment)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[None]:
    with small_disk(tmp_path / "home"):
        yield


def _error(world: World) -> str:
    return str(world.pipeline.answer("show", world.folder.name)["error"])


def go_on(world: World, trouble: Callable[[World], str], way: Callable[[World, str], str]) -> None:
    """Let a run fail and go on; check that nothing finished is done again."""
    run = trouble(world)
    stored, drawn, finished = world.answers(), world.lines(), world.finished()
    releases, asked = world.pipeline.releases(world.folder.name), world.server.count
    assert stored
    world.server.latency = 0.0

    after = way(world, run)
    state = world.served.end(after)
    assert state["name"] == "Completed", state["message"]
    steps = world.served.tasks(after)
    assert {name: steps.get(name) for name in finished} == dict.fromkeys(finished, "Reused")
    again = [
        entry
        for entry in world.server.requests[asked:]
        if (entry.prompt, entry.body["seed"]) in stored
    ]
    assert again == []
    assert world.lines()[: len(drawn)] == drawn
    assert len(world.lines()) == 2, "one line for each vote, however often the run was started"
    now = world.pipeline.releases(world.folder.name)
    assert {name: now[name] for name in releases} == releases
    summary: dict[str, Any] = world.pipeline.answer("show", world.folder.name)["summary"]
    assert (summary["n_synthetic"], summary["releases"]) == (72, 2)


def test_a_run_killed_in_the_vote_goes_on_when_retry_is_clicked(world: World) -> None:
    go_on(world, killed_in_the_vote, by_retry)


@pytest.mark.slow
@pytest.mark.parametrize("way", [by_retry, by_new_run, by_resume])
@pytest.mark.parametrize(
    "trouble", [plm_down, disk_full, killed_in_writing, killed_in_the_vote, killed_in_training]
)
def test_a_failed_run_goes_on_from_what_is_finished(
    world: World, trouble: Callable[[World], str], way: Callable[[World, str], str]
) -> None:
    go_on(world, trouble, way)


@pytest.mark.slow
def test_a_run_whose_host_was_lost_goes_on_after_it_is_marked_crashed(world: World) -> None:
    go_on(world, host_lost, by_retry)
