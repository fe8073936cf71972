"""Datasets that hold the same people: what one of them releases is charged to all.

Each member's chain repeats what happens to the others ('group release', 'group reserve', ...), so that every chain says
by itself what its people have spent. A group only grows: leaving it would give a budget back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from sqlalchemy import Connection, select

from connectors.interfaces.content_keys import canonical
from connectors.interfaces.errors import ConfigError
from connectors.ledger.chain import load, read_entries
from connectors.ledger.state import GROUP, JOINED, LOOK, RELEASING, Entry, State, read_state
from connectors.ledger.tables import ENTRIES

REPEATED = (*RELEASING, "reserve", "finish", "void", LOOK)
"""Kinds of lines that the other datasets of a group repeat."""

Write = Callable[[State, Entry], object]


def repeat(entry: Entry, other: State) -> Entry:
    """Return the line by which another dataset of the group repeats `entry`."""
    detail = entry.detail
    if entry.kind == "void":
        there = other.others[entry.dataset].released
        detail["number"] = next(each.number for each in there if each.detail["line"] == detail["number"])
    detail |= {"of": entry.dataset, "entry": entry.hash, "line": entry.number}
    return replace(entry, dataset=other.dataset, kind=GROUP + entry.kind, detail_json=canonical(detail))


def join(db: Connection, name: str, datasets: Sequence[str], who: str, write: Write) -> None:
    """Put datasets, and all that their groups hold, into the group `name`. The caller holds the book's lock.

    What each has released and reserved so far is charged to those that did not know it yet, past their caps if need be:
    it has happened.
    """
    union = {member for one in datasets for member in (one, *_members_of(db, one))} | set(_named(db, name))
    states = [load(db, member, lock=True) for member in sorted(union)]
    if all((state.group, set(state.members)) == (name, union) for state in states):
        return
    for state in states:
        detail = canonical({"group": name, "members": sorted(union)})
        before = set(state.members)
        write(state, Entry(state.dataset, JOINED, who, detail_json=detail))
        for other in states:
            if other.dataset not in {*before, state.dataset}:
                for line in _so_far(other):
                    write(state, replace(repeat(line, state), detail_json=_carried(repeat(line, state))))


def checked_name(name: str) -> str:
    """Return the name of a group without needless blanks; ConfigError if nothing is left."""
    plain = " ".join(name.split())
    if not plain:
        raise ConfigError("A group of datasets needs a name (private.group, or wasp budget group NAME DATASET ...).")
    return plain


def differences(db: Connection, state: State) -> Iterator[str]:
    """Yield one sentence for each thing that the chains of a group do not tell alike."""
    for name in (member for member in state.members if member != state.dataset):
        other = read_state(name, read_entries(db, name))
        if (other.group, other.members) != (state.group, state.members):
            yield f"dataset '{name}' does not know that it is in group '{state.group}' with {', '.join(state.members)}"
        there = {entry.hash: entry.number for entry in other.released}
        here = state.others[name].released if name in state.others else []
        known = {str(entry.detail["entry"]): entry.number for entry in here}
        for line in (number for hash_, number in there.items() if hash_ not in known):
            yield f"entry {line} of dataset '{name}' (group '{state.group}') is not charged here"
        for line in (number for hash_, number in known.items() if hash_ not in there):
            yield f"entry {line} is charged for dataset '{name}' (group '{state.group}'), which did not release it"


def _so_far(state: State) -> Iterator[Entry]:
    """Yield the lines by which a new member learns what a dataset has spent and reserved before."""
    for run_id, run in state.runs.items():
        if run.open:
            detail = canonical({"delta": run.delta, "charges": run.plan})
            yield Entry(state.dataset, "reserve", run.who, run.flow, run_id, delta=run.delta, detail_json=detail)
    yield from state.released


def _carried(entry: Entry) -> str:
    return canonical(entry.detail | {"carried": True})


def _members_of(db: Connection, dataset: str) -> tuple[str, ...]:
    return load(db, dataset, lock=False).members


def _named(db: Connection, name: str) -> list[str]:
    """Return the datasets of the group of this name."""
    query = select(ENTRIES.c.dataset, ENTRIES.c.detail_json).where(ENTRIES.c.kind == JOINED)
    latest = {row.dataset: json.loads(row.detail_json)["group"] for row in db.execute(query.order_by(ENTRIES.c.number))}
    return [dataset for dataset, group in latest.items() if group == name]
