"""The manifest of a run: what it is, how it stands, who holds it."""

from __future__ import annotations

import fcntl
import importlib.metadata
import json
import os
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.interfaces.errors import ArtifactError, ConfigError
from connectors.interfaces.redaction import redact
from flows.config.task_files import task_place

if TYPE_CHECKING:
    from connectors.artifacts.store import Artifacts
    from connectors.ledger.ledger import BudgetBook
    from flows.engine.prepare import Prepared

SHOWN_VERSIONS = ("wasp-synth", "prefect", "opendp", "dp-accounting", "numpy", "torch", "transformers", "mlflow")


TAKEN = "Run {run_id} is being carried out by another {by}; wait for it, or stop it and run again"


class RunBook:
    """runs/<run_id>/manifest.json, rewritten whole at each change of state."""

    def __init__(self, artifacts: Artifacts, values: dict[str, Any]) -> None:
        self.artifacts = artifacts
        self.values = values

    def update(self, **changes: Any) -> None:
        """Write the manifest with `changes`."""
        self.values |= changes
        self.values["error"] = redact(self.values["error"]) if self.values.get("error") else None
        text = json.dumps(self.values, indent=2, ensure_ascii=False)
        self.artifacts.write_text(_place(self.values["run_id"]), text)


def open_book(flow: str, prepared: Prepared, keep_choice: bool = False) -> RunBook:
    """Return the manifest of a run that starts or goes on; the time it first started stays.

    `keep_choice`: what to do about lost texts is written down as it was; `wasp resume --respend` holds only once.
    """
    name = prepared.tools.called
    artifacts = prepared.tools.artifacts
    earlier = read_book(artifacts, name.run_id)
    config = prepared.config.model_dump(mode="json") | _places(prepared)
    if keep_choice and earlier:
        config["privacy"]["on_lost_artifacts"] = earlier["config"]["privacy"]["on_lost_artifacts"]
    values = {
        "warnings": list(prepared.warnings),
        "started": earlier.get("started", now()),
        "resumed": [*earlier.get("resumed", []), now()] if earlier else [],
        "mlflow_run_id": earlier.get("mlflow_run_id"),
        "dollars": earlier.get("dollars", 0.0),
        "dollars_estimated": earlier.get("dollars_estimated", 0.0),
        "approval": asdict(prepared.approval) if prepared.approval else earlier.get("approval"),
    }
    return RunBook(artifacts, begun(name.run_id, flow, name.dataset, config) | values)


def begun(run_id: str, flow: str, dataset: str | None, config: dict[str, Any]) -> dict[str, Any]:
    """Return what every manifest says of a run that this process carries out from now on."""
    return {
        "run_id": run_id,
        "flow": flow,
        "state": "running",
        "dataset": dataset,
        "config": config,
        "versions": versions(),
        "started": now(),
        "process": os.getpid(),
        "machine": socket.gethostname(),
        "prefect_run_id": None,
        "error": None,
    }


def _places(prepared: Prepared) -> dict[str, str]:
    """Return where relative paths start, so that the run can be resumed from any folder."""
    config = prepared.config
    return {"data_root": config.data_root or str(Path.cwd()), "task": task_place(config.task)}


def read_book(artifacts: Artifacts, run_id: str) -> dict[str, Any]:
    """Return the manifest of a run, empty if there is none yet; ArtifactError when it is damaged."""
    try:
        value: dict[str, Any] = json.loads(artifacts.read_text(_place(run_id)) or "{}")
    except ValueError as error:
        place = artifacts.where(_place(run_id))
        raise ArtifactError(f"{place} is damaged ({error}); move it away and start the run again") from None
    return value


def _place(run_id: str) -> str:
    return f"runs/{run_id}/manifest.json"


@contextmanager
def held(home: Path, run_id: str, ledger: BudgetBook) -> Iterator[None]:
    """Hold a run for this process, on this machine and among all that share the budget book.

    The system lets go when the process dies, however it dies.
    """
    with held_here(home, run_id), ledger.hold(run_id) as mine:
        if not mine:
            raise ConfigError(TAKEN.format(run_id=run_id, by="machine"))
        yield


@contextmanager
def held_here(home: Path, run_id: str) -> Iterator[None]:
    """Hold the files that a run has on this machine."""
    folder = home / "runs" / run_id
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(TAKEN.format(run_id=run_id, by="process")) from None
        yield


def is_held_here(home: Path, run_id: str) -> bool:
    """Say whether a process of this machine carries out this run now."""
    return _taken(held_here(home, run_id))


@contextmanager
def in_use(home: Path) -> Iterator[None]:
    """Use what runs share (embeddings, answers, private caches); waits for a cleaning that is under way."""
    with _locked(home, fcntl.LOCK_SH):
        yield


@contextmanager
def alone(home: Path) -> Iterator[bool]:
    """Keep runs from starting meanwhile, so that what they share may be removed; False while one is carried out."""
    with ExitStack() as stack:
        try:
            stack.enter_context(_locked(home, fcntl.LOCK_EX | fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True


@contextmanager
def _locked(home: Path, how: int) -> Iterator[None]:
    with (home / ".lock").open("a") as file:
        fcntl.flock(file, how)
        yield


def is_held(home: Path, run_id: str, ledger: BudgetBook) -> bool:
    """Say whether a process carries out this run now."""
    return _taken(held(home, run_id, ledger))


def _taken(hold: AbstractContextManager[None]) -> bool:
    try:
        with hold:
            return False
    except ConfigError:
        return True


def versions() -> dict[str, str]:
    """Return the versions that a result depends on, of what is installed."""
    found = {}
    for name in SHOWN_VERSIONS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def now() -> str:
    """Return the time, UTC, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
