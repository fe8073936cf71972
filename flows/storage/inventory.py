"""Inventory of the state folder: the files that rules can remove, by kind, and the state of its runs."""

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

TEXTS, RESULTS, LEFTOVERS, PRIVATE = "texts by model", "results", "leftovers", "private caches"
EMBEDDINGS, COMPLETIONS, STAYS = "embeddings", "completions", ""
SHARED = (EMBEDDINGS, COMPLETIONS, PRIVATE)
"""Kinds that several runs use."""
CACHES = {"embeddings", "votes", "reference", "students", "teachers"}
"""Folders of private/ with content that can be recomputed."""
OLDEST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Item:
    """A file of the state folder; for `wasp clean` also a folder, or old completions.

    Attributes:
        path: relative to the state folder.
        run_id: run that it belongs to; empty outside runs/.
        why: reason to remove it.
        before: only completions before this time.
    """

    path: str
    kind: str
    bytes: int = 0
    modified: datetime = OLDEST
    run_id: str = ""
    why: str = ""
    before: datetime | None = None


@dataclass(frozen=True, slots=True)
class RunState:
    """State of a run: whether it finished, its first start, its last start or end, whether a process executes it."""

    run_id: str
    done: bool
    began: datetime
    latest: datetime
    held: bool


def state_files(home: Path) -> Iterator[Item]:
    """Yield every file of the state folder, except files deleted meanwhile."""
    for folder, _, names in os.walk(home):
        for name in sorted(names):
            with suppress(FileNotFoundError):
                stat, path = (Path(folder) / name).lstat(), (Path(folder) / name).relative_to(home)
                run_id = path.parts[1] if path.parts[0] == "runs" and len(path.parts) > 2 else ""
                yield Item(str(path), kind_of(path), stat.st_size, datetime.fromtimestamp(stat.st_mtime, UTC), run_id)


def kind_of(path: Path) -> str:
    """Return the kind of a file by its path relative to the state folder; STAYS for a file that no rule removes."""
    parts, name = path.parts, path.name
    if parts[0] not in ("prefect", "mlartifacts") and any(is_scratch(part) for part in parts):
        return LEFTOVERS
    if parts[0] == "private":
        return PRIVATE if len(parts) > 2 and parts[1] in CACHES else STAYS
    if parts[0] in SHARED and len(parts) > 1:
        return parts[0]
    if parts[0] != "runs" or len(parts) < 3 or name.startswith("_") or name.endswith("release.parquet"):
        return STAYS
    if parts[2] in ("synthetic.parquet", "student"):
        return RESULTS
    return TEXTS if any(part.startswith("plm=") for part in parts) else STAYS


def run_states(home: Path) -> dict[str, RunState]:
    """Return the state of all runs with a readable manifest, by run id."""
    states = {}
    for manifest in Artifacts(home).list_runs():
        if "damaged" not in manifest and "state" in manifest:
            stamps = (manifest["started"], *manifest.get("resumed", []), manifest.get("ended"))
            times = [datetime.fromisoformat(stamp) for stamp in stamps if stamp]
            name, is_done = manifest["run_id"], manifest["state"] == "done"
            states[name] = RunState(name, is_done, times[0], max(times), is_held_here(home, name))
    return states


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
