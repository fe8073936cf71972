"""Backup and restore of a privacy ledger in a file.

A ledger on a database server is backed up with the tools of the server.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.interfaces.errors import ConfigError, LedgerError
from flows.runtime.manifest import alone
from flows.runtime.state_folder import ledger_address, state_folder
from flows.runtime.stores import has_key, open_artifacts, seal_key
from flows.storage.lost_releases import RELEASES
from tasks.accounting.composition import filter_epsilon, second_opinion

if TYPE_CHECKING:
    from connectors.ledger.ledger import PrivacyLedger

SHOWN = 3


def backup(file: Path) -> dict[str, Any]:
    """Write a verified copy of the privacy ledger into a new file; runs may continue."""
    from connectors.ledger.backup import copy_book, lines, merge_log

    ledger_file = _ledger_file(state_folder())
    if file.exists():
        raise ConfigError(f"{file}: already exists. Name a new file, to keep the older copy if this one fails")
    if not file.parent.is_dir():
        raise ConfigError(f"{file.parent}: there is no such folder. Create it")
    copy_book(ledger_file, file)
    try:
        _require_sound(file)
    except LedgerError:
        file.unlink()
        raise
    datasets = _open(file).datasets()
    merge_log(file)
    return {"file": str(file), "lines": len(lines(file)), "datasets": datasets}


def restore(file: Path) -> dict[str, Any]:
    """Replace the privacy ledger by a backup, and save the old one under a new name.

    Refuses to run during a run, with a backup that does not verify, and with one that lacks an entry of the current
    ledger or a release in the artifacts: their epsilon would be lost.
    """
    from connectors.ledger.backup import lines, replace_ledger, scratch_copy

    home = state_folder()
    ledger_file = _ledger_file(home)
    with alone(home) as free, scratch_copy(file, ledger_file) as scratch:
        if not free:
            raise ConfigError("A run is active in this state folder. Stop it, then restore. Nothing was changed")
        _require_sound(scratch)
        entries = lines(scratch)
        compared = _require_newer(file, ledger_file, entries)
        _require_releases(home, file, {hash_ for _, hash_ in entries})
        old = ledger_file.with_name(f"{ledger_file.name}.before-{datetime.now(UTC):%Y%m%dT%H%M%S%f}")
        replace_ledger(scratch, ledger_file, old)
    return {
        "book": str(ledger_file),
        "lines": len(entries),
        "kept": str(old) if old.exists() else None,
        "compared": compared,
    }


def _ledger_file(home: Path) -> Path:
    from connectors.ledger.backup import book_file

    ledger_file = book_file(ledger_address(home))
    if ledger_file is None:
        raise ConfigError(
            "The privacy ledger of this state folder is on a PostgreSQL server. Use pg_dump and pg_restore as "
            "described in infra/README.md, then run: wasp budget verify"
        )
    return ledger_file


def _open(file: Path) -> PrivacyLedger:
    from connectors.ledger.ledger import PrivacyLedger

    key = partial(seal_key, state_folder()) if has_key(state_folder()) else None
    return PrivacyLedger(f"sqlite:///{file.absolute()}", filter_epsilon, key=key)


def _require_sound(file: Path) -> None:
    problems = _open(file).verify(second=second_opinion)
    if problems:
        raise LedgerError(f"The copy does not verify, so nothing was changed: {'; '.join(problems[:SHOWN])}")


def _require_newer(file: Path, ledger_file: Path, entries: set[tuple[str, str]]) -> bool:
    """Refuse a backup that lacks entries of the ledger; False if that is unreadable."""
    from connectors.ledger.backup import lines

    try:
        current = lines(ledger_file) if ledger_file.exists() else set()
    except LedgerError:
        return False
    lost = current - entries
    if lost:
        names = ", ".join(sorted({f"'{dataset}'" for dataset, _ in lost}))
        raise LedgerError(
            f"{file} is older than the current ledger: it lacks {len(lost)} line(s) of {names}, whose epsilon would be "
            "lost. Restore a newer backup, or none if the ledger is intact (wasp budget verify). Nothing was changed"
        )
    return True


def _require_releases(home: Path, file: Path, hashes: set[str]) -> None:
    """Refuse a backup without the entry of a release in the artifacts."""
    artifacts = open_artifacts(home)
    unknown = [
        artifacts.where(path)
        for path, release in artifacts.finished(RELEASES).items()
        if release and release.get("info", {}).get("ledger_entry") not in hashes
    ]
    if unknown:
        more = f" and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else ""
        raise LedgerError(
            f"{file} is older than some releases: it lacks {', '.join(unknown[:SHOWN])}{more}. Restore a newer backup. "
            "If there is none, these releases cannot be counted: note their cost (wasp show RUN_ID), move the folders "
            "of their runs away, restore, and lower the cap by that cost (wasp budget cap DATASET --epsilon E --reason "
            "...). Nothing was changed"
        )
