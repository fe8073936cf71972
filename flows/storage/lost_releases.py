"""Releases that lie among the artifacts must stand in the budget book: a book that forgot one counts too little."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from connectors.interfaces.errors import LedgerError

if TYPE_CHECKING:
    from connectors.artifacts.store import Artifacts
    from connectors.ledger.ledger import BudgetBook

RELEASES = "runs/*/*/release.parquet"
"""Where releases are stored among the artifacts: in the folder of an iteration, or of what was released."""
_VOTE, _ITERATION = "vote-", "iteration="
_FOLDERS = {"moments": "adaptation"}
"""Folders of releases whose name is not their slot's; the steps' own constants would import pandas here."""
_WITHOUT_FILE = ("train-0",)
"""Slots of charges that release no table: `only_private` keeps its student in the private zone."""


def release_file(run_id: str, slot: str) -> str | None:
    """Return the path of a release among the artifacts; None for a slot that never has a file."""
    if slot in _WITHOUT_FILE:
        return None
    folder = f"{_ITERATION}{slot.removeprefix(_VOTE)}" if slot.startswith(_VOTE) else _FOLDERS.get(slot, slot)
    return f"runs/{run_id}/{folder}/release.parquet"


def check_book(artifacts: Artifacts, book: BudgetBook, dataset: str, fingerprint: str) -> None:
    """Raise LedgerError when a finished release of this dataset is unknown to the book: it was lost or replaced."""
    found = {
        path: release.get("info", {}).get("ledger_entry")
        for path, release in artifacts.finished(RELEASES).items()
        if is_of(artifacts, release, path, dataset, fingerprint)
    }
    # The book is read after the files: another run may release at this moment, and writes the book first.
    known = {entry.hash for entry in book.history(dataset)}
    for path, entry in found.items():
        if entry not in known:
            raise LedgerError(
                f"{artifacts.where(path)} holds a release of dataset '{dataset}' that the budget book does not know: "
                "the book was lost or replaced, or that file was changed. Restore the book from its newest backup; "
                "nothing was spent."
            )


def is_of(artifacts: Artifacts, release: dict[str, Any], path: str, dataset: str, fingerprint: str) -> bool:
    """Say whether a release belongs to a dataset: by the rows it was made of, or by what its run says."""
    if not release:
        return False  # damaged: the step reads it back from the book
    if release.get("parameters", {}).get("private") == fingerprint:
        return True
    run = PurePosixPath(path).parents[1]
    try:
        book = json.loads(artifacts.read_text(f"{run}/manifest.json") or "{}")
    except ValueError:
        return False
    return isinstance(book, dict) and book.get("dataset") == dataset
