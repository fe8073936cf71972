"""The rules of `wasp clean`: which files to remove, and why.

Releases, the privacy ledger, keys and records of runs are never removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

from pydantic import Field

from connectors.artifacts.atomic_files import STALE_SECONDS
from flows.config.form import Strict
from flows.runtime.stores import VECTORS
from flows.storage import inventory as kinds
from flows.storage.experiments import old_experiments
from flows.storage.going import Going, day
from flows.storage.inventory import RunState, StateFile, read_json, run_states, runs_by_table, state_files

AGE = r"^[0-9]{1,5}[mhdw]$"
Age = Annotated[str, Field(pattern=AGE)]
UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
REMOVED = "removed.json"
"""File in a run's folder with the paths that `wasp clean` removed."""
SHARED = (kinds.EMBEDDINGS, kinds.ANSWERS, kinds.PRIVATE, kinds.BATCHES)
"""Kinds that several runs use."""


class Retention(Strict):
    """Files to remove by age (90m, 12h, 30d, 4w); without a rule, only unusable files."""

    is_whole = True

    embeddings_older_than: Age | None = Field(
        None, description="Embeddings of synthetic texts; computed again when needed."
    )
    completions_older_than: Age | None = Field(
        None, description="Cached completions of language models; requested and paid again when needed."
    )
    samples_older_than: Age | None = Field(
        None, description="Texts by model and iteration of finished runs; synthetic.parquet is not removed."
    )
    unfinished_older_than: Age | None = Field(
        None, description="Texts of unfinished runs; their releases and charges stay in the privacy ledger."
    )
    runs_older_than: Age | None = Field(
        None, description="Texts, synthetic rows and student of finished runs; releases, summary and report stay."
    )
    private_older_than: Age | None = Field(
        None, description="Caches of the private zone: embeddings and nearest neighbours of real rows."
    )
    experiments_older_than: Age | None = Field(
        None, description="Runs in MLflow with their files, models and model versions; versions with an alias stay."
    )

    def before(self, rule: str, now: datetime) -> datetime | None:
        """Return the time before which a rule removes files; None if the rule is not set."""
        age = getattr(self, rule)
        return None if age is None else now - timedelta(**{UNITS[age[-1]]: int(age[:-1])})


@dataclass(frozen=True, slots=True)
class RetentionChoice:
    """All files, the items to remove, and reasons why other items stay."""

    files: tuple[StateFile, ...]
    going: tuple[Going, ...]
    staying: tuple[str, ...]


def choose(home: Path, rules: Retention, now: datetime, free: bool) -> RetentionChoice:
    """Return the items that the rules remove from a state folder; remove nothing.

    `free`: no process uses the files that runs share.
    """
    files, runs = tuple(state_files(home)), run_states(home)
    held = sorted(run.run_id for run in runs.values() if run.held)
    staying = [f"run {run_id}: is running" for run_id in held]
    going = [*_leftovers(files, held, now), *_of_runs(files, runs, rules, now)]
    if not free:
        staying.append(f"{', '.join(SHARED)}: a process uses these shared files")
    else:
        going += [*_embeddings(home, files, rules, now), *_private(files, rules, now), *_batches(home, files)]
        going += _completions(home, runs, {item.run_id for item in going}, (rules, now), staying)
    going += old_experiments(home, runs, rules.before("experiments_older_than", now), staying)
    return RetentionChoice(files, tuple(_merge_folders(going)), tuple(staying))


def _merge_folders(items: Sequence[Going]) -> list[Going]:
    """Replace files of a scratch folder or student by the folder as one item."""
    merged: dict[str, Going] = {}
    for item in items:
        parts = Path(item.path).parts
        ends = [n for n, part in enumerate(parts) if kinds.is_scratch(part) or (n == 2 and part == "student")]
        path = str(Path(*parts[: ends[0] + 1])) if ends else item.path
        size = item.bytes + (merged[path].bytes if path in merged else 0)
        merged[path] = replace(item, path=path, bytes=size)
    return list(merged.values())


