"""The gate: whether more may be released from a dataset. Its arithmetic is handed in (tasks/accounting/votes.py)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from connectors.interfaces.errors import BudgetError, ConfigError, DeltaBudgetError, LedgerError, LostArtifactsError
from connectors.interfaces.ledger import Compose, ReleaseRequest
from connectors.ledger.state import Event, Run, State, charge_fields, charge_key, exposes, own_delta

SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class Gate:
    """Compares what happened, what is reserved and what is wanted with the cap.

    A release without noise has no epsilon: it marks its dataset as exposed, is refused where there is a cap, and
    does not enter the totals.
    """

    compose: Compose

    def total(self, events: Sequence[Event], delta: float) -> float:
        """Return the epsilon of events together at `delta`; LedgerError if the accountant gives no number."""
        noisy = [event for event in events if not exposes(event)]
        if not noisy:
            return 0.0
        epsilon = float(self.compose(noisy, delta))
        if math.isnan(epsilon) or epsilon < 0:
            raise LedgerError(f"The accountant answered {epsilon} for {len(noisy)} events: nothing is released.")
        return epsilon

    def refusal(self, state: State, standing: Sequence[Event], wanted: Sequence[Event]) -> BudgetError | None:
        """Return why `wanted` cannot be added to `standing`, or None.

        needs: epsilon of `wanted` alone. left: the cap minus the epsilon of `standing`, at least 0. missing: what
        the total would pass the cap by; less than needs - left, as epsilons of noisy releases add up sublinearly.
        """
        cap = state.cap
        if cap is None or not wanted:
            return None
        left = max(0.0, cap.epsilon - self.total(standing, cap.delta))
        if any(exposes(event) for event in wanted):
            return BudgetError(math.inf, left, math.inf, state.dataset, cap.epsilon, state.group)
        if math.isinf(self.total([*standing, *wanted], cap.delta)):
            own = own_delta([*standing, *wanted])
            return DeltaBudgetError(own, cap.delta, self.total(wanted, cap.delta), left, state.dataset)
        both = self.total([*standing, *wanted], cap.delta)
        if both <= cap.epsilon * (1 + SLACK):
            return None
        needs = self.total(wanted, cap.delta)
        return BudgetError(needs, left, both - cap.epsilon, state.dataset, cap.epsilon, state.group)

    def plan_refusal(
        self, states: Sequence[State], run: tuple[str, str], wanted: Sequence[Event]
    ) -> BudgetError | None:
        """Return why the plan of a (dataset, run) cannot be set aside, or None: no cap of its group may be passed."""
        found = (self.refusal(state, [*state.spent(), *state.reserved(without=run)], wanted) for state in states)
        return next((refusal for refusal in found if refusal is not None), None)

    def release_refusal(self, states: Sequence[State], request: ReleaseRequest, extra: bool) -> BudgetError | None:
        """Return why one release cannot be paid, or None.

        A reserved release is held against what happened alone (the cap may have been lowered since); an extra one
        must leave room for all that is reserved.
        """
        for state in states:
            standing = [*state.spent(), *state.reserved()] if extra else state.spent()
            refusal = self.refusal(state, standing, [dict(request.charge.event)])
            if refusal is not None:
                return refusal
        return None


def require_unit(states: Iterable[State], protects: Iterable[str]) -> None:
    """Raise ConfigError when a cap for persons meets charges that protect single records only."""
    weaker = set(protects) - {"person"}
    for state in states:
        if weaker and state.cap is not None and state.cap.protects == "person":
            raise ConfigError(
                f"The cap of dataset '{state.dataset}' is for persons, this run protects single records: set "
                "privacy.protects: person and private.person."
            )


def admit(state: State, request: ReleaseRequest) -> tuple[Run, bool]:
    """Return the run of a request and whether its release comes on top of the run's reservation.

    Raises LedgerError when the run has reserved nothing (left) for it, LostArtifactsError when the slot was released
    under another key; `respend` turns both of the latter into an extra release. A run that released all of its plan
    needs no open reservation for that: the extra release is held against the cap by itself.
    """
    run = state.runs.get(request.run_id)
    before = [entry for entry in state.released if (entry.run_id, entry.slot) == (request.run_id, request.slot)]
    if run is None or not (run.open or before):
        raise LedgerError(
            f"Run {request.run_id} has no open reservation on dataset '{state.dataset}', so slot {request.slot} is not "
            f"released. Reserve the plan of the run first; for a finished run type: wasp resume {request.run_id}"
        )
    if before and not request.respend:
        raise LostArtifactsError(
            f"Run {request.run_id}: slot {request.slot} was released on {before[-1].at} for other candidates. "
            "Bring back the run's files to reuse that output, or set privacy.on_lost_artifacts: respend to pay again "
            f"(wasp resume {request.run_id} --respend)."
        )
    wanted = charge_key(charge_fields(request.charge))
    unspent = any(charge_key(charge) == wanted for charge in state.unspent(request.run_id))
    if not unspent and not request.respend:
        raise LedgerError(
            f"Run {request.run_id} has no reserved charge left that equals slot {request.slot} "
            f"({request.charge.mechanism}, noise scale {request.charge.noise_scale:g}) on dataset '{state.dataset}'. "
            "The plan it reserved must hold every release: reserve the right plan and resume the run."
        )
    return run, bool(before) or not unspent
