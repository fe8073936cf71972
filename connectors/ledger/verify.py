"""Reads the budget book again from its first line and says what does not hold.

The hashes carry no key: somebody with full write access can rewrite all of them. Only the sums, or a copy of the last
entry's hash kept elsewhere, tell then.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, select

from connectors.interfaces.content_keys import digest
from connectors.interfaces.errors import LedgerError
from connectors.interfaces.ledger import Compose
from connectors.ledger.cap import SLACK, Gate
from connectors.ledger.chain import output_hash, read_entries, stored_bytes
from connectors.ledger.groups import differences
from connectors.ledger.state import EXPORT, GROUP, JOINED, LOOK, RELEASING, Entry, State
from connectors.ledger.tables import DATASETS, ENTRIES, FINGERPRINTS, NAMES, OUTPUTS, RAW_OUTPUT, RECORDS

TOLERANCE = 1e-6
# What an accountant or a reader of JSON may raise on content that this program did not write.
UNREADABLE = (ArithmeticError, AttributeError, LedgerError, LookupError, TypeError, ValueError)
ENROLLING = ("register", "version", "alias")
UNCOUNTED = (*ENROLLING, JOINED, LOOK, EXPORT, GROUP + LOOK)
"""Kinds of lines that may stand where no delta is known yet, and so carry no total."""


@dataclass(slots=True)
class Audit:
    """One pass over one dataset's book; `second` is an accountant that shares no code with the gate's."""

    db: Connection
    gate: Gate
    second: Compose | None
    totals: dict[tuple[int, int, float], float] = field(default_factory=dict)

    def problems(self, dataset: str) -> Iterator[str]:
        """Yield one sentence for each thing that does not hold."""
        entries, state = read_entries(self.db, dataset), State(dataset)
        intact = [entry for entry in entries if entry.hash == entry.sealed()]
        for entry in entries:
            yield from self._link(state, entry)
            if entry in intact:
                yield from self._meaning(state, entry)
            # What a changed entry means is not known; the walk goes on from where it stands.
            state.head, state.entries, state.last_at = entry.hash, entry.number, entry.at
        yield from self._head(dataset, entries)
        yield from self._second_opinion(state)
        yield from self._group(state)
        yield from self._outputs(state)
        yield from self._look_ups(dataset, intact)

    def _link(self, state: State, entry: Entry) -> Iterator[str]:
        if entry.number != state.entries + 1:
            yield f"entry {entry.number} follows entry {state.entries}: one is missing"
        if entry.previous != state.head:
            yield f"entry {entry.number} does not carry the hash of the entry before it"
        if entry.hash != entry.sealed():
            yield f"entry {entry.number} was changed after it was written"
        if entry.at < state.last_at:
            yield f"entry {entry.number} is older than the entry before it"
        if (entry.kind == "register") != (entry.number == 1):
            yield f"entry {entry.number} is of kind {entry.kind}: the first entry, and no other, registers a dataset"

    def _meaning(self, state: State, entry: Entry) -> Iterator[str]:
        try:
            state.apply(entry)
            if entry.delta is not None and entry.epsilon is not None:
                yield from self._sum(state, entry, entry.delta, entry.epsilon)
            elif entry.kind not in UNCOUNTED:
                yield f"entry {entry.number} carries no total"
        except UNREADABLE as error:
            yield f"entry {entry.number} cannot be read as {entry.kind} ({type(error).__name__})"

    def _sum(self, state: State, entry: Entry, delta: float, epsilon: float) -> Iterator[str]:
        total = self._total(state, delta)
        if not _close(total, epsilon):
            yield f"entry {entry.number} says epsilon {epsilon:.9g} in total, recomputed {total:.9g}"
        # What a new member of a group brings with it has happened, whatever the cap.
        new = entry.kind.removeprefix(GROUP) in RELEASING and not entry.detail.get("carried", False)
        if new and state.cap is not None and total > state.cap.epsilon * (1 + SLACK):
            yield f"entry {entry.number} brought epsilon to {total:.9g}, past the cap {state.cap.epsilon:.9g}"

    def _total(self, state: State, delta: float) -> float:
        key = (len(state.charged()), state.taken_back(), delta)
        if key not in self.totals:
            self.totals[key] = self.gate.total(state.spent(), delta)
        return self.totals[key]

    def _head(self, dataset: str, entries: Sequence[Entry]) -> Iterator[str]:
        head = self.db.execute(select(DATASETS).where(DATASETS.c.dataset == dataset)).first()
        if head is None:
            yield "its head is missing"
        elif head.entries != len(entries):
            yield f"{head.entries} entries were written, {len(entries)} are there"
        elif not entries or head.head != entries[-1].hash:
            yield "its head does not carry the hash of the last entry"

    def _second_opinion(self, state: State) -> Iterator[str]:
        delta = state.delta()
        if self.second is None or delta is None:
            return
        try:
            first, second = self._total(state, delta), Gate(self.second).total(state.spent(), delta)
        except UNREADABLE as error:
            yield f"the totals cannot be computed ({type(error).__name__})"
            return
        if second > first and not _close(first, second):
            yield f"the second accountant finds epsilon {second:.9g}, the book only {first:.9g}"

    def _group(self, state: State) -> Iterator[str]:
        try:
            yield from differences(self.db, state)
        except UNREADABLE:
            yield f"the book of another dataset of group '{state.group}' does not hold"

    def _outputs(self, state: State) -> Iterator[str]:
        for key, count in Counter(entry.step_key for entry in state.released).items():
            if count > 1:
                yield f"step key {key[:12]} was released {count} times"
        expected = {entry.number: entry for entry in state.released}
        query = select(OUTPUTS.c.number, OUTPUTS.c.step_key, RAW_OUTPUT).where(OUTPUTS.c.dataset == state.dataset)
        for row in self.db.execute(query):
            entry = expected.pop(row.number, None)
            if entry is None or entry.step_key != row.step_key:
                yield f"an output is stored that entry {row.number} did not release"
            elif entry.output_hash != output_hash(stored_bytes(row.output)):
                yield f"the output of entry {row.number} was changed"
        for number in expected:
            yield f"the output of entry {number} is missing"

    def _look_ups(self, dataset: str, entries: Sequence[Entry]) -> Iterator[str]:
        enrolled = [(entry.number, entry.kind, entry.detail) for entry in entries if entry.kind in ENROLLING]
        names = self.db.execute(select(NAMES.c.name).where(NAMES.c.dataset == dataset)).scalars()
        if set(names) != {str(detail.get("name")) for _, _, detail in enrolled}:
            yield "its names are not those that were registered"
        prints = self.db.execute(select(FINGERPRINTS.c.fingerprint).where(FINGERPRINTS.c.dataset == dataset)).scalars()
        if set(prints) != {str(detail.get("fingerprint")) for _, _, detail in enrolled}:
            yield "its fingerprints are not those that were registered"
        records: dict[int, list[str]] = defaultdict(list)
        for row in self.db.execute(select(RECORDS.c.number, RECORDS.c.record).where(RECORDS.c.dataset == dataset)):
            records[row.number].append(row.record)
        for number, _, detail in enrolled:
            if digest(sorted(records.pop(number, []))) != detail.get("records"):
                yield f"the record hashes of entry {number} are not those that were registered"
        if records:
            yield "it holds record hashes that no entry registered"


def strays(db: Connection) -> Iterator[str]:
    """Yield one sentence for each dataset that some table knows and the list of datasets does not."""
    known = set(db.execute(select(DATASETS.c.dataset)).scalars())
    for table in (ENTRIES, OUTPUTS, NAMES, FINGERPRINTS, RECORDS):
        for dataset in sorted(set(db.execute(select(table.c.dataset).distinct()).scalars()) - known):
            yield f"{dataset}: {table.name} holds rows of this dataset, but its head is missing"


def _close(one: float, other: float) -> bool:
    return one == other or abs(one - other) <= TOLERANCE * max(abs(one), abs(other), TOLERANCE)
