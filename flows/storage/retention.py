"""The rules of `wasp clean`: the files of the state folder by kind, which of them to remove, and why.

Releases, the privacy ledger, keys and records of runs are never removed. A run's age counts from its last start or end,
so a run that a schedule reuses each night stays.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from connectors.artifacts.store import Artifacts
from connectors.interfaces.json_values import Json
from connectors.models.base.completion_store import CompletionStore
from flows.config.form import Strict
from flows.config.removed import refuse_removed
from flows.runtime.manifest import is_held_here

TEXTS = "texts by model"
RESULTS = "results"
LEFTOVERS = "leftovers"
PRIVATE = "private caches"
EMBEDDINGS = "embeddings"
COMPLETIONS = "completions"
STAYS = ""
SHARED = (EMBEDDINGS, COMPLETIONS, PRIVATE)
"""Kinds of files that several runs use."""
CACHES = {"embeddings", "votes", "reference", "students", "teachers"}
"""Folders of private/ with content that can be recomputed."""
OLDEST = datetime.min.replace(tzinfo=UTC)
AGE = r"^[0-9]{1,5}[mhdw]$"


def _check_age(age: str) -> str:
    """Return an age; ValueError for any other text."""
    if not re.fullmatch(AGE, age):
        raise ValueError("is not an age. Write an age such as 90m, 12h, 30d or 4w")
    return age


Age = Annotated[str, AfterValidator(_check_age), WithJsonSchema({"type": "string", "pattern": AGE})]
UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
STALE = timedelta(hours=1)
"""Age at which a file that is not completely written counts as abandoned."""
REMOVED = "removed.json"
"""File in a run's folder with the paths that `wasp clean` removed."""


class Retention(Strict):
    """Files to remove by age (90m, 12h, 30d, 4w); without a rule, only unusable files."""

    is_whole = True
    flow_name: ClassVar[str] = "clean"

    intermediate_older_than: Age | None = Field(
        None,
        description="Texts by model and iteration of finished runs, and caches of all runs: embeddings, completions "
        "(requested and paid again when needed), private caches. synthetic.parquet is not removed.",
    )
    runs_older_than: Age | None = Field(
        None,
        description="Texts, synthetic rows and student of runs, finished or not; releases, summary and report stay. "
        "Runs and models in MLflow stay.",
    )

    @model_validator(mode="before")
    @classmethod
    def _refuse_removed(cls, values: Any) -> Any:
        """Explain the ages of earlier versions, also of a schedule, whose values Prefect checks."""
        if isinstance(values, dict):
            refuse_removed(cls.flow_name, "", values)
        return values

    def before(self, rule: str, now: datetime) -> datetime:
        """Return the time before which a rule removes files; the oldest time if the rule is not set."""
        age = getattr(self, f"{rule}_older_than")
        if not age:
            return OLDEST
        return now - timedelta(**{UNITS[age[-1]]: int(age[:-1])})


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
            file = Path(folder) / name
            with suppress(FileNotFoundError):
                # lstat: a link is as old as itself, and its target is another file.
                stat = file.lstat()
                path = file.relative_to(home)
                run_id = ""
                if path.parts[0] == "runs" and len(path.parts) > 2:
                    run_id = path.parts[1]
                modified = datetime.fromtimestamp(stat.st_mtime, UTC)
                yield Item(str(path), kind_of(path), stat.st_size, modified, run_id)


def kind_of(path: Path) -> str:
    """Return the kind of a file by its path relative to the state folder; STAYS for a file that no rule removes."""
    parts = path.parts
    name = path.name
    # Files that Prefect or MLflow is still writing may look like ours.
    if parts[0] not in ("prefect", "mlartifacts") and any(is_scratch(part) for part in parts):
        return LEFTOVERS
    if parts[0] == "private":
        is_cache = len(parts) > 2 and parts[1] in CACHES
        return PRIVATE if is_cache else STAYS
    if parts[0] in SHARED and len(parts) > 1:
        return parts[0]
    if parts[0] != "runs" or len(parts) < 3:
        return STAYS
    # Releases were paid for, and names with an underscore are our own records.
    if name.startswith("_") or name.endswith("release.parquet"):
        return STAYS
    if parts[2] in ("synthetic.parquet", "student"):
        return RESULTS
    if any(part.startswith("plm=") for part in parts):
        return TEXTS
    return STAYS


