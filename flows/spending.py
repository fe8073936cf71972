"""Which lines of the budget book a run's releases stand on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from connectors.base import ArtifactRef, LedgerError, Look
from connectors.ledger_state import RELEASING
from flows.home import who
from tasks.private.moments import SLOT

if TYPE_CHECKING:
    from connectors.ledger_state import Entry
    from flows.run import Run


def paid_for(run: Run, releases: Sequence[ArtifactRef]) -> list[Entry]:
    """Return the entries of the budget book that paid for these releases, whichever run paid, and for others that
    this run drew in their place before (texts were lost and the vote was paid again): those were seen too.

    Raises LedgerError when a release names no entry of the book.
    """
    name = run.tools.called
    if not name.dataset:
        return []
    paid = {run.tools.artifacts.info(release)["ledger_entry"] for release in releases}
    entries = run.tools.ledger.history(name.dataset)
    unknown = sorted(paid - {entry.hash for entry in entries})
    if unknown:
        raise LedgerError(
            f"Release {unknown[0][:12]} of run {name.run_id} stands in no line of the budget book of dataset "
            f"'{name.dataset}'. Restore the book, or delete the run's release.parquet: it is read back."
        )
    slots = run.slots(releases) | {SLOT} | {one.privacy.part for one in run.prepared.noise.beside}
    void = {entry.detail["number"] for entry in entries if entry.kind == "void"}
    drawn = [entry for entry in entries if entry.kind in RELEASING and entry.number not in void]
    return [e for e in drawn if e.hash in paid or (e.run_id == name.run_id and e.slot in slots)]


def look_of(run: Run, iteration: int) -> Look:
    """Return what the budget book is told when FID is taken against the private rows."""
    name = run.tools.called
    what, where = "FID against the private rows", f"measures.json and report, iteration {iteration}"
    return Look(name.dataset, who(), name.flow, name.run_id, what, where, f"fid-{iteration}")
