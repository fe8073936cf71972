"""A process that executes the release path again and again, each time in a child that may be killed at any line.

Reads one JSON command per line and answers with one: {"path", "home", "rows", "line": n | null, "after"}.
`path`: the module whose `release_path` is executed. A child reports through a pipe what got out of it: the releases
that it read, where it was when it killed itself, its end.
"""

import contextlib
import hashlib
import importlib
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from sqlalchemy.engine import default

from flows.engine.prepare import Prepared
from flows.engine.run_manifest import open_manifest
from tasks.private.votes.step import VoteSpec, vote
from tasks.steps.values import ChargedDataset, TextTable
from tests.support.paths import ROOT
from tests.support.runs.prepared_run import start, write_texts

Tell = Callable[[str], None]
ITERATIONS = 3
FILES = (
    "connectors/ledger/*.py",
    "connectors/artifacts/store.py",
    "connectors/artifacts/atomic_files.py",
    "connectors/artifacts/manifests.py",
    "connectors/artifacts/parquet.py",
    "tasks/private/**/*.py",
    "tasks/private/votes/step.py",
    "tasks/guidance/phrases.py",
    "tasks/private/draw_once.py",
    "flows/engine/prepare.py",
)
TRACED = {str(path) for pattern in FILES for path in ROOT.glob(pattern)} | {str(default.__file__)}
"""Files at whose lines a child may die: budget book, private zone, artifacts, where SQLAlchemy executes and commits."""


def open_run(home: Path, rows: str) -> Prepared:
    """Return the run: 3 iterations, so two votes, on a hashing embedder."""
    method = {"iterations": ITERATIONS, "samples": 36, "votes": 2, "examples": 2}
    # Never called: the texts are given. An embedded model would take longer to load than all the rest.
    clerk = {
        "name": "clerk",
        "connector": "openai",
        "model": "m",
        "endpoint": "http://127.0.0.1:9/v1",
        "key": "none",
    }
    return start(
        home, private={"path": rows, "name": "desk"}, test=None, method=method, plms=[clerk]
    )


def release_path(home: Path, rows: str, tell: Tell) -> None:
    """Reserve; for each vote charge, draw, write and read; settle."""
    run = open_run(home, rows)
    name, ledger = run.tools.name, run.tools.ledger
    open_manifest("wasp", run).update()
    ledger.reserve(name.dataset, run.plan, "me")
    written: list[TextTable] = []
    for iteration in range(run.guarantee.noise.releases):
        written.append(write_texts(run, iteration, run.card.label_names))
        spec = VoteSpec(
            iteration, ChargedDataset(name.dataset, name.fingerprint), run.guarantee.noise, "all"
        )
        ref, _ = vote(run.tools, spec, written)
        votes = run.tools.artifacts.read_table(ref)
        tell(f"vote-{iteration} {hashlib.sha256(votes.to_csv().encode()).hexdigest()}")
    ledger.finish(name.dataset, name.run_id)
    tell("end")


class Killer:
    """A trace function that ends the process at the n-th line of the traced files; without n it notes all of them."""

    def __init__(self, line: int | None, tell: Tell) -> None:
        self.line, self.tell, self.count = line, tell, 0
        self.places: list[str] = []

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in TRACED:
            return None
        if event == "line":
            self.count += 1
            location = (
                f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}:{frame.f_lineno}"
            )
            if self.line is None:
                self.places.append(location)
            elif self.count == self.line:
                self.tell(f"killed {location}")
                os.kill(os.getpid(), signal.SIGKILL)
        return self


def live(command: dict[str, Any], pipe: int) -> None:
    """Execute one life of the run in a child."""

    def tell(what: str) -> None:
        os.write(pipe, f"{what}\n".encode())

    killer = Killer(command["line"], tell)
    try:
        if command["after"] is None:
            sys.settrace(killer)
        path = importlib.import_module(command["path"])
        path.release_path(Path(command["home"]), command["rows"], tell)
        sys.settrace(None)
        if command["places"]:
            message = {"places": killer.places, "modules": sorted(sys.modules)}
            Path(command["places"]).write_text(json.dumps(message), encoding="utf-8")
    except BaseException as error:  # what a child says is all that the test sees
        sys.settrace(None)
        tell(f"failed {type(error).__name__}: {error}".replace("\n", " "))


def carry_out(command: dict[str, Any]) -> dict[str, Any]:
    """Fork a child, kill it in time if requested, and return its reports."""
    began, (reading, writing) = time.monotonic(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        live(command, writing)
        os._exit(0)
    os.close(writing)
    said, deadline = b"", began + (command["after"] or 120)
    while True:
        ready, _, _ = select.select([reading], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            os.kill(pid, signal.SIGKILL)
            deadline = time.monotonic() + 120
            continue
        piece = os.read(reading, 65536)
        if not piece:
            break
        said += piece
    os.close(reading)
    _, status = os.waitpid(pid, 0)
    return {
        "said": said.decode().splitlines(),
        "killed": os.WIFSIGNALED(status),
        "seconds": time.monotonic() - began,
    }


def main() -> None:
    """Answer commands until the input ends; nothing is computed in this process, so that its children start clean.

    The imports of the first child are repeated here, or every child would spend seconds on them.
    """
    for line in sys.stdin:
        command = json.loads(line)
        sys.stdout.write(json.dumps(carry_out(command)) + "\n")
        sys.stdout.flush()
        if command["places"]:
            for name in json.loads(Path(command["places"]).read_text())["modules"]:
                with contextlib.suppress(ImportError):
                    importlib.import_module(name)


if __name__ == "__main__":
    main()
