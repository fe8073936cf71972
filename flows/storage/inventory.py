"""Inventory of the state folder: its files by kind, and the state of its runs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from connectors.artifacts.store import Artifacts
from flows.runtime.manifest import is_held_here

TEXTS, RESULTS, EMBEDDINGS, COMPLETIONS = "texts by model", "results", "embeddings", "completions"
MODELS, PRIVATE, LEFTOVERS = "trained models", "private caches", "leftovers"
RELEASES, RECORDS, BOOK, KEY = "releases", "records of runs", "privacy ledger", "key and problems"
EXPERIMENTS, PREFECT, OTHER = "experiments", "Prefect's own", "other"

KINDS = (
    *(RESULTS, MODELS, RELEASES, RECORDS, BOOK, KEY),
    *(TEXTS, EMBEDDINGS, COMPLETIONS, PRIVATE, LEFTOVERS),
    *(EXPERIMENTS, PREFECT, OTHER),
)

SHARED = (EMBEDDINGS, COMPLETIONS, PRIVATE)
"""Kinds that several runs use."""
UNTOLD = (BOOK, KEY, PRIVATE)
"""Kinds whose size is not shown, because it reveals the number of private rows."""

TOP = {"embeddings": EMBEDDINGS, "completions": COMPLETIONS, "batches": COMPLETIONS}
TOP |= {"mlartifacts": EXPERIMENTS, "models": MODELS, "prefect": PREFECT}
CACHES = {"embeddings", "votes", "reference", "students", "teachers"}
"""Folders of private/ with content that can be recomputed."""


@dataclass(frozen=True, slots=True)
class StateFile:
    """A file; `path` is relative to the state folder, `run_id` is empty outside runs/."""

    path: str
    kind: str
    bytes: int
    modified: datetime

    @property
    def run_id(self) -> str:
        """Run that the file belongs to."""
        parts = Path(self.path).parts
        return parts[1] if parts[0] == "runs" and len(parts) > 2 else ""


@dataclass(frozen=True, slots=True)
class RunState:
    """State of a run.

    Attributes:
        done: True if the run finished.
        latest: time of its last start, resume or end.
        held: True if a process on this machine executes it.
    """

    run_id: str
    done: bool
    began: datetime
    latest: datetime
    held: bool


def state_files(home: Path) -> Iterator[StateFile]:
    """Yield every file of the state folder, except files deleted meanwhile."""
    for folder, _, names in os.walk(home):
        for name in sorted(names):
            file = Path(folder) / name
            with suppress(FileNotFoundError):
                stat = file.lstat()
                path = file.relative_to(home)
                yield StateFile(str(path), kind_of(path), stat.st_size, datetime.fromtimestamp(stat.st_mtime, UTC))


def kind_of(path: Path) -> str:
    """Return the kind of a file by its path relative to the state folder."""
    parts = path.parts
    if parts[0] not in ("prefect", "mlartifacts") and any(is_scratch(part) for part in parts):
        return LEFTOVERS
    if parts[0] == "runs":
        return _kind_in_run(parts[2:])
    if parts[0] == "private":
        return PRIVATE if len(parts) > 2 and parts[1] in CACHES else KEY
    if len(parts) == 1:
        stem = parts[0].split(".")[0]
        return {"ledger": BOOK, "mlflow": EXPERIMENTS, "": RECORDS}.get(stem, OTHER)
    return TOP.get(parts[0], OTHER)


def run_states(home: Path) -> dict[str, RunState]:
    """Return the state of all runs with a readable manifest, by run id."""
    manifests = [
        manifest for manifest in Artifacts(home).list_runs() if "damaged" not in manifest and "state" in manifest
    ]
    return {manifest["run_id"]: _run_state(home, manifest) for manifest in manifests}


def runs_by_table(home: Path) -> dict[str, set[str]]:
    """Return the runs that contain each table, by the name of the table's embeddings."""
    users: dict[str, set[str]] = {}
    for path in (home / "runs").glob("*/**/_*.parquet.json"):
        run_id = path.relative_to(home / "runs").parts[0]
        users.setdefault(str(read_json(path).get("sha256", ""))[:32], set()).add(run_id)
    return users


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; empty if the file is missing or invalid."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def is_scratch(name: str) -> bool:
    """Return True for the name of a file or folder that is not completely written."""
    return name.startswith(".") and name.endswith((".tmp", ".part"))


def _kind_in_run(inner: tuple[str, ...]) -> str:
    if not inner:
        return OTHER
    name = inner[-1]
    if name.endswith("release.parquet") or name == "_release.parquet.json":
        return RELEASES
    if name.startswith("_"):
        return RECORDS
    if inner[0] in ("synthetic.parquet", "student"):
        return RESULTS
    return TEXTS if any(part.startswith("plm=") for part in inner) else RECORDS


def _run_state(home: Path, manifest: dict[str, Any]) -> RunState:
    stamps = (manifest["started"], *manifest.get("resumed", []), manifest.get("ended"))
    times = [datetime.fromisoformat(stamp) for stamp in stamps if stamp]
    held = is_held_here(home, manifest["run_id"])
    return RunState(manifest["run_id"], manifest["state"] == "done", times[0], max(times), held)
