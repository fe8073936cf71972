"""Groups of datasets with the same people: a release from one is charged to all.

Each member's chain repeats the entries of the others ('group release', 'group reserve', ...), so each chain alone
contains all that its people have spent. A dataset can leave a group only before the first release from any member.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Connection, select

from connectors.interfaces.content_keys import canonical
from connectors.interfaces.errors import ConfigError
from connectors.ledger.chain import load
from connectors.ledger.state import GROUP, JOINED, LOOK, RELEASING, Entry, State
from connectors.ledger.tables import ENTRIES

REPEATED = (*RELEASING, "reserve", "finish", LOOK)
"""Kinds of entries that the other datasets of a group repeat."""
AUTOMATIC = "with "
"""Prefix of the name of a group that the ledger itself formed."""

Write = Callable[[State, Entry], object]
"""Writes the next entry of a chain with its total."""


def repeat(entry: Entry, other: State, **more: object) -> Entry:
    """Return the entry with which another dataset of the group repeats `entry`."""
    detail = entry.detail | {"of": entry.dataset, "entry": entry.hash, "line": entry.number, **more}
    return replace(
        entry, dataset=other.dataset, kind=GROUP + entry.kind, detail_json=canonical(detail)
    )


def join(
    db: Connection,
    name: str,
    datasets: Collection[str],
    who: str,
    write: Write,
    why: Sequence[str] = (),
) -> None:
    """Merge datasets and their groups into the group `name`.

    The caller holds the ledger's lock. Earlier releases and reservations of each are charged to all others, even beyond
    their caps: they have already happened. `why`: common marks, if the ledger forms the group.
    """
    union = sorted(with_members(db, datasets) | set(_group_datasets(db, name)))
    states = [load(db, member, lock=True) for member in union]
    if all((state.group, list(state.members)) == (name, union) for state in states):
        return
    detail: dict[str, object] = {"group": name, "members": union}
    if why:  # no key in groups of the owner: keys are part of the hash
        detail["why"] = sorted(why)
    for state in states:
        before = {*state.members, state.dataset}
        write(state, Entry(state.dataset, JOINED, who, detail_json=canonical(detail)))
        for other in states:
            # Members from before have repeated the entries of each other: a second copy would charge them twice.
            if other.dataset not in before:
                for entry in _earlier_entries(other):
                    write(state, repeat(entry, state, carried=True))


def join_related(
    db: Connection, dataset: str, related: Mapping[str, Collection[str]], who: str, write: Write
) -> None:
    """Put a dataset into one group with the datasets that share its people.

    The group keeps the name of an existing group, first that of `dataset`. `related`: common marks by dataset.
    """
    # `apart`: the owner took the dataset out of their group, and the same marks must not put it back.
    others = sorted(set(related) - {dataset} - load(db, dataset, lock=False).apart)
    groups = {other: load(db, other, lock=False).group for other in (dataset, *others)}
    if not others or (len(set(groups.values())) == 1 and groups[dataset]):
        return
    name = next((group for group in groups.values() if group), AUTOMATIC + others[0])
    join(
        db,
        name,
        [dataset, *others],
        who,
        write,
        sorted({kind for other in others for kind in related[other]}),
    )


def leave(states: Sequence[State], who: str, write: Write) -> None:
    """Take the first of `states` out of its group, of which the others are; ConfigError after a release.

    Leaving later would restore a spent budget. The ledger does not put these datasets into one group again by itself.
    """
    state, *others = states
    if not state.group:
        raise ConfigError(
            f"Dataset '{state.dataset}' is in no group. See: wasp budget show {state.dataset}"
        )
    if state.charged() or state.reserved():
        raise ConfigError(
            f"Dataset '{state.dataset}' cannot leave group '{state.group}': its datasets have releases or reservations "
            "that are charged to all of them. Continue with their common budget."
        )
    remaining = [other.dataset for other in others]
    group = ""
    members: list[str] = []
    if len(remaining) > 1:  # a single dataset is no group
        group = state.group
        members = remaining
    detail = {"group": "", "members": [], "apart": remaining}
    write(state, Entry(state.dataset, JOINED, who, detail_json=canonical(detail)))
    for other in others:
        detail = {"group": group, "members": members, "apart": [state.dataset]}
        write(other, Entry(other.dataset, JOINED, who, detail_json=canonical(detail)))


def _earlier_entries(state: State) -> Iterator[Entry]:
    """Yield the earlier releases and open reservations that a new member repeats."""
    # Reservations first: the first release settles by which of the open plans a cap is divided.
    for run_id, run in state.runs.items():
        if run.open:
            yield run.reservation(state.dataset, run_id)
    yield from state.released


def with_members(db: Connection, datasets: Iterable[str]) -> set[str]:
    """Return datasets and the members of their groups."""
    return {
        member
        for dataset in datasets
        for member in (dataset, *load(db, dataset, lock=False).members)
    }


def _group_datasets(db: Connection, name: str) -> list[str]:
    """Return the datasets of a group."""
    query = select(ENTRIES.c.dataset, ENTRIES.c.detail_json).where(ENTRIES.c.kind == JOINED)
    # Entries come in the order of their chains, so the last group of each dataset wins.
    latest = {
        row.dataset: json.loads(row.detail_json)["group"]
        for row in db.execute(query.order_by(ENTRIES.c.number))
    }
    return [dataset for dataset, group in latest.items() if group == name]
