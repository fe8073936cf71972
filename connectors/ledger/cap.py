"""The cap check before a release; the caller passes the accountant.

`tasks/accounting/composition.py` has the accountant. A cap is divided into two budgets before the first result exists:
one for trainings by DP-SGD, whose (epsilon, delta) are added up, and one for all other releases, whose mu^2 are added
up. Nothing moves between them. Each budget has a filter that is valid for releases chosen after earlier results:
Rogers, Roth, Ullman and Vadhan 2016 for the sums of (epsilon, delta), Smith and Thakurta 2022 and Koskela, Tobaben and
Honkela 2023 for mu^2. Used in any order, the two together are (epsilon, delta)-DP with the sums of their epsilons and
deltas: with probability 1 - delta of the trainings their loss stays within their epsilon on every path, and the loss of
the other releases is a supermartingale whatever the trainings returned (Haney et al. 2023 for the general case).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from connectors.interfaces.errors import (
    BudgetError,
    ConfigError,
    DeltaBudgetError,
    LedgerError,
    LostArtifactsError,
    PartBudgetError,
)
from connectors.interfaces.ledger import Compose, Event, ReleaseRequest
from connectors.ledger.state import (
    Cap,
    RunAccount,
    State,
    charge_fields,
    charge_key,
    exposes,
    is_training,
    own_delta,
)

SLACK = 1e-9
"""Relative excess that is rounding: a plan that is calibrated to the whole cap can come out a last digit above it."""

Plan = tuple[Sequence[Event], float]
"""Planned events and the delta of their plan."""


@dataclass(frozen=True, slots=True)
class CapCheck:
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
            raise LedgerError(
                f"The accountant returned {epsilon} for {len(noisy)} events; nothing is released."
            )
        return epsilon

    def trainings_part(
        self, state: State, request: Plan | None = None
    ) -> tuple[float, float] | None:
        """Return epsilon and delta of the cap that only trainings may spend, None if undecided.

        The owner's declaration decides, else the first plan (`State.first_plan`), else `request`: the cap is divided in
        the proportion of that plan. A plan without trainings leaves them nothing, a plan of trainings only leaves
        nothing else.
        """
        if state.cap is None:
            return None
        plan = state.first_plan()
        if plan is not None:
            request = (plan.noisy, plan.delta)
        if state.trainings is not None:
            share = state.trainings
        elif request is not None:
            share = self._proportion(*request)
        else:
            return None
        return share[0] * state.cap.epsilon, share[1] * state.cap.delta

    def refusal(
        self, state: State, current: Sequence[Event], requested: Sequence[Event], delta: float
    ) -> BudgetError | None:
        """Return the error if `requested` cannot be added to `current`, else None.

        `delta`: of the plan that contains `requested`; it counts if no earlier plan divided the cap. needs: epsilon of
        `requested` alone. left: the cap minus the epsilon of `current`, at least 0. missing: the excess of the total
        over the cap. It is less than needs - left, because epsilons of noisy releases compose sublinearly.
        """
        cap = state.cap
        if cap is None or not requested:
            return None
        both = [*current, *requested]
        refusal = None
        exposed = any(map(exposes, requested))
        total = needs = math.inf
        if not exposed:
            total = self.total(both, cap.delta)
        # The whole cap first: if it does not suffice, no division of it would.
        if total <= cap.epsilon * (1 + SLACK):
            refusal = self._part_refusal(state, cap, current, (requested, delta))
        else:
            left = max(0.0, cap.epsilon - self.total(current, cap.delta))
            if not exposed:
                needs = self.total(requested, cap.delta)
            refusal = BudgetError(
                needs, left, total - cap.epsilon, state.dataset, cap.epsilon, state.group
            )
            # A noisy total is infinite only if the trainings' deltas exceed the cap's, or leave nothing of it to the
            # other releases.
            if math.isinf(total) and not exposed:
                refusal = DeltaBudgetError(own_delta(both), cap.delta, needs, left, state.dataset)
        if refusal is not None and state.capped_by_default:
            refusal.default = True
        return refusal

    def plan_refusal(
        self,
        states: Sequence[State],
        run: tuple[str, str],
        requested: Sequence[Event],
        delta: float,
    ) -> BudgetError | None:
        """Return the error if the plan of a run exceeds a cap of its group, else None."""
        refusals = (
            self.refusal(state, [*state.spent(), *state.reserved(without=run)], requested, delta)
            for state in states
        )
        return next((refusal for refusal in refusals if refusal is not None), None)

    def release_refusal(
        self, states: Sequence[State], request: ReleaseRequest, extra: bool
    ) -> BudgetError | None:
        """Return the error if a release cannot be paid, else None.

        A reserved release is compared with past events only (the cap can be lower than at reservation). An extra one
        must also leave room for all reservations.
        """
        requested = [dict(request.charge.event)]
        delta = states[0].runs[request.run_id].delta
        for state in states:
            current = state.spent()
            if extra:
                current += state.reserved()
            refusal = self.refusal(state, current, requested, delta)
            if refusal is not None:
                return refusal
        return None

    def _part_refusal(
        self, state: State, cap: Cap, current: Sequence[Event], request: Plan
    ) -> BudgetError | None:
        """Return the error if `request` exceeds its part of a divided cap, else None."""
        part = self.trainings_part(state, request) or (0.0, 0.0)
        for trained in (True, False):
            requested = [event for event in request[0] if is_training(event) == trained]
            if not requested or (not trained and part == (0.0, 0.0)):
                continue  # an undivided cap was checked as a whole
            epsilon, delta = part
            if not trained:
                epsilon = cap.epsilon - part[0]
                delta = cap.delta - part[1]
            before = [event for event in current if is_training(event) == trained]
            # At delta 0 no Gaussian noise has a finite epsilon: such a part pays for nothing.
            left = 0.0
            needs = total = math.inf
            if delta > 0:
                total = self.total([*before, *requested], delta)
            if total > epsilon * (1 + SLACK):
                if delta > 0:
                    left = max(0.0, epsilon - self.total(before, delta))
                    needs = self.total(requested, delta)
                return PartBudgetError(
                    needs, left, total - epsilon, state.dataset, trained, (epsilon, delta)
                )
        return None

    def _proportion(self, events: Sequence[Event], delta: float) -> tuple[float, float]:
        """Return the fractions of epsilon and delta that the trainings of a plan take."""
        trainings = [event for event in events if is_training(event)]
        others = [event for event in events if not is_training(event) and not exposes(event)]
        own = own_delta(trainings)
        if not trainings:
            return 0.0, 0.0
        if not others or own >= delta:
            return 1.0, 1.0
        # Epsilons are added up across the two parts, so their proportion is that of epsilons and not of mu^2.
        epsilon = self.total(trainings, own)
        return epsilon / (epsilon + self.total(others, delta - own)), own / delta


def require_part(
    state: State, cap_check: CapCheck, cap: Cap, trainings: tuple[float, float]
) -> None:
    """Raise ConfigError if `trainings` is no part of the cap, or takes something from a part after the first release.

    Such a move would be chosen after results were seen.
    """
    positive = 0 < cap.epsilon < math.inf and cap.delta > 0
    if not (positive and 0 <= trainings[0] <= cap.epsilon and 0 <= trainings[1] <= cap.delta):
        raise ConfigError(
            f"--trainings-epsilon, --trainings-delta: {trainings[0]:g} and {trainings[1]:g} are no part of the cap "
            f"({cap.epsilon:g}, {cap.delta:g}). Write numbers from 0 to the cap's."
        )
    old = cap_check.trainings_part(state)
    if state.cap is None or old is None or state.settled is None:
        return
    before = (*old, state.cap.epsilon - old[0], state.cap.delta - old[1])
    after = (*trainings, cap.epsilon - trainings[0], cap.delta - trainings[1])
    if any(new < old_part * (1 - SLACK) for new, old_part in zip(after, before, strict=True)):
        raise ConfigError(
            f"--trainings-epsilon, --trainings-delta: dataset '{state.dataset}' has releases, and its cap was divided "
            f"before the first of them: epsilon {old[0]:.4g} at delta {old[1]:.3g} for trainings, {before[2]:.4g} at "
            f"{before[3]:.3g} for all others. Raise the cap so that neither part becomes smaller."
        )


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
    # The slot and not the key: other candidates have another key, and a second release of the slot costs again.
    before = [entry for entry in state.of_run.get(request.run_id, ()) if entry.slot == request.slot]
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
