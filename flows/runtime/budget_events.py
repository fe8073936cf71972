"""Events of privacy budgets on the Prefect server, for automations: a charge, a refusal, an export.

They contain public numbers only. An event follows a fact that is stored and is no fact itself: the privacy ledger
decides, and a run that is killed between its charge and the event leaves no event.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prefect import runtime
from prefect.events import emit_event

from connectors.interfaces.errors import BudgetError

if TYPE_CHECKING:
    from connectors.ledger.status import ChargedBudget
    from flows.runtime.failure import ErrorContext

CHARGED = "wasp.budget.charged"
REFUSED = "wasp.budget.refused"
EXPORTED = "wasp.release.exported"
LEFT_LABEL = "wasp.budget.left"
"""Label of the dataset in a charge: the share of the cap that is left, as a range of ten percent.

A trigger of Prefect compares labels with texts; it reads no number of the payload.
"""
UNCAPPED = "no cap"
Payload = Mapping[str, str | float | bool | None]


def dataset_resource(dataset: str) -> dict[str, str]:
    """Return a dataset as the resource of an event."""
    return {"prefect.resource.id": f"wasp.dataset.{dataset}", "prefect.resource.name": dataset}


def left_range(share: float | None) -> str:
    """Return the range of ten percent that contains the share of a cap: "10-20 %"; None is no cap."""
    if share is None:
        return UNCAPPED
    tens = min(9, int(10 * share))
    return f"{10 * tens}-{10 * tens + 10} %"


def emit_charge(dataset: str, run_id: str, slot: str, budget: ChargedBudget) -> None:
    """Emit the event of a charge that the ledger has stored; Prefect adds the flow run."""
    share = None
    if budget.cap is not None:
        share = 1.0
        if budget.cap.epsilon > 0:
            share = max(0.0, 1 - budget.total / budget.cap.epsilon)
    payload: Payload = {
        "dataset": dataset,
        "run_id": run_id,
        "slot": slot,
        "epsilon_charged": budget.charged,
        "epsilon_total": budget.total,
        "epsilon_cap": budget.cap.epsilon if budget.cap else None,
        "delta_charged": budget.own_delta,
        "delta_total": budget.delta,
        "delta_cap": budget.cap.delta if budget.cap else None,
        "share_left": share,
        "exposed": budget.exposed,
    }
    emit(CHARGED, dataset_resource(dataset) | {LEFT_LABEL: left_range(share)}, payload)


@contextmanager
def reported_refusal(context: ErrorContext) -> Iterator[None]:
    """Emit an event if the ledger refuses the block a reservation or a charge."""
    try:
        yield
    except BudgetError as error:
        if runtime.flow_run.id is not None:
            run_id = context.folder.name if context.folder else None
            payload: Payload = {
                "dataset": error.dataset,
                "run_id": run_id,
                "epsilon_needed": error.needs,
                "epsilon_left": error.left,
                "epsilon_missing": error.missing,
                "epsilon_cap": error.cap,
            }
            emit(REFUSED, dataset_resource(error.dataset), payload)
        raise


def emit(
    event: str,
    resource: Mapping[str, str],
    payload: Payload,
    related: Sequence[dict[str, str]] = (),
) -> None:
    """Hand an event to Prefect, which sends it in the background and logs a server that is away."""
    # JSON has no infinity: an epsilon without bound is null.
    finite = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in payload.items()
    }
    emit_event(event, dict(resource), related=list(related), payload=finite)
