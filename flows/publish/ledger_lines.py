"""Convert ledger entries into the tables of the ledger page."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from connectors.interfaces.content_keys import canonical
from connectors.ledger.state import EXPORT, EXPOSED, GROUP, LOOK, RELEASING, Entry, drawn_releases
from tasks.accounting.federated import parties_of
from tasks.reporting.ledger_page_model import Among, Exported, Line, RunLine, SharedTotals, Touch

HIDDEN = ("charges", "extra", "key", "fingerprint", "records", "entry", "line", "carried")
"""Detail fields for programs, not shown on the page."""


def line(entry: Entry) -> Line:
    """Return a ledger entry as a line of the page."""
    detail = {key: value for key, value in entry.detail.items() if key not in HIDDEN}
    remark = canonical(detail)[1:-1].replace('"', "").replace(",", ", ") if detail else ""
    return Line(
        entry.number,
        entry.at,
        entry.who,
        entry.kind,
        entry.run_id,
        entry.slot,
        entry.mechanism,
        entry.epsilon if entry.epsilon is None or math.isfinite(entry.epsilon) else None,
        entry.hash,
        remark[:160],
    )


def shared(entries: Sequence[Entry]) -> tuple[SharedTotals, ...]:
    """Return the releases of the other datasets of the group by dataset and run."""
    void = {entry.detail["number"] for entry in entries if entry.kind == f"{GROUP}void"}
    theirs = [
        (entry.detail["of"], entry.run_id, entry.who)
        for entry in entries
        if entry.kind in [f"{GROUP}{kind}" for kind in RELEASING] and entry.number not in void
    ]
    return tuple(SharedTotals(*origin, releases) for origin, releases in Counter(theirs).items())


def touched(entries: Sequence[Entry], runs: Sequence[RunLine]) -> tuple[Touch, ...]:
    """Return accesses to private rows without noise, from ledger then reports."""
    touches = [
        Touch(entry.at, entry.who, entry.flow, entry.run_id, *_access(entry), entry.detail.get("of", ""))
        for entry in entries
        if entry.kind.removeprefix(GROUP) in (LOOK, EXPOSED)
    ]
    recorded = {touch.run_id for touch in touches}
    unrecorded = [run for run in runs if run.run_id not in recorded]
    return (
        *touches,
        *(Touch("", "", run.flow, run.run_id, what, "") for run in unrecorded for what in run.without_noise),
    )


def among(entries: Sequence[Entry], runs: Sequence[RunLine]) -> tuple[Among, ...]:
    """Return the parties that shared the noise of each federated run."""
    units = {run.run_id: run.unit for run in runs}
    federated = {}
    for entry in drawn_releases(entries):
        parties = parties_of(entry.event, entry.sensitivity_reason)
        if parties is not None:
            who = (parties.number, parties.minimum, parties.colluding)
            federated[entry.run_id, who] = Among(entry.run_id, *who, units[entry.run_id])
    return tuple(federated.values())


def exports(entries: Sequence[Entry]) -> tuple[Exported, ...]:
    """Return the exported bundles, oldest first."""
    return tuple(
        Exported(
            entry.at,
            entry.who,
            entry.run_id,
            entry.detail["manifest"],
            entry.detail["license"],
            entry.detail["overlap_check"].get("passed"),
            str((entry.detail.get("approval") or {}).get("by", "")),
        )
        for entry in entries
        if entry.kind == EXPORT
    )


def _access(entry: Entry) -> tuple[str, str]:
    if entry.kind.removeprefix(GROUP) == EXPOSED:
        return f"{entry.slot} without noise", "release.parquet of the iteration, and all that was made from it"
    return entry.detail["what"], entry.detail["where"]
