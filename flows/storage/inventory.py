"""What lies in the state folder, by kind: what a run gave, what can be made again, and what is never removed."""

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

TEXTS, RESULTS, EMBEDDINGS, ANSWERS = "texts by model", "results", "embeddings", "answers of models"
MODELS = "trained models"
PRIVATE, BATCHES, LEFTOVERS = "private caches", "batches", "leftovers"
RELEASES, RECORDS, BOOK, KEY = "releases", "records of runs", "budget book", "key and problems"
EXPERIMENTS, PREFECT, OTHER = "experiments", "Prefect's own", "other"

KINDS = (
    *(RESULTS, MODELS, RELEASES, RECORDS, BOOK, KEY),
    *(TEXTS, EMBEDDINGS, ANSWERS, PRIVATE, BATCHES, LEFTOVERS),
    *(EXPERIMENTS, PREFECT, OTHER),
)

UNTOLD = (BOOK, KEY, PRIVATE)
"""Kinds whose size would tell how many private rows there are: it is not shown."""

TOP = {
    "embeddings": EMBEDDINGS,
    "completions": ANSWERS,
    "batches": BATCHES,
    "mlartifacts": EXPERIMENTS,
    "models": MODELS,
}
TOP |= {"prefect": PREFECT}
CACHES = {"embeddings", "votes", "reference", "students", "teachers"}
"""Folders of private/ whose content is computed again when it is missing."""


@dataclass(frozen=True, slots=True)
class StateFile:
    """One file; `path` is relative to the state folder, `run_id` empty outside runs/."""

    path: str
    kind: str
    bytes: int
    modified: datetime

    @property
    def run_id(self) -> str:
        """The run that it belongs to."""
        parts = Path(self.path).parts
        return parts[1] if parts[0] == "runs" and len(parts) > 2 else ""


@dataclass(frozen=True, slots=True)
class RunState:
    """How a run stands: `done`, the moment of its last sign of life, whether a living process carries it out."""

    run_id: str
    done: bool
    began: datetime
    latest: datetime
    held: bool


def state_files(home: Path) -> Iterator[StateFile]:
    """Yield every file of the state folder; what vanishes meanwhile is left out."""
    for folder, _, names in os.walk(home):
        for name in sorted(names):
            place = Path(folder) / name
            with suppress(FileNotFoundError):
                facts = place.lstat()
                path = place.relative_to(home)
                yield StateFile(str(path), kind_of(path), facts.st_size, datetime.fromtimestamp(facts.st_mtime, UTC))


def kind_of(path: Path) -> str:
    """Return the kind of a file by its place, relative to the state folder."""
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
    """Return all runs whose manifest can be read."""
    books = [book for book in Artifacts(home).list_runs() if "damaged" not in book and "state" in book]
    return {book["run_id"]: _run_state(home, book) for book in books}


def makers(home: Path) -> dict[str, set[str]]:
    """Return, by the name that embeddings of a table are kept under, the runs that hold such a table."""
    found: dict[str, set[str]] = {}
    for place in (home / "runs").glob("*/**/_*.parquet.json"):
        run_id = place.relative_to(home / "runs").parts[0]
        found.setdefault(str(read_json(place).get("sha256", ""))[:32], set()).add(run_id)
    return found


def read_json(place: Path) -> dict[str, Any]:
    """Return the object in a file, empty if there is none that can be read."""
    try:
        value = json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def is_scratch(name: str) -> bool:
    """Say whether a file or folder of this name is being written, or was when its process died."""
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


def _run_state(home: Path, book: dict[str, Any]) -> RunState:
    times = [
        datetime.fromisoformat(when) for when in (book["started"], *book.get("resumed", []), book.get("ended")) if when
    ]
    held = is_held_here(home, book["run_id"])
    return RunState(book["run_id"], book["state"] == "done", times[0], max(times), held)
