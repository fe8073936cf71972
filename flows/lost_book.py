"""Releases that lie in the state folder must stand in the budget book: a book that forgot one counts too little."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.base import LedgerError

if TYPE_CHECKING:
    from connectors.ledger import BudgetBook


def check_book(home: Path, book: BudgetBook, dataset: str, fingerprint: str) -> None:
    """Raise LedgerError when a finished release of this dataset is unknown to the book: it was lost or replaced."""
    found = {
        place: release.get("info", {}).get("ledger_entry")
        for place in sorted((home / "runs").glob("*/iteration=*/_release.parquet.json"))
        if _is_of(release := _read(place), place, dataset, fingerprint)
    }
    # The book is read after the files: another run may release at this moment, and writes the book first.
    known = {entry.hash for entry in book.history(dataset)}
    for place, entry in found.items():
        if entry not in known:
            raise LedgerError(
                f"{place.parent} holds a release of dataset '{dataset}' that the budget book does not know: the book "
                "was lost or replaced, or that file was changed. Restore the book from its newest backup; nothing was "
                "spent."
            )


def _is_of(release: dict[str, Any], place: Path, dataset: str, fingerprint: str) -> bool:
    if not release:
        return False  # damaged: the vote reads it back from the book
    of_rows = release.get("parameters", {}).get("private") == fingerprint
    return of_rows or _read(place.parents[1] / "manifest.json").get("dataset") == dataset


def _read(place: Path) -> dict[str, Any]:
    try:
        value = json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
