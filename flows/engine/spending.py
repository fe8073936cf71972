"""Ledger entries of the releases that a run's output depends on, charged by the run or reused."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.errors import LedgerError
from connectors.interfaces.ledger import Look
from connectors.ledger.state import RELEASING, charge_fields, drawn_releases, events_of, unreleased
from flows.runtime.state_folder import who

if TYPE_CHECKING:
    from connectors.artifacts.store import Artifacts
    from connectors.ledger.state import Entry
    from flows.engine.run import Run
    from tasks.reporting.run_record import RunRecord

RELEASES = "runs/*/*/release.parquet"
"""Artifact paths of releases: in the folder of an iteration, or of the release."""


def paid_for(run: Run, releases: Sequence[ArtifactRef]) -> list[Entry]:
    """Return the ledger entries that paid for these releases, in this run or in an earlier one.

    Earlier draws of this run in the same slots are included (texts were lost and the vote was charged again), because
    their results were seen too. Raises LedgerError when a release names no entry of the ledger.
    """
    name = run.tools.called
    if not name.dataset:
        return []
    paid = {run.tools.artifacts.info(release)["ledger_entry"] for release in releases}
    entries = run.tools.ledger.history(name.dataset)
    unknown = sorted(paid - {entry.hash for entry in entries})
    if unknown:
        raise LedgerError(
            f"Release {unknown[0][:12]} of run {name.run_id} is not in the privacy ledger of dataset "
            f"'{name.dataset}'. Restore the ledger, or delete the run's release.parquet to restore it from the ledger."
        )
    slots = run.slots(releases) | {release.name for release in run.prepared.releases.items}
    return [
        entry
        for entry in drawn_releases(entries)
        if entry.hash in paid or (entry.run_id == name.run_id and entry.slot in slots)
    ]


@dataclass(frozen=True, slots=True)
class Output:
    """The releases that a run's output depends on; `charged` are those that the run paid for.

    `events` describe all of them to the accountant. `at_most`: the files of the run do not show what it reused, so the
    whole plan counts as released.
    """

    charged: tuple[Entry, ...]
    releases: tuple[Entry, ...]
    events: tuple[Mapping[str, Any], ...]
    at_most: bool


def output_of(artifacts: Artifacts, run_id: str, entries: Sequence[Entry], report: RunRecord | None) -> Output:
    """Return the releases that the output of a run depends on, from the ledger and the run's files.

    The loss is never understated: further releases in the run's report count as well. Without a report the whole plan
    counts, unless the run is finished and its manifest exists.
    """
    named = releases_of(artifacts, run_id)
    releases = tuple(entry for entry in drawn_releases(entries) if entry.run_id == run_id or entry.hash in named)
    over = any(entry.kind == "finish" and entry.run_id == run_id for entry in entries)
    at_most = report is None and not (over and artifacts.read_text(f"runs/{run_id}/manifest.json") is not None)
    further: list[Mapping[str, Any]] = []
    if report is not None:
        further = [charge_fields(charge) for charge in report.charges]
    elif at_most:
        further = _planned(run_id, entries)
    missing = unreleased(further, releases)
    return Output(
        charged=tuple(entry for entry in releases if entry.run_id == run_id),
        releases=releases,
        events=(*(entry.event for entry in releases), *events_of(missing)),
        at_most=at_most and bool(missing),
    )


def _planned(run_id: str, entries: Sequence[Entry]) -> list[Mapping[str, Any]]:
    """Return the charges of the plan that a run reserved last."""
    plans = [entry.detail["charges"] for entry in entries if (entry.kind, entry.run_id) == ("reserve", run_id)]
    return plans[-1] if plans else []


def releases_of(artifacts: Artifacts, run_id: str) -> set[str]:
    """Return the hashes of the ledger entries in the files of a run, which its output depends on."""
    files = artifacts.finished(RELEASES.replace("*", run_id, 1)).values()
    named = {str(manifest.get("info", {}).get("ledger_entry") or "") for manifest in files}
    return (named | exposure_of(artifacts, run_id)) - {""}


def exposure_of(artifacts: Artifacts, run_id: str) -> set[str]:
    """Return the ledger entry of a student trained on private rows; empty without such a student."""
    text = artifacts.read_text(f"runs/{run_id}/student.json")
    entry = json.loads(text).get("ledger_entry") if text else None
    return {entry} if entry else set()


def return_reservation(run: Run) -> str:
    """Return the reservation of a stopped run without releases to the budget; return a message about it."""
    name = run.tools.called
    if not name.dataset:
        return ""
    if any(entry.kind in RELEASING for entry in run.tools.ledger.history(name.dataset) if entry.run_id == name.run_id):
        return f"Its remaining budget is still reserved. Return it with: wasp abandon {name.run_id}."
    run.tools.ledger.finish(name.dataset, name.run_id)
    return "The reserved budget was returned."


def stopped_text(run: Run) -> str:
    """Return what a stopped run leaves behind, in Markdown: how to continue, and how to give its budget back."""
    lines = ["**This run was stopped.** Nothing is lost: finished steps are reused.", ""]
    lines.append(f"- Continue: Retry on this page, or `wasp resume {run.tools.run_id}`")
    return "\n".join([*lines, *(f"- Budget: {line}" for line in reserved_lines(run))])


def reserved_lines(run: Run) -> list[str]:
    """Return a line about the budget that open runs of the dataset have reserved; none if nothing is reserved."""
    name = run.tools.called
    reserved = run.tools.ledger.status(name.dataset).reserved if name.dataset and run.prepared.plan.charges else 0.0
    if not reserved:
        return []
    return [
        f"epsilon {reserved:.4g} stays reserved by open runs of '{run.dataset}' and counts against the cap. Return the "
        f"part of this run with: wasp abandon {name.run_id}"
    ]


def look_for_fid(run: Run, iteration: int) -> Look:
    """Return the ledger entry for FID against the private rows."""
    return _look(
        run, "FID against the private rows", f"measures.json and report, iteration {iteration}", f"fid-{iteration}"
    )


def _look(run: Run, what: str, where: str, slot: str) -> Look:
    name = run.tools.called
    return Look(name.dataset, who(), name.flow, name.run_id, what, where, slot)


HIGH_BUDGET = "wasp.budget.high"
HIGH_SHARE = 0.8


def emit_high_budget(run: Run) -> None:
    """Emit `wasp.budget.high` once per run, after the release that takes its dataset past 80 % of its cap.

    The event contains the dataset's name and epsilons, all of them public. A run that is killed between the release and
    the event emits it when it is resumed.
    """
    name = run.tools.called
    if not name.dataset:
        return
    path = f"runs/{name.run_id}/budget_high.json"
    if run.tools.artifacts.exists(path):
        return
    status = run.tools.ledger.status(name.dataset)
    if status.cap is None or status.spent < HIGH_SHARE * status.cap:
        return
    values = {"dataset": name.dataset, "spent": round(status.spent, 4), "cap": round(status.cap, 4)}
    values |= {"left": round(status.cap - status.spent, 4), "percent": round(100 * status.spent / status.cap)}
    _emit(name.dataset, name.run_id, values)
    run.tools.artifacts.write_text(path, json.dumps(values))


def _emit(dataset: str, run_id: str, values: dict[str, object]) -> None:
    from prefect import runtime
    from prefect.events import emit_event

    resource = {"prefect.resource.id": f"wasp.dataset.{dataset}", "prefect.resource.name": dataset}
    emit_event(
        HIGH_BUDGET, resource=resource, payload=values | {"run_id": run_id, "flow_run": str(runtime.flow_run.id or "")}
    )
