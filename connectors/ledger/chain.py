"""Reading and extending the hash chain of a dataset within a transaction."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime

from sqlalchemy import Connection, insert, select, update

from connectors.interfaces.errors import LedgerError
from connectors.interfaces.ledger import ReleaseRequest, StoredRelease
from connectors.ledger.database import reported
from connectors.ledger.state import JOINED, Entry, State, cost_of, damaged, extend
from connectors.ledger.tables import BOOK, DATASETS, ENTRIES, OUTPUTS, RAW_OUTPUT

RECHECKED = 256
"""Entries of a known chain that a locked read compares again; a shorter chain is compared as a whole."""


def read_entries(
    db: Connection, dataset: str, after: int = 0, most: int | None = None
) -> Iterator[Entry]:
    """Yield the entries of a dataset behind number `after`, at most `most`, oldest first."""
    query = select(ENTRIES).where(ENTRIES.c.dataset == dataset, ENTRIES.c.number > after)
    rows = db.execute(query.order_by(ENTRIES.c.number).limit(most).execution_options(yield_per=500))
    return (Entry(**row) for row in rows.mappings())


def load(db: Connection, dataset: str, *, lock: bool) -> State:
    """Return the state of a dataset; `lock` locks its row until the transaction ends.

    Raises LedgerError for an unknown dataset and for an invalid chain, which permits no release.
    """
    return _read_on(db, State(dataset), _read_head(db, dataset, lock))


def _read_head(db: Connection, dataset: str, lock: bool) -> tuple[int, str]:
    """Return the number of entries and the hash of the newest one."""
    query = select(DATASETS.c.entries, DATASETS.c.head).where(DATASETS.c.dataset == dataset)
    if lock:
        with reported():
            head = db.execute(query.with_for_update()).first()
    else:
        head = db.execute(query).first()
    if head is None:
        raise LedgerError(
            f"The privacy ledger has no dataset '{dataset}'. Register its rows first (wasp budget show)."
        )
    return head.entries, head.head


def _read_on(db: Connection, state: State, head: tuple[int, str]) -> State:
    """Return `state` after all further entries of its chain, which must end at `head`."""
    for entry in read_entries(db, state.dataset, state.entries):
        extend(state, entry)
    if (state.entries, state.head) != head:
        raise damaged(state.dataset, f"{head[0]} entries were written, {state.entries} exist")
    return state


class Chains:
    """The verified chains of one process: a transaction reads new entries only, whatever the length of the ledger.

    The state counts what this process has verified, so a later change of an earlier entry lowers no total. It is
    noticed nevertheless: each locked read compares the next `RECHECKED` entries with their hashes, in turn. A state
    here has committed entries only: it is read before its transaction writes, and handed out as a copy.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[State, int]] = {}
        """Of each dataset: its state, and the number behind which the next entries are compared again."""

    def load(self, db: Connection, dataset: str, *, lock: bool) -> State:
        """Return the state of a dataset as the function `load` does."""
        known, compared = self._known.get(dataset, (State(dataset), 0))
        head = _read_head(db, dataset, lock)
        if lock:
            compared = _compare(db, known, compared)
        state = _read_on(db, known.copy(), head)
        # Without a lock: of two threads that write here, either state is valid, and the older one only reads more.
        self._known[dataset] = state, compared
        return state.copy()

    def members(self, db: Connection, dataset: str) -> set[str]:
        """Return the members of the dataset's group, without a lock."""
        known, _ = self._known.get(dataset, (State(dataset), 0))
        query = select(ENTRIES.c.detail_json).where(
            ENTRIES.c.dataset == dataset, ENTRIES.c.kind == JOINED
        )
        later = query.where(ENTRIES.c.number > known.entries).order_by(ENTRIES.c.number.desc())
        latest = db.execute(later.limit(1)).scalar()
        if latest is None:
            return set(known.members)
        return set(json.loads(latest)["members"])


