"""Groups of datasets with the same people: a release from one is charged to all.

Each member's chain repeats the entries of the others ('group release', 'group reserve', ...), so each chain alone
contains all that its people have spent. A group only grows: leaving it would restore a spent budget.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Connection, select

from connectors.interfaces.content_keys import canonical
from connectors.interfaces.errors import ConfigError
from connectors.ledger.chain import load, read_entries
from connectors.ledger.state import GROUP, JOINED, LOOK, RELEASING, Entry, State, read_state
from connectors.ledger.tables import ENTRIES

REPEATED = (*RELEASING, "reserve", "finish", "void", LOOK)
"""Kinds of entries that the other datasets of a group repeat."""

Write = Callable[[State, Entry], object]


def repeat(entry: Entry, other: State) -> Entry:
    """Return the entry with which another dataset of the group repeats `entry`."""
    detail = entry.detail
    if entry.kind == "void":
        releases = other.others[entry.dataset].released
        detail["number"] = next(release.number for release in releases if release.detail["line"] == detail["number"])
    detail |= {"of": entry.dataset, "entry": entry.hash, "line": entry.number}
    return replace(entry, dataset=other.dataset, kind=GROUP + entry.kind, detail_json=canonical(detail))


AUTOMATIC = "with "
"""Prefix of the name of a group that the ledger itself formed."""


def join(db: Connection, name: str, datasets: Sequence[str], who: str, write: Write, why: Sequence[str] = ()) -> None:
    """Merge datasets and their groups into the group `name`.

    The caller holds the ledger's lock. Earlier releases and reservations of each are charged to all others, even beyond
    their caps: they have already happened. `why`: common marks, if the ledger forms the group.
    """
    union = {member for dataset in datasets for member in (dataset, *_members_of(db, dataset))} | set(
        _group_datasets(db, name)
    )
    states = [load(db, member, lock=True) for member in sorted(union)]
    if all((state.group, set(state.members)) == (name, union) for state in states):
        return
    for state in states:
        detail = canonical({"group": name, "members": sorted(union), **({"why": sorted(why)} if why else {})})
        before = set(state.members)
        write(state, Entry(state.dataset, JOINED, who, detail_json=detail))
        for other in states:
            if other.dataset not in {*before, state.dataset}:
                for line in _earlier_entries(other):
                    write(state, replace(repeat(line, state), detail_json=_with_carried_mark(repeat(line, state))))


def join_related(db: Connection, dataset: str, related: Mapping[str, Collection[str]], who: str, write: Write) -> None:
    """Put a dataset into one group with the datasets that share its people.

    The group keeps the name of an existing group, first that of `dataset`. `related`: common marks by dataset.
    """
    others = sorted(set(related) - {dataset})
    groups = {other: load(db, other, lock=False).group for other in (dataset, *others)}
    if not others or (len(set(groups.values())) == 1 and groups[dataset]):
        return
    name = next((group for group in groups.values() if group), AUTOMATIC + others[0])
    why = {kind for other in others for kind in related[other]}
    join(db, name, [dataset, *others], who, write, sorted(why))


def lock_groups(db: Connection, datasets: Iterable[str]) -> None:
    """Lock datasets and their groups in sorted order, as a release does, so that neither waits for the other."""
    for name in sorted({member for dataset in datasets for member in (dataset, *_members_of(db, dataset))}):
        load(db, name, lock=True)


def checked_name(name: str) -> str:
    """Return a group's name with normalised blanks; ConfigError if it is empty."""
    plain = " ".join(name.split())
    if not plain:
        raise ConfigError("A group of datasets needs a name (private.group, or wasp budget group NAME DATASET ...).")
    return plain


def differences(db: Connection, state: State) -> Iterator[str]:
    """Yield one sentence per difference between the chains of a group."""
    for name in (member for member in state.members if member != state.dataset):
        other = read_state(name, read_entries(db, name))
        if (other.group, other.members) != (state.group, state.members):
            yield f"dataset '{name}' is not registered in group '{state.group}' with {', '.join(state.members)}"
        released = {entry.hash: entry.number for entry in other.released}
        copies = state.others[name].released if name in state.others else []
        charged = {str(entry.detail["entry"]): entry.number for entry in copies}
        for line in (number for hash_, number in released.items() if hash_ not in charged):
            yield f"entry {line} of dataset '{name}' (group '{state.group}') is not charged here"
        for line in (number for hash_, number in charged.items() if hash_ not in released):
            yield f"entry {line} is charged for dataset '{name}' (group '{state.group}'), which did not release it"


def _earlier_entries(state: State) -> Iterator[Entry]:
    """Yield the earlier releases and open reservations that a new member repeats."""
    for run_id, run in state.runs.items():
        if run.open:
            detail = canonical({"delta": run.delta, "charges": run.plan})
            yield Entry(state.dataset, "reserve", run.who, run.flow, run_id, delta=run.delta, detail_json=detail)
    yield from state.released


def _with_carried_mark(entry: Entry) -> str:
    return canonical(entry.detail | {"carried": True})


def _members_of(db: Connection, dataset: str) -> tuple[str, ...]:
    return load(db, dataset, lock=False).members


def _group_datasets(db: Connection, name: str) -> list[str]:
    """Return the datasets of a group."""
    query = select(ENTRIES.c.dataset, ENTRIES.c.detail_json).where(ENTRIES.c.kind == JOINED)
    latest = {row.dataset: json.loads(row.detail_json)["group"] for row in db.execute(query.order_by(ENTRIES.c.number))}
    return [dataset for dataset, group in latest.items() if group == name]
