"""Verification of the privacy ledger from its first entry.

The hashes have no key: anyone with full write access can rewrite all of them. The seals of entries (`seals.py`) reveal
that, since they need the ledger key. An attacker who deletes all seals is revealed by a copy of the last entry's hash,
which every finished run, its MLflow run and every bundle contain.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Table, select

from connectors.interfaces.content_keys import digest
from connectors.interfaces.errors import LedgerError
from connectors.interfaces.ledger import Compose
from connectors.ledger.cap import SLACK, Gate
from connectors.ledger.chain import output_hash, read_entries, stored_bytes
from connectors.ledger.groups import differences
from connectors.ledger.seals import broken_seals
from connectors.ledger.state import EXPORT, GROUP, JOINED, LOOK, RELEASING, VIEW, Entry, State
from connectors.ledger.tables import DATASETS, ENTRIES, FINGERPRINTS, MARKS, NAMES, OUTPUTS, RAW_OUTPUT, RECORDS, SEALS

TOLERANCE = 1e-6
# Errors that an accountant or JSON code can raise on content that this program did not write.
UNREADABLE = (ArithmeticError, AttributeError, LedgerError, LookupError, TypeError, ValueError)
ENROLLING = ("register", "version", "alias")
UNCOUNTED = (*ENROLLING, JOINED, LOOK, EXPORT, VIEW, GROUP + LOOK)
"""Kinds of entries that can precede the first delta and therefore have no total."""


Enrolled = tuple[int, str, dict[str, Any]]
"""Number, kind and detail of an entry that registered content."""


@dataclass(slots=True)
class Audit:
    """One pass over a dataset's ledger.

    `second` is an accountant that shares no code with the ledger's own.
    """

    db: Connection
    gate: Gate
    second: Compose | None
    totals: dict[tuple[int, int, float], float] = field(default_factory=dict)

    def problems(self, dataset: str) -> Iterator[str]:
        """Yield one sentence per problem."""
        entries, state = read_entries(self.db, dataset), State(dataset)
        intact = [entry for entry in entries if entry.hash == entry.sealed()]
        for entry in entries:
            yield from self._link(state, entry)
            if entry in intact:
                yield from self._meaning(state, entry)
            # The meaning of a changed entry is unknown; verification continues after it.
            state.head, state.entries, state.last_at = entry.hash, entry.number, entry.at
        yield from broken_seals(self.db, dataset, entries)
        yield from self._head(dataset, entries)
        yield from self._second_opinion(state)
        yield from self._group(state)
        yield from self._outputs(state)
        yield from self._look_ups(dataset, intact)

    def _link(self, state: State, entry: Entry) -> Iterator[str]:
        if entry.number != state.entries + 1:
            yield f"entry {entry.number} follows entry {state.entries}: an entry is missing"
        if entry.previous != state.head:
            yield f"entry {entry.number} does not contain the hash of the entry before it"
        if entry.hash != entry.sealed():
            yield f"entry {entry.number} was changed after it was written"
        if entry.at < state.last_at:
            yield f"entry {entry.number} is older than the entry before it"
        if (entry.kind == "register") != (entry.number == 1):
            yield f"entry {entry.number} is of kind {entry.kind}, but only the first entry registers a dataset"

    def _meaning(self, state: State, entry: Entry) -> Iterator[str]:
        try:
            state.apply(entry)
            if entry.delta is not None and entry.epsilon is not None:
                yield from self._sum(state, entry, entry.delta, entry.epsilon)
            elif entry.kind not in UNCOUNTED:
                yield f"entry {entry.number} has no total"
        except UNREADABLE as error:
            yield f"entry {entry.number} cannot be read as {entry.kind} ({type(error).__name__})"

    def _sum(self, state: State, entry: Entry, delta: float, epsilon: float) -> Iterator[str]:
        total = self._total(state, delta)
        if not _close(total, epsilon):
            yield f"entry {entry.number} has a total epsilon of {epsilon:.9g}, recomputed {total:.9g}"
        # Releases of a new group member have already happened, regardless of the cap.
        new = entry.kind.removeprefix(GROUP) in RELEASING and not entry.detail.get("carried", False)
        if new and state.cap is not None and total > state.cap.epsilon * (1 + SLACK):
            yield f"entry {entry.number} raised epsilon to {total:.9g}, above the cap {state.cap.epsilon:.9g}"

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
            yield f"{head.entries} entries were written, {len(entries)} exist"
        elif not entries or head.head != entries[-1].hash:
            yield "its head does not contain the hash of the last entry"

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
            yield f"the second accountant computes epsilon {second:.9g}, the ledger only {first:.9g}"

    def _group(self, state: State) -> Iterator[str]:
        try:
            yield from differences(self.db, state)
        except UNREADABLE:
            yield f"the ledger of another dataset of group '{state.group}' is not valid"

    def _outputs(self, state: State) -> Iterator[str]:
        for key, count in Counter(entry.step_key for entry in state.released).items():
            if count > 1:
                yield f"step key {key[:12]} was released {count} times"
        expected = {entry.number: entry for entry in state.released}
        query = select(OUTPUTS.c.number, OUTPUTS.c.step_key, RAW_OUTPUT).where(OUTPUTS.c.dataset == state.dataset)
        for row in self.db.execute(query):
            entry = expected.pop(row.number, None)
            if entry is None or entry.step_key != row.step_key:
                yield f"a stored output was not released by entry {row.number}"
            elif entry.output_hash != output_hash(stored_bytes(row.output)):
                yield f"the output of entry {row.number} was changed"
        for number in expected:
            yield f"the output of entry {number} is missing"

    def _look_ups(self, dataset: str, entries: Sequence[Entry]) -> Iterator[str]:
        enrolled = [(entry.number, entry.kind, entry.detail) for entry in entries if entry.kind in ENROLLING]
        names = self.db.execute(select(NAMES.c.name).where(NAMES.c.dataset == dataset)).scalars()
        if set(names) != {str(detail.get("name")) for _, _, detail in enrolled}:
            yield "its names differ from the registered ones"
        prints = self.db.execute(select(FINGERPRINTS.c.fingerprint).where(FINGERPRINTS.c.dataset == dataset)).scalars()
        if set(prints) != {str(detail.get("fingerprint")) for _, _, detail in enrolled}:
            yield "its fingerprints differ from the registered ones"
        yield from self._hashes("record", RECORDS, dataset, enrolled)
        yield from self._hashes("mark", MARKS, dataset, enrolled)

    def _hashes(self, name: str, table: Table, dataset: str, enrolled: Sequence[Enrolled]) -> Iterator[str]:
        """Compare the hashes of a look-up table with the entries that registered them."""
        hashes: dict[int, list[str]] = defaultdict(list)
        for row in self.db.execute(
            select(table.c.number, table.c[name].label("hash")).where(table.c.dataset == dataset)
        ):
            hashes[row.number].append(row.hash)
        for number, _, detail in enrolled:
            if digest(sorted(hashes.pop(number, []))) != detail.get(f"{name}s", digest([])):
                yield f"the {name} hashes of entry {number} differ from the registered ones"
        if hashes:
            yield f"it has {name} hashes that no entry registered"


def orphans(db: Connection) -> Iterator[str]:
    """Yield one sentence per dataset that is missing in the list of datasets."""
    datasets = set(db.execute(select(DATASETS.c.dataset)).scalars())
    for table in (ENTRIES, OUTPUTS, NAMES, FINGERPRINTS, RECORDS, MARKS, SEALS):
        for dataset in sorted(set(db.execute(select(table.c.dataset).distinct()).scalars()) - datasets):
            yield f"{dataset}: {table.name} has rows of this dataset, but its head is missing"


def _close(first: float, second: float) -> bool:
    return first == second or abs(first - second) <= TOLERANCE * max(abs(first), abs(second), TOLERANCE)
