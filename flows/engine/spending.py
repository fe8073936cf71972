"""Ledger entries of the releases that a run's output depends on, charged by the run or reused."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from connectors.ledger.state import charge_fields, drawn_releases, events_of, unreleased

if TYPE_CHECKING:
    from connectors.artifacts.store import Artifacts
    from connectors.ledger.ledger import PrivacyLedger
    from connectors.ledger.state import Entry
    from tasks.reporting.run_record import RunRecord

RELEASES = "runs/*/*/release.parquet"
"""Artifact paths of releases: in the folder of an iteration, or of the release."""


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


HIGH_BUDGET = "wasp.budget.high"
HIGH_SHARE = 0.8


def emit_high_budget(artifacts: Artifacts, ledger: PrivacyLedger, dataset: str, run_id: str) -> None:
    """Emit `wasp.budget.high` once per run, after the release that takes its dataset past 80 % of its cap.

    The event contains the dataset's name and epsilons, all of them public. A run that is killed between the release and
    the event emits it when it is resumed.
    """
    path = f"runs/{run_id}/budget_high.json"
    if not dataset or artifacts.exists(path):
        return
    status = ledger.status(dataset)
    if status.cap is None or status.spent < HIGH_SHARE * status.cap:
        return
    values = {"dataset": dataset, "spent": round(status.spent, 4), "cap": round(status.cap, 4)}
    values |= {"left": round(status.cap - status.spent, 4), "percent": round(100 * status.spent / status.cap)}
    _emit(dataset, run_id, values)
    artifacts.write_text(path, json.dumps(values))


def _emit(dataset: str, run_id: str, values: dict[str, object]) -> None:
    from prefect import runtime  # slow to import, and read by commands that start no run
    from prefect.events import emit_event

    resource = {"prefect.resource.id": f"wasp.dataset.{dataset}", "prefect.resource.name": dataset}
    emit_event(
        HIGH_BUDGET, resource=resource, payload=values | {"run_id": run_id, "flow_run": str(runtime.flow_run.id or "")}
    )