def run_states(home: Path) -> dict[str, RunState]:
    """Return the state of all runs with a readable manifest, by run id."""
    states = {}
    for manifest in Artifacts(home).list_runs():
        if "damaged" not in manifest and "state" in manifest:
            stamps = (manifest["started"], *manifest.get("resumed", []), manifest.get("ended"))
            times = [datetime.fromisoformat(stamp) for stamp in stamps if stamp]
            name = manifest["run_id"]
            is_done = manifest["state"] == "done"
            states[name] = RunState(name, is_done, times[0], max(times), is_held_here(home, name))
    return states


def read_json(path: Path) -> Json:
    """Return the JSON object in a file; empty if the file is missing or invalid."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(value, dict):
        return {}
    return value


def is_scratch(name: str) -> bool:
    """Return True for the name of a file or folder that is not completely written."""
    return name.startswith(".") and name.endswith((".tmp", ".part"))


@dataclass(frozen=True, slots=True)
class RetentionChoice:
    """The items to remove, and reasons why other items stay."""

    going: tuple[Item, ...]
    staying: tuple[str, ...]


def choose(home: Path, rules: Retention, now: datetime, free: bool) -> RetentionChoice:
    """Return the items that the rules remove from a state folder; remove nothing.

    `free`: no process uses the files that runs share.
    """
    runs = run_states(home)
    intermediate = rules.before("intermediate", now)
    whole = rules.before("runs", now)
    stale = now - STALE
    staying = [f"run {run_id}: is running" for run_id in sorted(runs) if runs[run_id].held]
    going: dict[str, Item] = {}
    for file in state_files(home):
        run = runs.get(file.run_id)
        if file.kind in SHARED:
            why = ""
            # Completions are removed by the time of each, not by that of their files.
            if free and file.kind != COMPLETIONS and file.modified < intermediate:
                why = f"created on {_day(file.modified)}"
        else:
            why = _why_of_run(file, run, intermediate, whole, stale)
        if why:
            name = _item_of(file)
            size = file.bytes
            if name in going:
                size += going[name].bytes
            going[name] = replace(file, path=name, bytes=size, why=why)
    items = list(going.values())
    if free:
        items += _completions(home, runs, {item.run_id for item in items}, intermediate, staying)
    else:
        staying.append(f"{', '.join(SHARED)}: a process uses these shared files")
    return RetentionChoice(tuple(items), tuple(staying))


def _item_of(file: Item) -> str:
    """Return the path of the item that a file belongs to: a scratch folder or a student is one item."""
    parts = Path(file.path).parts
    for depth, part in enumerate(parts):
        if is_scratch(part) or (depth == 2 and part == "student"):
            return str(Path(*parts[: depth + 1]))
    return file.path


def _why_of_run(
    file: Item, run: RunState | None, intermediate: datetime, whole: datetime, stale: datetime
) -> str:
    """Return why a file of a run, or one that is not completely written, is removed; empty if it stays."""
    if run is not None and run.held:
        return ""
    if file.kind == LEFTOVERS:
        # A process without a lock, such as an export, may still be writing a newer one.
        if file.modified >= stale:
            return ""
        return "a process died while writing it"
    if run is None or file.kind not in (TEXTS, RESULTS):
        return ""
    is_intermediate = run.done and file.kind == TEXTS and run.latest < intermediate
    if not is_intermediate and run.latest >= whole:
        return ""
    verb = "ended" if run.done else "stopped"
    return f"its run {verb} on {_day(run.latest)}"


def _completions(
    home: Path,
    runs: Mapping[str, RunState],
    leaving: set[str],
    before: datetime,
    staying: list[str],
) -> Iterator[Item]:
    """Yield the old completions, except those of a run that may be resumed."""
    waiting = [
        run
        for run in runs.values()
        if not run.done and run.run_id not in leaving and run.began < before
    ]
    # The texts of a run that was cleaned before are gone: it is no reason to keep completions.
    waiting = [run for run in waiting if not (home / "runs" / run.run_id / REMOVED).exists()]
    if waiting:
        first = min(waiting, key=lambda run: run.began)
        before = first.began
        staying.append(
            f"completions since {_day(before)}: run {first.run_id} is not finished and may need them "
            "(resume it, or set --runs-older-than)"
        )
    count, size = CompletionStore(home / "completions").older(before)
    if count:
        why = f"{count} completions before {_day(before)}"
        yield Item("completions", COMPLETIONS, size, why=why, before=before)


def _day(when: datetime) -> str:
    """Return a time as shown in reasons, in UTC to the minute."""
    return when.astimezone(UTC).isoformat(sep=" ", timespec="minutes")[:16]
