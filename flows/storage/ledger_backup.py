"""Backup and restore of a budget book that is a file; one on a server is dumped with the server's own tools."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.interfaces.errors import ConfigError, LedgerError
from flows.runtime.manifest import alone
from flows.runtime.state_folder import ledger_address, state_folder
from flows.runtime.stores import open_artifacts
from flows.storage.lost_releases import RELEASES
from tasks.accounting.composition import filter_epsilon, second_opinion

if TYPE_CHECKING:
    from connectors.ledger.ledger import BudgetBook

SHOWN = 3


def backup(file: Path) -> dict[str, Any]:
    """Write a checked copy of the budget book into a new file; runs go on meanwhile."""
    from connectors.ledger.backup import close_up, copy_book, lines

    place = _place(state_folder())
    if file.exists():
        raise ConfigError(f"{file}: exists; name a new file, so that an older copy is there if this one fails")
    if not file.parent.is_dir():
        raise ConfigError(f"{file.parent}: there is no such folder")
    copy_book(place, file)
    try:
        _require_sound(file)
    except LedgerError:
        file.unlink()
        raise
    datasets = _open(file).datasets()
    close_up(file)
    return {"file": str(file), "lines": len(lines(file)), "datasets": datasets}


def restore(file: Path) -> dict[str, Any]:
    """Put a backup in the place of the budget book; the book that was there is kept beside it.

    Refused while a run is carried out, for a backup that does not verify, and for one that lacks a line of the book
    here or a release among the artifacts: what they spent would be forgotten.
    """
    from connectors.ledger.backup import lines, put_back, scratch_copy

    home = state_folder()
    place = _place(home)
    with alone(home) as free, scratch_copy(file, place) as scratch:
        if not free:
            raise ConfigError(
                "A run is being carried out in this state folder; stop it, then restore. Nothing was done"
            )
        _require_sound(scratch)
        found = lines(scratch)
        compared = _require_newer(file, place, found)
        _require_releases(home, file, {hash_ for _, hash_ in found})
        kept = place.with_name(f"{place.name}.before-{datetime.now(UTC):%Y%m%dT%H%M%S%f}")
        put_back(scratch, place, kept)
    return {"book": str(place), "lines": len(found), "kept": str(kept) if kept.exists() else None, "compared": compared}


def _place(home: Path) -> Path:
    from connectors.ledger.backup import book_file

    place = book_file(ledger_address(home))
    if place is None:
        raise ConfigError(
            "This state folder's budget book lies on a PostgreSQL server. Back it up with pg_dump and put it back with "
            "pg_restore, as infra/README.md says; then: wasp budget verify"
        )
    return place


def _open(file: Path) -> BudgetBook:
    from connectors.ledger.ledger import BudgetBook

    return BudgetBook(f"sqlite:///{file.absolute()}", filter_epsilon)


def _require_sound(file: Path) -> None:
    problems = _open(file).verify(second=second_opinion)
    if problems:
        raise LedgerError(f"The copy does not verify, so nothing was changed: {'; '.join(problems[:SHOWN])}")


def _require_newer(file: Path, place: Path, found: set[tuple[str, str]]) -> bool:
    """Refuse a backup that lacks lines of the book here; False when that one cannot be read any more."""
    from connectors.ledger.backup import lines

    try:
        here = lines(place) if place.exists() else set()
    except LedgerError:
        return False
    lost = here - found
    if lost:
        names = ", ".join(sorted({f"'{dataset}'" for dataset, _ in lost}))
        raise LedgerError(
            f"{file} is older than the book here: it lacks {len(lost)} line(s) of {names}, and what they spent would "
            "be forgotten. Restore a newer backup; a book that is whole needs none (wasp budget verify). Nothing done"
        )
    return True


def _require_releases(home: Path, file: Path, known: set[str]) -> None:
    """Refuse a backup that does not know a release among the artifacts."""
    artifacts = open_artifacts(home)
    unknown = [
        artifacts.where(path)
        for path, release in artifacts.finished(RELEASES).items()
        if release and release.get("info", {}).get("ledger_entry") not in known
    ]
    if unknown:
        more = f" and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else ""
        raise LedgerError(
            f"{file} is older than what was released: it does not know {', '.join(unknown[:SHOWN])}{more}. Restore a "
            "newer backup. If there is none, these releases can no longer be counted: note what they cost (wasp show "
            "RUN_ID), move the folders of their runs away, restore, and lower the cap by that much: wasp budget cap "
            "DATASET --epsilon E --reason ... Nothing was done"
        )
