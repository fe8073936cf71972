"""The cap check before a release; the caller passes the accountant.

`tasks/accounting/votes.py` has the accountant.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from connectors.interfaces.errors import BudgetError, ConfigError, DeltaBudgetError, LedgerError, LostArtifactsError
from connectors.interfaces.ledger import Compose, ReleaseRequest
from connectors.ledger.state import Event, RunAccount, State, charge_fields, charge_key, exposes, own_delta

SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class Gate:
    """Compares past, reserved and requested events with the cap.

    A release without noise has no epsilon: it marks its dataset as exposed, is refused if there is a cap, and does not
    count in the totals.
    """

    compose: Compose

    def total(self, events: Sequence[Event], delta: float) -> float:
        """Return the epsilon of composed events at `delta`.

        LedgerError if the accountant returns no valid number.
        """
        noisy = [event for event in events if not exposes(event)]
        if not noisy:
            return 0.0
        epsilon = float(self.compose(noisy, delta))
        if math.isnan(epsilon) or epsilon < 0:
            raise LedgerError(f"The accountant returned {epsilon} for {len(noisy)} events; nothing is released.")
        return epsilon

    def refusal(self, state: State, current: Sequence[Event], requested: Sequence[Event]) -> BudgetError | None:
        """Return the error if `requested` cannot be added to `current`, else None.

        needs: epsilon of `requested` alone. left: the cap minus the epsilon of `current`, at least 0. missing: the
        excess of the total over the cap. It is less than needs - left, because epsilons of noisy releases compose
        sublinearly.
        """
        cap = state.cap
        if cap is None or not requested:
            return None
        left = max(0.0, cap.epsilon - self.total(current, cap.delta))
        if any(exposes(event) for event in requested):
            return BudgetError(math.inf, left, math.inf, state.dataset, cap.epsilon, state.group)
        if math.isinf(self.total([*current, *requested], cap.delta)):
            own = own_delta([*current, *requested])
            return DeltaBudgetError(own, cap.delta, self.total(requested, cap.delta), left, state.dataset)
        both = self.total([*current, *requested], cap.delta)
        if both <= cap.epsilon * (1 + SLACK):
            return None
        needs = self.total(requested, cap.delta)
        return BudgetError(needs, left, both - cap.epsilon, state.dataset, cap.epsilon, state.group)

    def plan_refusal(
        self, states: Sequence[State], run: tuple[str, str], requested: Sequence[Event]
    ) -> BudgetError | None:
        """Return the error if the plan of a run exceeds a cap of its group, else None."""
        refusals = (self.refusal(state, [*state.spent(), *state.reserved(without=run)], requested) for state in states)
        return next((refusal for refusal in refusals if refusal is not None), None)

    def release_refusal(self, states: Sequence[State], request: ReleaseRequest, extra: bool) -> BudgetError | None:
        """Return the error if a release cannot be paid, else None.

        A reserved release is compared with past events only (the cap can be lower than at reservation). An extra one
        must also leave room for all reservations.
        """
        for state in states:
            current = [*state.spent(), *state.reserved()] if extra else state.spent()
            refusal = self.refusal(state, current, [dict(request.charge.event)])
            if refusal is not None:
                return refusal
        return None


def require_unit(states: Iterable[State], protects: Iterable[str]) -> None:
    """Raise ConfigError if a cap for persons meets charges that protect only records."""
    weaker = set(protects) - {"person"}
    for state in states:
        if weaker and state.cap is not None and state.cap.protects == "person":
            raise ConfigError(
                f"The cap of dataset '{state.dataset}' applies to persons, but this run protects single records. Set "
                "privacy.protects: person and private.person."
            )


def admit(state: State, request: ReleaseRequest) -> tuple[RunAccount, bool]:
    """Return the run of a request, and True if the release exceeds its reservation.

    Raises LedgerError if the run has no reservation left for it, LostArtifactsError if the slot was released under
    another key. `respend` turns both into an extra release. A run that released its whole plan needs no open
    reservation for that: the extra release is compared with the cap by itself.
    """
    run = state.runs.get(request.run_id)
    before = [entry for entry in state.released if (entry.run_id, entry.slot) == (request.run_id, request.slot)]
    if run is None or not (run.open or before):
        raise LedgerError(
            f"Run {request.run_id} has no open reservation on dataset '{state.dataset}', so slot {request.slot} is not "
            f"released. Reserve the plan of the run first. Resume a finished run with: wasp resume {request.run_id}"
        )
    if before and not request.respend:
        raise LostArtifactsError(
            f"Run {request.run_id}: slot {request.slot} was released on {before[-1].at} for other candidates. "
            "Restore the run's files to reuse that output, or set privacy.on_lost_artifacts: respend to pay again "
            f"(wasp resume {request.run_id} --respend)."
        )
    key = charge_key(charge_fields(request.charge))
    unspent = any(charge_key(charge) == key for charge in state.unspent(request.run_id))
    if not unspent and not request.respend:
        raise LedgerError(
            f"Run {request.run_id} has no reserved charge left that equals slot {request.slot} "
            f"({request.charge.mechanism}, noise scale {request.charge.noise_scale:g}) on dataset '{state.dataset}'. "
            "The reserved plan must contain every release. Reserve the right plan and resume the run."
        )
    return run, bool(before) or not unspent
