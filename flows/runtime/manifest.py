"""The manifest of a run (configuration and state), and the locks on runs."""

from __future__ import annotations

import importlib.metadata
import json
import os
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.artifacts.atomic_files import locked
from connectors.interfaces.errors import ArtifactError, ConfigError
from connectors.interfaces.json_values import Json
from connectors.interfaces.packages import PROJECT
from connectors.interfaces.redaction import redact

if TYPE_CHECKING:
    from pydantic import BaseModel

    from connectors.artifacts.store import Artifacts
    from connectors.ledger.ledger import PrivacyLedger

SHOWN_VERSIONS = (
    PROJECT,
    "prefect",
    "opendp",
    "dp-accounting",
    "numpy",
    "torch",
    "transformers",
    "mlflow",
)

PACKAGES = ("connectors", "flows", "tasks")
"""Folders of this program's code."""

TAKEN = "Run {run_id} is already executed by another {by}. Wait for it, or stop it and run again"


@dataclass(frozen=True, slots=True)
class Approval:
    """An approval: person, time, place, reason; `contract` is the digest of what was approved."""

    by: str
    at: str
    where: str
    contract: str
    reason: str = ""

    def __str__(self) -> str:
        text = f"approved by {self.by} on {self.at} ({self.where})"
        if self.reason:
            text += f": {self.reason}"
        return text


class RunManifest:
    """The manifest runs/<run_id>/manifest.json, replaced at each change of state.

    `was_done`: the run had finished before this process started. `earlier_error`: how its previous attempt ended.
    """

    def __init__(self, artifacts: Artifacts, values: Json, was_done: bool = False) -> None:
        self.artifacts = artifacts
        self.values = values
        self.was_done = was_done
        self.earlier_error: str | None = None

    def update(self, **changes: object) -> None:
        """Write the manifest with `changes`."""
        self.values |= changes
        # Messages of libraries may quote an address with its password or a key.
        error = self.values.get("error")
        self.values["error"] = redact(error) if error else None
        text = json.dumps(self.values, indent=2, ensure_ascii=False)
        self.artifacts.write_text(_path(self.values["run_id"]), text)


def initial_values(run_id: str, flow: str, dataset: str | None, config: Json) -> Json:
    """Return the manifest entries of a run that this process starts."""
    return {
        "run_id": run_id,
        "flow": flow,
        "state": "running",
        "dataset": dataset,
        "config": config,
        "versions": versions(),
        "commit": code_commit(),
        "started": now(),
        "process": os.getpid(),
        "machine": socket.gethostname(),
        "prefect_run_id": None,
        "error": None,
    }


@contextmanager
def recorded(
    artifacts: Artifacts, run_id: str, flow: str, config: BaseModel, is_shared: bool = False
) -> Iterator[RunManifest]:
    """Lock a run of a flow that is no method; record its start, and its failure, in its manifest.

    `is_shared`: several processes may execute it at once, and divide its work among themselves.
    """
    from prefect import runtime

    values = initial_values(run_id, flow, None, config.model_dump(mode="json"))
    if runtime.flow_run.id:
        values["prefect_run_id"] = str(runtime.flow_run.id)
    manifest = RunManifest(artifacts, values)
    with lock_run_files(artifacts.home, run_id, is_shared):
        manifest.update()
        try:
            yield manifest
        # Ctrl-C and SIGTERM are recorded too: this flow cannot be resumed.
        except BaseException as error:
            manifest.update(state="failed", ended=now(), error=f"{type(error).__name__}: {error}")
            raise


def read_manifest(artifacts: Artifacts, run_id: str) -> Json:
    """Return the manifest of a run, empty if none; ArtifactError if it is damaged."""
    try:
        value: Json = json.loads(artifacts.read_text(_path(run_id)) or "{}")
    except ValueError as error:
        path = artifacts.where(_path(run_id))
        raise ArtifactError(
            f"{path} is damaged ({error}). Move it away and start the run again"
        ) from None
    return value


def _path(run_id: str) -> str:
    return f"runs/{run_id}/manifest.json"


@contextmanager
def lock_run(home: Path, run_id: str, ledger: PrivacyLedger) -> Iterator[None]:
    """Lock a run on this machine and on all machines that share the ledger.

    The operating system and the database release the lock when the process dies.
    """
    # The file lock comes first: its message says that the other process is on this machine.
    with lock_run_files(home, run_id), ledger.hold(run_id) as mine:
        if not mine:
            raise ConfigError(TAKEN.format(run_id=run_id, by="machine"))
        yield


@contextmanager
def lock_run_files(home: Path, run_id: str, is_shared: bool = False) -> Iterator[None]:
    """Lock the files of a run on this machine; `is_shared`: any number of processes hold them at once."""
    folder = home / "runs" / run_id
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(folder / ".lock", wait=False, shared=is_shared) as mine:
        if not mine:
            raise ConfigError(TAKEN.format(run_id=run_id, by="process"))
        yield


def is_held_here(home: Path, run_id: str) -> bool:
    """Return True if a process on this machine executes this run."""
    return _taken(lock_run_files(home, run_id))


def share_caches(home: Path) -> AbstractContextManager[bool]:
    """Hold a shared lock on the caches of all runs; waits for a running cleanup."""
    return locked(home / ".lock", shared=True)


def lock_caches(home: Path) -> AbstractContextManager[bool]:
    """Block the start of runs, for a cleanup of caches; False if a run is active."""
    # Runs hold the same lock shared, therefore this one is granted only while none of them is active.
    return locked(home / ".lock", wait=False)


def is_held(home: Path, run_id: str, ledger: PrivacyLedger) -> bool:
    """Return True if a process on any machine executes this run."""
    return _taken(lock_run(home, run_id, ledger))


def _taken(hold: AbstractContextManager[None]) -> bool:
    # Only an attempt to take the lock shows whether its owner is alive: a process id may be in use again.
    try:
        with hold:
            return False
    except ConfigError:
        return True


def versions() -> dict[str, str]:
    """Return the versions of installed packages that affect results."""
    installed = {}
    for name in SHOWN_VERSIONS:
        try:
            installed[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return installed


@cache
def code_commit() -> str:
    """Return the commit of a checkout, empty for an installed package or without git."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return ""
    command = ["git", "-C", str(root), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ""
    if done.returncode:
        return ""
    return done.stdout.strip()


def code_stamp() -> str:
    """Return a digest of the names, sizes and times of this program's files, which every update changes."""
    root = Path(__file__).resolve().parents[2]
    files = [
        path
        for package in PACKAGES
        for path in (root / package).rglob("*")
        if path.suffix != ".pyc" and path.is_file()
    ]
    facts = sorted((str(path.relative_to(root)), *_facts(path)) for path in files)
    return sha256(json.dumps(facts).encode()).hexdigest()


def _facts(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def written_by(manifest: Mapping[str, Any]) -> str:
    """Return the version that wrote a run last, with its commit if that is known."""
    version = manifest["versions"].get(PROJECT, "unknown")
    # Runs of an installed package, and of early versions, have no commit.
    commit = manifest.get("commit", "")
    if not commit:
        return f"version {version}"
    return f"version {version}, commit {commit[:8]}"


def now() -> str:
    """Return the current UTC time in ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
