"""Seals of ledger entries: an HMAC of each entry's hash under the ledger key.

The hashes of a chain have no key, so whoever can write to the database could compute them again. The seals cannot be
computed without the key, which is not in the database. Entries of earlier versions have no seal; the first sealed entry
covers them by its hash.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, insert, select

from connectors.ledger.tables import SEALS

if TYPE_CHECKING:
    from connectors.ledger.state import Entry

KEY: Final = "ledger_key"
"""Execution option of a connection that contains the source of the key."""

KeySource = Callable[[], bytes]
"""Returns the key of the seals (32 bytes). It must be possible to pickle it; a key in a pickle would leave the zone."""


def key_of(db: Connection) -> bytes | None:
    """Return the key that the transaction carries, None without one."""
    source: KeySource | None = db.get_execution_options().get(KEY)
    return None if source is None else source()


def write_seal(db: Connection, entry: Entry) -> None:
    """Seal an entry that was just written; nothing without a key."""
    key = key_of(db)
    if key is not None:
        db.execute(insert(SEALS).values(dataset=entry.dataset, number=entry.number, seal=_seal(key, entry)))


def seals_of(db: Connection, dataset: str) -> dict[int, str]:
    """Return the seals of a dataset by the number of their entry."""
    rows = db.execute(select(SEALS.c.number, SEALS.c.seal).where(SEALS.c.dataset == dataset))
    return {row.number: str(row.seal) for row in rows}


def broken_seals(db: Connection, dataset: str, entries: Sequence[Entry]) -> Iterator[str]:
    """Yield one sentence per entry whose seal is missing or was not made with this key."""
    key, seals = key_of(db), seals_of(db, dataset)
    if key is None or not seals:
        return
    first = min(seals)
    for entry in entries:
        seal = seals.pop(entry.number, None)
        if seal is None and entry.number > first:
            yield f"entry {entry.number} has no seal, although earlier entries have one"
        elif seal is not None and not hmac.compare_digest(seal, _seal(key, entry)):
            yield f"entry {entry.number} was not written with this ledger key"
    for number in sorted(seals):
        yield f"entry {number} is missing, although its seal exists"


def _seal(key: bytes, entry: Entry) -> str:
    message = f"{entry.dataset}\n{entry.number}\n{entry.hash}"
    return hmac.new(key, message.encode(), hashlib.sha256).hexdigest()