def _compare(db: Connection, known: State, start: int) -> int:
    """Compare `RECHECKED` entries behind number `start` with their hashes; return where the next read goes on."""
    expected = known.hashes[start : start + RECHECKED]
    entries = read_entries(db, known.dataset, start, len(expected))
    end = start + len(expected)
    actual = [(entry.hash, entry.sealed()) for entry in entries]
    if actual != [(hash_, hash_) for hash_ in expected]:
        raise damaged(known.dataset, f"one of the entries {start + 1} to {end} was changed")
    if end < known.entries:
        return end
    return 0  # the next locked read starts the next round


def lock_group(db: Connection, dataset: str, chains: Chains) -> tuple[State, ...] | None:
    """Return the locked states of a dataset and of its group, its own state first.

    Returns None if the group grew during the wait. The caller then releases all locks and tries again: waiting for one
    more lock while holding others could deadlock.
    """
    members = chains.members(db, dataset)
    # Sorted: two transactions that lock one group in different orders would wait for each other.
    states = {name: chains.load(db, name, lock=True) for name in sorted({dataset, *members})}
    own = states.pop(dataset)
    # The members were read without a lock, so another transaction can have merged groups since then.
    if {*own.members, dataset} != {dataset, *states}:
        return None
    return (own, *states.values())


def lock_book(db: Connection) -> None:
    """Let only one transaction at a time register datasets."""
    # New datasets have no row that could be locked, so registrations lock the one row of the ledger.
    with reported():
        db.execute(select(BOOK).where(BOOK.c.id == 1).with_for_update()).one()


def start_chain(db: Connection, dataset: str) -> State:
    """Create an empty chain."""
    db.execute(insert(DATASETS).values(dataset=dataset, entries=0, head=""))
    return State(dataset)


def append(db: Connection, state: State, draft: Entry) -> Entry:
    """Write the next entry with number, time, previous hash and hash; update `state`."""
    # Clocks of several machines differ slightly; the chain defines the order of entries.
    now = max(datetime.now(UTC).isoformat(timespec="microseconds"), state.last_at)
    entry = replace(draft, number=state.entries + 1, at=now, previous=state.head)
    entry = replace(entry, hash=entry.sealed())
    db.execute(insert(ENTRIES).values(**asdict(entry)))
    head = update(DATASETS).where(DATASETS.c.dataset == state.dataset)
    db.execute(head.values(entries=entry.number, head=entry.hash))
    state.apply(entry)
    return entry


def stored_bytes(value: str | bytes | memoryview) -> bytes:
    """Return an output from the driver as bytes.

    Only manual changes produce text; it is encoded.
    """
    if isinstance(value, str):
        return value.encode()
    return bytes(value)  # PostgreSQL's driver returns a view


def output_hash(output: bytes) -> str:
    """Return the SHA-256 of a released output, which is no longer private."""
    return hashlib.sha256(output).hexdigest()


def stored_release(db: Connection, request: ReleaseRequest) -> StoredRelease | None:
    """Return the release stored under a request's key, from any run, or None.

    Raises LedgerError if the stored bytes or their entry were changed, or if the noise differed.
    """
    same_entry = (OUTPUTS.c.dataset == ENTRIES.c.dataset) & (OUTPUTS.c.number == ENTRIES.c.number)
    requested = (OUTPUTS.c.dataset == request.dataset) & (OUTPUTS.c.step_key == request.step_key)
    row = (
        db.execute(select(ENTRIES, RAW_OUTPUT).join(OUTPUTS, same_entry).where(requested))
        .mappings()
        .first()
    )
    if row is None:
        return None
    columns = dict(row)
    # Compared with the chain at each use: the table of outputs alone proves nothing.
    output = stored_bytes(columns.pop("output"))
    entry = Entry(**columns)
    if (
        entry.hash != entry.sealed()
        or entry.output_hash != output_hash(output)
        or entry.step_key != request.step_key
    ):
        raise damaged(request.dataset, f"the output of entry {entry.number} was changed")
    # Otherwise the run would report noise that its output does not have.
    if cost_of(entry.event) != cost_of(request.charge.event):
        raise LedgerError(
            f"Run {request.run_id}, slot {request.slot}: this step key was released with other noise "
            f"({entry.mechanism}, scale {entry.noise_scale}). The step key must contain the mechanism's parameters."
        )
    return StoredRelease(output, True, entry.hash)
