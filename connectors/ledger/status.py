"""The budget status of a dataset."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypedDict

from connectors.interfaces.errors import LedgerError
from connectors.interfaces.ledger import Event
from connectors.ledger.cap import CapCheck
from connectors.ledger.state import EXPOSED, Cap, Entry, State, cost_of, events_of, own_delta


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


@dataclass(frozen=True, slots=True)
class ChargedBudget:
    """A charge, and the budget of its dataset right after it.

    `charged` is the growth of the total, so that the charges of a dataset add up to `total`: the epsilon of all
    releases at `delta`. `own_delta`: delta of a training by DP-SGD, which has its own; 0 for other releases, which
    share `delta`. `cap`: of the dataset at that time, None without one. `exposed`: a release without noise, which no
    epsilon describes; it is not in the totals.
    """

    charged: float
    total: float
    delta: float
    own_delta: float
    cap: Cap | None
    exposed: bool


class Outlook(TypedDict):
    """A dataset's cap and rest before a plan; both None without a cap.

    `refusal`: why the plan exceeds a cap of its group, as `reserve` would say to a new run. `repeatable`: runs with the
    same plan that `reserve` admits without this check, because it is still reserved or released. `default_cap`: no
    owner set the cap.
    """

    dataset: str
    cap: float | None
    left: float | None
    refusal: str
    repeatable: list[str]
    default_cap: bool


def outlook_of(
    name: str, states: Sequence[State], events: Sequence[Event], delta: float, cap_check: CapCheck
) -> Outlook:
    """Return what a cap leaves for planned events; `states`: the dataset's own, then its group's."""
    state = states[0]
    refusal = cap_check.plan_refusal(states, (state.dataset, ""), events, delta)
    explanation = ""
    if refusal is not None:
        explanation = str(refusal)
    # Costs and not charges: the reasons in a stored charge can be those of an earlier version.
    costs = Counter(map(cost_of, events))
    repeatable = [
        run_id
        for run_id, run in state.runs.items()
        if (run.delta, Counter(map(cost_of, events_of(run.charges)))) == (delta, costs)
        and (run.open or not state.unspent(run_id))
    ]
    outlook = Outlook(
        dataset=name,
        cap=None,
        left=None,
        refusal=explanation,
        repeatable=repeatable,
        default_cap=state.capped_by_default,
    )
    if state.cap is not None:
        outlook["cap"] = state.cap.epsilon
        outlook["left"] = _left(state, state.cap, cap_check)
    return outlook


def charged_budget(entries: Iterable[Entry], entry_hash: str, cap_check: CapCheck) -> ChargedBudget:
    """Return what the entry of a release charged; `entries`: of its dataset, oldest first."""
    state = State("")
    for entry in entries:
        if entry.hash != entry_hash:
            state.apply(entry)
            continue
        # Both at the delta of this entry: that of the previous total can be another one.
        delta = entry.delta or 0.0
        total = cap_check.total(state.after(entry), delta)
        return ChargedBudget(
            charged=max(0.0, total - cap_check.total(state.spent(), delta)),
            total=total,
            delta=delta,
            own_delta=own_delta([entry.event]),
            cap=state.cap,
            exposed=entry.kind == EXPOSED,
        )
    raise LedgerError(f"The privacy ledger has no entry with the hash {entry_hash}.")


def _left(state: State, cap: Cap, cap_check: CapCheck) -> float:
    """Return the cap's epsilon minus that of all releases and reservations together, at least 0."""
    # One total and not two subtracted: epsilons of noisy releases compose sublinearly.
    return max(0.0, cap.epsilon - cap_check.total([*state.spent(), *state.reserved()], cap.delta))


def status_of(state: State, names: Iterable[str], cap_check: CapCheck) -> Status:
    """Return the status for a dataset's state."""
    delta = state.delta()
    spent = 0.0
    reserved = 0.0
    if delta is not None:  # without a cap and a plan there is no delta to compose at
        spent = cap_check.total(state.spent(), delta)
        reserved = cap_check.total(state.reserved(), delta)
    cap = protects = left = None
    if state.cap is not None:
        cap = state.cap.epsilon
        protects = state.cap.protects
        left = _left(state, state.cap, cap_check)
    return Status(
        dataset=state.dataset,
        names=tuple(names),
        cap=cap,
        cap_protects=protects,
        delta=delta,
        spent=spent,
        reserved=reserved,
        left=left,
        releases=len(state.released),
        runs=len(state.runs),
        open_runs=tuple(run_id for run_id, run in state.runs.items() if run.open),
        exposed=state.exposed,
        voided=state.voided,
        refused=state.refused,
        versions=state.versions,
        units=tuple(sorted({f"{entry.protects}/{entry.adjacency}" for entry in state.charged()})),
        group=state.group,
        members=tuple(name for name in state.members if name != state.dataset),
        reasons=tuple(sorted(state.reasons)),
        shared=sum(len(other.released) for other in state.others.values()),
        trainings=cap_check.trainings_part(state),
    )
