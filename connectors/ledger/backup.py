"""Copies of a budget book that is a SQLite file: taken while others write, and put back whole or not at all."""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from connectors.artifacts.atomic_files import sync_folder
from connectors.interfaces.errors import LedgerError
from connectors.ledger.database import parse_url

BESIDE = ("-wal", "-shm")
"""Ends of the names of SQLite's own files beside a database."""


def book_file(url: str) -> Path | None:
    """Return the file of a budget book, None if it lies on a server."""
    parsed = parse_url(url)
    return Path(str(parsed.database)) if parsed.get_backend_name() == "sqlite" else None


def copy_book(source: Path, target: Path) -> None:
    """Write a copy of a book as it stands at one moment, mode 0600; writers go on meanwhile (SQLite's online backup).

    `target` must not be there. Raises LedgerError for a source that is no database.
    """
    os.close(os.open(target, os.O_CREAT | os.O_EXCL, 0o600))
    try:
        with _database(source) as db, closing(sqlite3.connect(target)) as copy:
            db.backup(copy)
    except BaseException:
        target.unlink()
        raise


@contextmanager
def scratch_copy(source: Path, place: Path) -> Iterator[Path]:
    """Yield a copy of a book beside `place`, which is gone afterwards unless it was moved."""
    scratch = place.with_name(f".{place.name}.{secrets.token_hex(6)}.tmp")
    copy_book(source, scratch)
    try:
        yield scratch
    finally:
        for end in ("", *BESIDE):
            Path(f"{scratch}{end}").unlink(missing_ok=True)


def close_up(book: Path) -> None:
    """Bring everything into the one file that is carried away; nobody may use it."""
    with _database(book) as db:
        db.execute("PRAGMA journal_mode = DELETE")


def lines(book: Path) -> set[tuple[str, str]]:
    """Return (dataset, hash) of every line of a book, whether its chains hold or not; LedgerError if it is none."""
    with _database(book) as db:
        return set(db.execute("SELECT dataset, hash FROM ledger_entries").fetchall())


def put_back(scratch: Path, place: Path, kept: Path) -> None:
    """Move a checked copy to the place of the book; the book that was there stays as `kept`. No process may use it."""
    if place.exists():
        # One that cannot be read is kept as it is; what lies beside it is of no use to the copy.
        with suppress(LedgerError), _database(place) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        os.link(place, kept)
    # A log that outlives its database would be played into the copy.
    for end in BESIDE:
        Path(f"{place}{end}").unlink(missing_ok=True)
    close_up(scratch)
    scratch.replace(place)
    sync_folder(place.parent)


@contextmanager
def _database(path: Path) -> Iterator[sqlite3.Connection]:
    if not path.is_file():
        raise LedgerError(f"{path}: there is no such file")
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=60)) as db:
            yield db
    except sqlite3.Error as error:
        raise LedgerError(f"{path} is no budget book, or is damaged: {error}") from None
