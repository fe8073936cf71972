"""Backup of a privacy ledger in a SQLite file: atomic, also while others write."""

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

SUFFIXES = ("-wal", "-shm")
"""Suffixes of SQLite's own files next to a database."""


def book_file(url: str) -> Path | None:
    """Return the file of a privacy ledger, None if it is on a server."""
    parsed = parse_url(url)
    return Path(str(parsed.database)) if parsed.get_backend_name() == "sqlite" else None


def copy_book(source: Path, target: Path) -> None:
    """Write a consistent snapshot of a ledger, mode 0600, while writers continue.

    It uses SQLite's online backup. `target` must not exist. Raises LedgerError if the source is not a database.
    """
    os.close(os.open(target, os.O_CREAT | os.O_EXCL, 0o600))
    try:
        with _database(source) as db, closing(sqlite3.connect(target)) as copy:
            db.backup(copy)
    except BaseException:
        target.unlink()
        raise


@contextmanager
def scratch_copy(source: Path, target: Path) -> Iterator[Path]:
    """Yield a temporary copy of a ledger next to `target`, deleted unless moved."""
    scratch = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    copy_book(source, scratch)
    try:
        yield scratch
    finally:
        for suffix in ("", *SUFFIXES):
            Path(f"{scratch}{suffix}").unlink(missing_ok=True)


def merge_log(book: Path) -> None:
    """Merge SQLite's log into the database file. No process may use the database."""
    with _database(book) as db:
        db.execute("PRAGMA journal_mode = DELETE")


def lines(book: Path) -> set[tuple[str, str]]:
    """Return (dataset, hash) of every entry, also for invalid chains.

    LedgerError if the file is not a ledger.
    """
    with _database(book) as db:
        return set(db.execute("SELECT dataset, hash FROM ledger_entries").fetchall())


def replace_ledger(scratch: Path, ledger: Path, previous: Path) -> None:
    """Move a checked copy to `ledger`; `previous` links to the ledger that was there.

    No process may use the ledger.
    """
    if ledger.exists():
        # An unreadable ledger is kept unchanged; its log is of no use to the copy.
        with suppress(LedgerError), _database(ledger) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        os.link(ledger, previous)
    # SQLite would apply a leftover log to the copy.
    for suffix in SUFFIXES:
        Path(f"{ledger}{suffix}").unlink(missing_ok=True)
    merge_log(scratch)
    scratch.replace(ledger)
    sync_folder(ledger.parent)


@contextmanager
def _database(path: Path) -> Iterator[sqlite3.Connection]:
    if not path.is_file():
        raise LedgerError(f"{path}: no such file. Check the path.")
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=60)) as db:
            yield db
    except sqlite3.Error as error:
        raise LedgerError(f"{path}: not a privacy ledger, or damaged ({error}). Use another copy.") from None
