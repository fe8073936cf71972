"""The rules of `wasp clean`: what may go, and why. Releases, budget book, key and records of runs always stay."""

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
from flows.storage.inventory import RunState, StateFile, makers, read_json, run_states, state_files

AGE = r"^[0-9]{1,5}[mhdw]$"
Age = Annotated[str, Field(pattern=AGE)]
UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
REMOVED = "removed.json"
"""What `wasp clean` took from a run, in the run's folder."""
SHARED = (kinds.EMBEDDINGS, kinds.ANSWERS, kinds.PRIVATE, kinds.BATCHES)
"""Kinds that several runs use."""


class Retention(Strict):
    """What to remove by age: 90m, 12h, 30d, 4w. Without a rule only what nobody can use any more goes."""

    is_whole = True

    embeddings_older_than: Age | None = Field(
        None, description="Embeddings of synthetic texts; computed again when needed."
    )
    completions_older_than: Age | None = Field(
        None, description="Kept answers of language models; asked, and paid, again when needed."
    )
    samples_older_than: Age | None = Field(
        None, description="Texts by model and iteration of finished runs; synthetic.parquet stays."
    )
    unfinished_older_than: Age | None = Field(
        None, description="Texts of runs that never ended; what they released and spent stays in the book."
    )
    runs_older_than: Age | None = Field(
        None, description="Synthetic rows and student of finished runs as well; releases, summary and report stay."
    )
    private_older_than: Age | None = Field(
        None, description="Caches of the private zone: embeddings and near neighbours of real rows."
    )

    def before(self, rule: str, now: datetime) -> datetime | None:
        """Return the moment that a rule counts from, None where the rule is not set."""
        age = getattr(self, rule)
        return None if age is None else now - timedelta(**{UNITS[age[-1]]: int(age[:-1])})


@dataclass(frozen=True, slots=True)
class Going:
    """One thing that goes: a file, or all answers before a moment (`path` is then completions)."""

    path: str
    kind: str
    bytes: int
    why: str
    run_id: str = ""
    users: tuple[str, ...] = ()
    before: datetime | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """What lies there, what goes, and what stays although a rule names it, with the reason."""

    files: tuple[StateFile, ...]
    going: tuple[Going, ...]
    staying: tuple[str, ...]


def choose(home: Path, rules: Retention, now: datetime, free: bool) -> Choice:
    """Return what the rules remove from a state folder; nothing is touched. `free`: no process uses what runs share."""
    files, runs = tuple(state_files(home)), run_states(home)
    held = sorted(run.run_id for run in runs.values() if run.held)
    staying = [f"run {run_id}: is being carried out" for run_id in held]
    going = [*_leftovers(files, held, now), *_of_runs(files, runs, rules, now)]
    if not free:
        staying.append(f"{', '.join(SHARED)}: runs share them, and a process uses them now")
    else:
        going += [*_embeddings(home, files, rules, now), *_private(files, rules, now), *_batches(home, files)]
        going += _answers(home, runs, {one.run_id for one in going}, (rules, now), staying)
    return Choice(files, tuple(_whole(going)), tuple(staying))


def _whole(going: Sequence[Going]) -> list[Going]:
    """Return files of one scratch folder, or of one student, as the folder that they fill: it goes at once."""
    found: dict[str, Going] = {}
    for one in going:
        parts = Path(one.path).parts
        ends = [n for n, part in enumerate(parts) if kinds.is_scratch(part) or (n == 2 and part == "student")]
        path = str(Path(*parts[: ends[0] + 1])) if ends else one.path
        size = one.bytes + (found[path].bytes if path in found else 0)
        found[path] = replace(one, path=path, bytes=size)
    return list(found.values())


def _leftovers(files: Sequence[StateFile], held: Sequence[str], now: datetime) -> Iterator[Going]:
    before = now - timedelta(seconds=STALE_SECONDS)
    for one in files:
        if one.kind == kinds.LEFTOVERS and one.modified < before and one.run_id not in held:
            yield Going(one.path, one.kind, one.bytes, "a process died while writing it", one.run_id)


def _of_runs(files: Sequence[StateFile], runs: dict[str, RunState], rules: Retention, now: datetime) -> Iterator[Going]:
    samples, every, unfinished = (
        rules.before(name, now) for name in ("samples_older_than", "runs_older_than", "unfinished_older_than")
    )
    for one in files:
        run = runs.get(one.run_id)
        if run is None or run.held or one.kind not in (kinds.TEXTS, kinds.RESULTS):
            continue
        if not run.done:
            if unfinished and run.latest < unfinished:
                yield Going(one.path, one.kind, one.bytes, f"its run stopped on {_day(run.latest)}", one.run_id)
        elif (every and run.latest < every) or (samples and run.latest < samples and one.kind == kinds.TEXTS):
            yield Going(one.path, one.kind, one.bytes, f"its run ended on {_day(run.latest)}", one.run_id)


def _embeddings(home: Path, files: Sequence[StateFile], rules: Retention, now: datetime) -> Iterator[Going]:
    before, fresh = rules.before("embeddings_older_than", now), now - timedelta(seconds=STALE_SECONDS)
    users = makers(home)
    for one in files:
        if one.kind != kinds.EMBEDDINGS or Path(one.path).name.startswith("_"):
            continue
        of = tuple(sorted(users.get(Path(one.path).stem, ())))
        if not of and one.modified < fresh and Path(one.path).name != VECTORS:
            yield Going(one.path, one.kind, one.bytes, "no run holds these texts")
        elif before and one.modified < before:
            yield Going(one.path, one.kind, one.bytes, f"made on {_day(one.modified)}", users=of)


def _private(files: Sequence[StateFile], rules: Retention, now: datetime) -> Iterator[Going]:
    before = rules.before("private_older_than", now)
    for one in files:
        if before and one.kind == kinds.PRIVATE and one.modified < before:
            yield Going(one.path, one.kind, one.bytes, f"made on {_day(one.modified)}")


def _batches(home: Path, files: Sequence[StateFile]) -> Iterator[Going]:
    from connectors.models.base.completion_store import CompletionStore

    store = CompletionStore(home / "completions")
    for one in (one for one in files if one.kind == kinds.BATCHES):
        batch = read_json(home / one.path)
        identity, asked = str(batch.get("identity", "")), list(batch.get("ids", []))
        if asked and store.file(identity).exists() and len(store.lookup_many(identity, asked)) == len(asked):
            yield Going(one.path, one.kind, one.bytes, "all of its answers are kept")


def _answers(
    home: Path,
    runs: dict[str, RunState],
    leaving: set[str],
    when: tuple[Retention, datetime],
    staying: list[str],
) -> list[Going]:
    """Answers go by age, but not those that a run which may still go on was given."""
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
            f"answers since {_day(before)}: run {first.run_id} is not finished and may need them "
            "(resume it, or name --unfinished-older-than)"
        )
    count, size = CompletionStore(home / "completions").older(before)
    why = f"{count} answers before {_day(before)}"
    return [Going("completions", kinds.ANSWERS, size, why, before=before)] if count else []


def now() -> datetime:
    """Return the time, UTC."""
    return datetime.now(UTC)


def _day(when: datetime) -> str:
    return when.astimezone(UTC).isoformat(sep=" ", timespec="minutes")[:16]
