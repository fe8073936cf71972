"""Verification of a dataset's ledger from its first entry.

The hashes have no key: whoever can write to the database can compute all of them again. That is recognised by
`private/ledger.head` of each machine (`heads.py`), unless the attacker can change it as well.
"""

from collections.abc import Iterator

from sqlalchemy import Connection, select

from connectors.interfaces.errors import LedgerError
from connectors.interfaces.ledger import Compose
from connectors.ledger.cap import Gate
from connectors.ledger.chain import output_hash, read_entries, stored_bytes
from connectors.ledger.state import State, extend
from connectors.ledger.tables import DATASETS, OUTPUTS, RAW_OUTPUT

TOLERANCE = 1e-6
UNREADABLE = (ArithmeticError, AttributeError, LedgerError, LookupError, TypeError, ValueError)
"""Errors that an accountant or JSON code can raise on content that this program did not write."""


def problems_of(db: Connection, gate: Gate, second: Compose | None, dataset: str) -> Iterator[str]:
    """Yield one sentence per problem of a dataset; nothing after the first entry that breaks its chain.

    `second` is an accountant that shares no code with the ledger's own.
    """
    state = State(dataset)
    totals: dict[tuple[object, ...], float] = {}
    for entry in read_entries(db, dataset):
        try:
            extend(state, entry)
            if entry.epsilon is not None and entry.delta is not None:
                key = (*(release.hash for release in state.charged()), entry.delta)
                totals[key] = totals[key] if key in totals else gate.total(state.spent(), entry.delta)
                if not _is_close(totals[key], entry.epsilon):
                    yield f"entry {entry.number} has epsilon {entry.epsilon:.9g} as total, recomputed {totals[key]:.9g}"
        except UNREADABLE as error:
            yield f"entry {entry.number} was changed, or one before it is missing ({type(error).__name__})"
            return
    head = db.execute(select(DATASETS).where(DATASETS.c.dataset == dataset)).first()
    if head is None or (head.entries, head.head) != (state.entries, state.head):
        yield f"{'no' if head is None else head.entries} entries were written, {state.entries} exist"
    delta = state.delta()
    if second is not None and delta is not None:
        first, other = gate.total(state.spent(), delta), Gate(second).total(state.spent(), delta)
        if other > first and not _is_close(first, other):
            yield f"the second accountant computes epsilon {other:.9g}, the ledger only {first:.9g}"
    expected = {(entry.number, entry.step_key, entry.output_hash) for entry in state.released}
    query = select(OUTPUTS.c.number, OUTPUTS.c.step_key, RAW_OUTPUT).where(OUTPUTS.c.dataset == dataset)
    stored = {(row.number, row.step_key, output_hash(stored_bytes(row.output))) for row in db.execute(query)}
    for number in sorted({number for number, _, _ in expected ^ stored}):
        yield f"the output of entry {number} was changed, removed or added"


def _is_close(first: float, second: float) -> bool:
    return first == second or abs(first - second) <= TOLERANCE * max(abs(first), abs(second), TOLERANCE)
