"""Detects stored releases without a ledger entry; the ledger is then incomplete."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from connectors.interfaces.errors import LedgerError

if TYPE_CHECKING:
    from connectors.artifacts.store import Artifacts
    from connectors.ledger.ledger import PrivacyLedger

RELEASES = "runs/*/*/release.parquet"
"""Artifact paths of releases: in the folder of an iteration, or of the release."""
_VOTE, _ITERATION = "vote-", "iteration="
_FOLDERS = {"moments": "adaptation"}
"""Folders not named after their slot; the steps' constants would load pandas."""
_WITHOUT_FILE = ("train-0",)
"""Slots without a table: `only_private` stores its student in the private zone."""


def release_file(run_id: str, slot: str) -> str | None:
    """Return the artifact path of a release; None for a slot without a file."""
    if slot in _WITHOUT_FILE:
        return None
    folder = f"{_ITERATION}{slot.removeprefix(_VOTE)}" if slot.startswith(_VOTE) else _FOLDERS.get(slot, slot)
    return f"runs/{run_id}/{folder}/release.parquet"


def check_book(artifacts: Artifacts, book: PrivacyLedger, dataset: str, fingerprint: str) -> None:
    """Raise LedgerError if a stored release of this dataset is not in the ledger."""
    releases = {
        path: release.get("info", {}).get("ledger_entry")
        for path, release in artifacts.finished(RELEASES).items()
        if is_of(artifacts, release, path, dataset, fingerprint)
    }
    # Read the ledger after the files: a run that releases at this moment writes the ledger first.
    hashes = {entry.hash for entry in book.history(dataset)}
    for path, entry in releases.items():
        if entry not in hashes:
            raise LedgerError(
                f"{artifacts.where(path)} is a release of dataset '{dataset}' without an entry in the privacy ledger. "
                "The ledger was lost or replaced, or the file was changed. Restore the ledger from its newest backup. "
                "Nothing was spent."
            )


def is_of(artifacts: Artifacts, release: dict[str, Any], path: str, dataset: str, fingerprint: str) -> bool:
    """Return True if a release is of a dataset, by fingerprint or by run manifest."""
    if not release:
        return False  # damaged: the step restores it from the ledger
    if release.get("parameters", {}).get("private") == fingerprint:
        return True
    run = PurePosixPath(path).parents[1]
    try:
        manifest = json.loads(artifacts.read_text(f"{run}/manifest.json") or "{}")
    except ValueError:
        return False
    return isinstance(manifest, dict) and manifest.get("dataset") == dataset
