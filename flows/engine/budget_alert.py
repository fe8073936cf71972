"""Tells Prefect when a dataset has spent most of its privacy budget; automations react to it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flows.engine.run import Run

HIGH_BUDGET = "wasp.budget.high"
HIGH_SHARE = 0.8


def tell_high_budget(run: Run) -> None:
    """Emit `wasp.budget.high` once per run, after the release that takes its dataset past 80 % of its cap.

    The event holds the dataset's name and epsilons, all of them public. A run that is killed between the release and
    the event tells it when it goes on.
    """
    name = run.tools.called
    if not name.dataset:
        return
    told = f"runs/{name.run_id}/budget_high.json"
    if run.tools.artifacts.exists(told):
        return
    status = run.tools.ledger.status(name.dataset)
    if status.cap is None or status.spent < HIGH_SHARE * status.cap:
        return
    values = {"dataset": name.dataset, "spent": round(status.spent, 4), "cap": round(status.cap, 4)}
    values |= {"left": round(status.cap - status.spent, 4), "percent": round(100 * status.spent / status.cap)}
    _emit(name.dataset, name.run_id, values)
    run.tools.artifacts.write_text(told, json.dumps(values))


def _emit(dataset: str, run_id: str, values: dict[str, object]) -> None:
    from prefect import runtime
    from prefect.events import emit_event

    resource = {"prefect.resource.id": f"wasp.dataset.{dataset}", "prefect.resource.name": dataset}
    emit_event(
        HIGH_BUDGET, resource=resource, payload=values | {"run_id": run_id, "flow_run": str(runtime.flow_run.id or "")}
    )
