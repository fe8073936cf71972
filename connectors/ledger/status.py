"""The budget status of a dataset."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from connectors.ledger.cap import CapCheck
from connectors.ledger.state import Event, State, cost_of, events_of


@dataclass(frozen=True, slots=True)
class Status:
    """The budget status of a dataset. Without a cap, `cap` and `left` are None.

    `spent` and `reserved` are epsilons at `delta` (the cap's, else the latest plan's) of all releases and of all open
    reservations, each alone. `left` is the cap minus the epsilon of both together, at least 0. `exposed`: something was
    released without noise, which no epsilon describes. `units` are the pairs of protected unit and adjacency of the
    charges: the totals hold for the weakest of them. `members` are the other datasets of its `group`, `reasons` say why
    the ledger itself formed it. Their releases (`shared`) are part of `spent`, their open runs part of `reserved`.
    `trainings`: epsilon and delta of the cap that only trainings may spend; None while nothing has divided the cap.
    """

    dataset: str
    names: tuple[str, ...]
    cap: float | None
    cap_protects: str | None
    delta: float | None
    spent: float
    reserved: float
    left: float | None
    releases: int
    runs: int
    open_runs: tuple[str, ...]
    exposed: bool
    voided: int
    refused: int
    versions: int
    units: tuple[str, ...]
    group: str = ""
    members: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    shared: int = 0
    trainings: tuple[float, float] | None = None


SAME = ("dataset", "exposed", "voided", "refused", "versions", "group")
"""Values of a dataset's state that its status shows as they are."""


def outlook_of(
    states: Sequence[State], events: Sequence[Event], delta: float, cap_check: CapCheck
) -> dict[str, Any]:
    """Return cap and rest of a dataset before planned events, None without a cap; `states`: its own, then its group's.

    `refusal`: why the plan exceeds a cap of its group, as `reserve` would say to a new run. `repeatable`: runs with the
    same plan that `reserve` admits without this check, because it is still reserved or released. `default_cap`: no
    owner set the cap.
    """
    state = states[0]
    cap = states[0].cap
    refusal = cap_check.plan_refusal(states, (state.dataset, ""), events, delta)
    costs = Counter(map(cost_of, events))
    return {
        "cap": cap.epsilon if cap else None,
        "left": max(
            0.0, cap.epsilon - cap_check.total([*state.spent(), *state.reserved()], cap.delta)
        )
        if cap
        else None,
        "refusal": "" if refusal is None else str(refusal),
        "repeatable": [
            run_id
            for run_id, run in state.runs.items()
            if (run.delta, Counter(map(cost_of, events_of(run.charges)))) == (delta, costs)
            and (run.open or not state.unspent(run_id))
        ],
        "default_cap": state.capped_by_default,
    }


def status_of(state: State, names: Iterable[str], cap_check: CapCheck) -> Status:
    """Return the status for a dataset's state."""
    delta = state.delta()
    cap = state.cap
    spent = state.spent()
    reserved = state.reserved()

    def total(events: Sequence[Event]) -> float:
        return 0.0 if delta is None else cap_check.total(events, delta)

    return Status(
        **{name: getattr(state, name) for name in SAME},
        names=tuple(names),
        cap=cap.epsilon if cap else None,
        cap_protects=cap.protects if cap else None,
        delta=delta,
        spent=total(spent),
        reserved=total(reserved),
        left=max(0.0, cap.epsilon - total([*spent, *reserved])) if cap else None,
        releases=len(state.released),
        runs=len(state.runs),
        open_runs=tuple(run_id for run_id, run in state.runs.items() if run.open),
        units=tuple(sorted({f"{entry.protects}/{entry.adjacency}" for entry in state.charged()})),
        members=tuple(name for name in state.members if name != state.dataset),
        reasons=tuple(sorted(state.reasons)),
        shared=sum(len(other.released) for other in state.others.values()),
        trainings=cap_check.trainings_part(state),
    )
