"""Verification of a dataset's ledger from its first entry.

The hashes have no key: whoever can write to the database can compute all of them again. That is recognised by
`private/ledger.head` of each machine (`heads.py`), unless the attacker can change it as well.
"""

from collections.abc import Iterator

from sqlalchemy import Connection, select

from connectors.interfaces.errors import LedgerError
from connectors.interfaces.ledger import Compose
from connectors.ledger.cap import CapCheck
from connectors.ledger.chain import output_hash, read_entries, stored_bytes
from connectors.ledger.state import GROUP, JOINED, RELEASING, Entry, State, extend
from connectors.ledger.tables import DATASETS, OUTPUTS, RAW_OUTPUT

TOLERANCE = 1e-6
"""Relative difference of two totals by the same accountant."""
GRID = 1e-3
"""Part of delta by which the second accountant may differ: its grid of losses adds delta.

In epsilon this is about a ten-thousandth, at every size of epsilon; a fixed difference of epsilons would hide an error
of a per cent in a small one.
"""
TAIL = 1e-14
"""Delta that its cut tail adds."""
CHANGING = (*RELEASING, "void", JOINED)
"""Kinds of entries after which a dataset has another total."""
UNREADABLE = (ArithmeticError, AttributeError, LedgerError, LookupError, TypeError, ValueError)
"""Errors that an accountant or JSON code can raise on content that this program did not write."""


def problems_of(
    db: Connection, cap_check: CapCheck, second: Compose | None, dataset: str
) -> Iterator[str]:
    """Yield one sentence per problem of a dataset; nothing after the first entry that breaks its chain.

    `second` is an accountant that shares no code with the ledger's own.
    """
    state = State(dataset)
    totals = _Totals(cap_check)
    for entry in read_entries(db, dataset):
        try:
            extend(state, entry)
            yield from totals.problems(state, entry)
        # Only the kind of error: its text could quote the changed content.
        except UNREADABLE as error:
            yield f"entry {entry.number} was changed, or one before it is missing ({type(error).__name__})"
            return
    head = db.execute(select(DATASETS).where(DATASETS.c.dataset == dataset)).first()
    if head is None:
        yield f"no entries were written, {state.entries} exist"
    elif (head.entries, head.head) != (state.entries, state.head):
        yield f"{head.entries} entries were written, {state.entries} exist"
    delta = state.delta()
    if second is not None and delta is not None:
        first = cap_check.total(state.spent(), delta)
        other = CapCheck(second).total(state.spent(), delta * (1 + GRID) + TAIL)
        # One direction only: the ledger's accountant may be looser, which costs budget and no privacy.
        if other > first and not _is_close(first, other):
            yield f"the second accountant computes epsilon {other:.9g}, the ledger only {first:.9g}"
    expected = {(entry.number, entry.step_key, entry.output_hash) for entry in state.released}
    query = select(OUTPUTS.c.number, OUTPUTS.c.step_key, RAW_OUTPUT).where(
        OUTPUTS.c.dataset == dataset
    )
    # Outputs are megabytes: never all at once.
    rows = db.execute(query.execution_options(yield_per=100))
    stored = {(row.number, row.step_key, output_hash(stored_bytes(row.output))) for row in rows}
    for number in sorted({number for number, _, _ in expected ^ stored}):
        yield f"the output of entry {number} was changed, removed or added"


class _Totals:
    """The totals of a chain, each computed once for the entries that do not change it."""

    def __init__(self, cap_check: CapCheck) -> None:
        self._cap_check = cap_check
        self._by_delta: dict[float, float] = {}

    def problems(self, state: State, entry: Entry) -> Iterator[str]:
        """Yield the problem of an entry whose total differs from that of `state`, which ends with it."""
        if entry.kind.removeprefix(GROUP) in CHANGING:
            self._by_delta.clear()
        if entry.epsilon is None or entry.delta is None:
            return
        if entry.delta not in self._by_delta:
            self._by_delta[entry.delta] = self._cap_check.total(state.spent(), entry.delta)
        total = self._by_delta[entry.delta]
        if not _is_close(total, entry.epsilon):
            yield f"entry {entry.number} has epsilon {entry.epsilon:.9g} as total, recomputed {total:.9g}"


def _is_close(first: float, second: float) -> bool:
    return first == second or abs(first - second) <= TOLERANCE * max(
        abs(first), abs(second), TOLERANCE
    )