def _leftovers(files: Sequence[StateFile], held: Sequence[str], now: datetime) -> Iterator[Going]:
    before = now - timedelta(seconds=STALE_SECONDS)
    for file in files:
        if file.kind == kinds.LEFTOVERS and file.modified < before and file.run_id not in held:
            yield Going(file.path, file.kind, file.bytes, "a process died while writing it", file.run_id)


def _of_runs(files: Sequence[StateFile], runs: dict[str, RunState], rules: Retention, now: datetime) -> Iterator[Going]:
    samples, every, unfinished = (
        rules.before(name, now) for name in ("samples_older_than", "runs_older_than", "unfinished_older_than")
    )
    for file in files:
        run = runs.get(file.run_id)
        if run is None or run.held or file.kind not in (kinds.TEXTS, kinds.RESULTS):
            continue
        if not run.done:
            if unfinished and run.latest < unfinished:
                yield Going(file.path, file.kind, file.bytes, f"its run stopped on {day(run.latest)}", file.run_id)
        elif (every and run.latest < every) or (samples and run.latest < samples and file.kind == kinds.TEXTS):
            yield Going(file.path, file.kind, file.bytes, f"its run ended on {day(run.latest)}", file.run_id)


def _embeddings(home: Path, files: Sequence[StateFile], rules: Retention, now: datetime) -> Iterator[Going]:
    before, fresh = rules.before("embeddings_older_than", now), now - timedelta(seconds=STALE_SECONDS)
    run_ids = runs_by_table(home)
    for file in files:
        if file.kind != kinds.EMBEDDINGS or Path(file.path).name.startswith("_"):
            continue
        users = tuple(sorted(run_ids.get(Path(file.path).stem, ())))
        if not users and file.modified < fresh and Path(file.path).name != VECTORS:
            yield Going(file.path, file.kind, file.bytes, "no run contains these texts")
        elif before and file.modified < before:
            yield Going(file.path, file.kind, file.bytes, f"created on {day(file.modified)}", users=users)


def _private(files: Sequence[StateFile], rules: Retention, now: datetime) -> Iterator[Going]:
    before = rules.before("private_older_than", now)
    for file in files:
        if before and file.kind == kinds.PRIVATE and file.modified < before:
            yield Going(file.path, file.kind, file.bytes, f"created on {day(file.modified)}")


def _batches(home: Path, files: Sequence[StateFile]) -> Iterator[Going]:
    from connectors.models.base.completion_store import CompletionStore

    store = CompletionStore(home / "completions")
    for file in (file for file in files if file.kind == kinds.BATCHES):
        batch = read_json(home / file.path)
        identity, ids = str(batch.get("identity", "")), list(batch.get("ids", []))
        if ids and store.file(identity).exists() and len(store.lookup_many(identity, ids)) == len(ids):
            yield Going(file.path, file.kind, file.bytes, "all of its completions are cached")


def _completions(
    home: Path,
    runs: dict[str, RunState],
    leaving: set[str],
    when: tuple[Retention, datetime],
    staying: list[str],
) -> list[Going]:
    """Return the old completions, except those of a run that may be resumed."""
    from connectors.models.base.completion_store import CompletionStore

    rules, now = when
    before = rules.before("completions_older_than", now)
    if before is None:
        return []
    waiting = [run for run in runs.values() if not run.done and run.run_id not in leaving and run.began < before]
    waiting = [run for run in waiting if not (home / "runs" / run.run_id / REMOVED).exists()]
    if waiting:
        first = min(waiting, key=lambda run: run.began)
        before = first.began
        staying.append(
            f"completions since {day(before)}: run {first.run_id} is not finished and may need them "
            "(resume it, or set --unfinished-older-than)"
        )
    count, size = CompletionStore(home / "completions").older(before)
    why = f"{count} completions before {day(before)}"
    return [Going("completions", kinds.ANSWERS, size, why, before=before)] if count else []


def now() -> datetime:
    """Return the current UTC time."""
    return datetime.now(UTC)
