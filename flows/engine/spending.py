"""Ledger entries of the releases that a run's output depends on, charged by the run or reused."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from connectors.ledger.state import (
    ChargeFields,
    charge_fields,
    drawn_releases,
    events_of,
    unreleased,
)

if TYPE_CHECKING:
    from connectors.artifacts.store import Artifacts
    from connectors.ledger.state import Entry
    from tasks.reporting.run_record import RunRecord

RELEASES = "runs/*/*/release.parquet"
"""Artifact paths of releases: in the folder of an iteration, or of the release."""


def output_of(
    artifacts: Artifacts, run_id: str, entries: Sequence[Entry], report: RunRecord | None
) -> tuple[tuple[Entry, ...], list[Mapping[str, Any]], bool]:
    """Return the releases that the output of a run depends on, from the ledger and the run's files.

    Also their events for the accountant, and True if the files do not show what the run reused, so the whole plan
    counts as released. The loss is never understated: further releases in the run's report count as well. Without a
    report the whole plan counts, unless the run is finished and its manifest exists.
    """
    named = paid_releases_of(artifacts, run_id)
    releases = tuple(
        entry for entry in drawn_releases(entries) if entry.run_id == run_id or entry.hash in named
    )
    # A finished run without a manifest may have lost its files, so its plan counts as well.
    over = any(entry.kind == "finish" and entry.run_id == run_id for entry in entries)
    at_most = report is None and not (
        over and artifacts.read_text(f"runs/{run_id}/manifest.json") is not None
    )
    further: list[ChargeFields] = []
    if report is not None:
        further = [charge_fields(charge) for charge in report.charges]
    elif at_most:
        further = _planned(run_id, entries)
    missing = unreleased(further, releases)
    return (
        releases,
        [*(entry.event for entry in releases), *events_of(missing)],
        at_most and bool(missing),
    )


def _planned(run_id: str, entries: Sequence[Entry]) -> list[ChargeFields]:
    """Return the charges of the plan that a run reserved last."""
    plans = [
        entry.detail["charges"]
        for entry in entries
        if (entry.kind, entry.run_id) == ("reserve", run_id)
    ]
    # A resumed run may reserve another plan; the last one counts.
    return plans[-1] if plans else []


def paid_releases_of(artifacts: Artifacts, run_id: str) -> set[str]:
    """Return the hashes of the ledger entries in the files of a run, which its output depends on."""
    files = artifacts.finished(RELEASES.replace("*", run_id, 1)).values()
    named = {str(manifest.get("info", {}).get("ledger_entry") or "") for manifest in files}
    return (named | exposure_of(artifacts, run_id)) - {""}


def exposure_of(artifacts: Artifacts, run_id: str) -> set[str]:
    """Return the ledger entry of a student trained on private rows; empty without such a student."""
    text = artifacts.read_text(f"runs/{run_id}/student.json")
    if not text:
        return set()
    entry = json.loads(text).get("ledger_entry")
    return {entry} if entry else set()
