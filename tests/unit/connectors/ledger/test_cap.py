"""An adversary who chooses each release after the results so far, against the ledger's cap check.

It takes small Gaussian looks. After each one it either continues or spends everything that the cap check allows on one
training, whose worst case is the pair of Kairouz, Oh and Viswanath 2015: with probability delta it reveals the row,
otherwise it is randomised response. A dynamic programme over the loss so far finds the best choices, so its value is
the exact delta of the whole adaptive mechanism at the cap's epsilon, up to the grid of losses.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.signal import fftconvolve
from scipy.stats import norm

from connectors.interfaces.errors import BudgetError, ConfigError, PartBudgetError
from connectors.interfaces.ledger import BudgetPlan, Charge, ReleaseRequest
from connectors.ledger.cap import CapCheck
from connectors.ledger.ledger import PrivacyLedger
from connectors.ledger.state import Cap, State
from tasks.accounting.composition import (
    dp_sgd_event,
    filter_epsilon,
    gaussian_sigma,
    second_opinion,
)
from tests.support.ledgers import gaussian_event

EPSILON, DELTA = 4.0, 1e-5
STEP = 1e-3
LOSSES = np.arange(-10, 18, STEP)
CAP_CHECK = CapCheck(filter_epsilon)

Rule = Callable[[list, dict], bool]


def training(epsilon: float, delta: float) -> dict:
    return dp_sgd_event(1.0, 0.1, 10, epsilon, delta)


def rule(part: tuple[float, float]) -> Rule:
    """The ledger's cap check under a cap with this part for trainings."""
    state = State("bank", cap=Cap(EPSILON, DELTA), trainings=(part[0] / EPSILON, part[1] / DELTA))
    return lambda current, event: CAP_CHECK.refusal(state, current, [event], DELTA) is None


def one_total(current: list, event: dict) -> bool:
    """The rule without parts: mu^2 and (epsilon, delta) may be traded until the end."""
    return filter_epsilon([*current, event], DELTA) <= EPSILON


def most(allowed: Callable[[float], bool], high: float) -> float:
    """The largest number that is allowed, 0 if none is."""
    low = 0.0
    for _ in range(20 if allowed(high * 1e-3) else 0):
        middle = (low + high) / 2
        low, high = (middle, high) if allowed(middle) else (low, middle)
    return low


def after_look(values: np.ndarray, variance: float) -> np.ndarray:
    """The expected value after a Gaussian look, whose loss is N(variance / 2, variance)."""
    spread = math.sqrt(variance)
    half = math.ceil(9 * spread / STEP) + 2
    grid = np.arange(-half, half + 1) * STEP
    mass = np.diff(norm.cdf((np.append(grid, grid[-1] + STEP) - STEP / 2 - variance / 2) / spread))
    padded = np.concatenate([np.full(half, values[0]), values, np.full(half, values[-1])])
    return np.clip(fftconvolve(padded, mass[::-1], mode="valid"), 0, 1)


def after_training(values: np.ndarray, epsilon: float, delta: float) -> np.ndarray:
    truth = 1 / (1 + math.exp(-epsilon))
    shifted = [np.interp(LOSSES + sign * epsilon, LOSSES, values) for sign in (1, -1)]
    return delta + (1 - delta) * (truth * shifted[0] + (1 - truth) * shifted[1])


def best_delta(allowed: Rule, looks: int, own_delta: float) -> float:
    """The delta of the best adversary that takes `looks` looks and at most one training."""
    whole = most(lambda mu: allowed([], gaussian_event(1 / mu)), 3.0)
    end = np.clip(1 - np.exp(EPSILON - LOSSES), 0, None)
    if whole == 0:
        epsilon = most(lambda cost: allowed([], training(cost, own_delta)), 2 * EPSILON)
        return float(np.interp(0.0, LOSSES, after_training(end, epsilon, own_delta)))
    sizes = [0.0, *np.geomspace(0.03, 0.98, looks) * whole, whole]
    trained, free, epsilon = end, end, math.inf
    for index in range(len(sizes) - 1, -1, -1):
        current = [gaussian_event(1 / sizes[index])] if index else []
        epsilon = most(
            lambda cost, past=current: allowed(past, training(cost, own_delta)), 2 * EPSILON
        )
        if epsilon:
            rest = allowed([training(epsilon, own_delta)], gaussian_event(1 / whole))
            free = np.maximum(free, after_training(trained if rest else end, epsilon, own_delta))
        if index:
            variance = sizes[index] ** 2 - sizes[index - 1] ** 2
            trained, free = after_look(trained, variance), after_look(free, variance)
    return float(np.interp(0.0, LOSSES, free))


def test_the_adversary_passes_a_cap_whose_parts_can_be_traded():
    assert best_delta(one_total, 1, 1e-10) > 1.9 * DELTA
    assert best_delta(one_total, 8, 1e-10) > 6 * DELTA


@pytest.mark.parametrize(
    "looks",
    [1, 4, 8, pytest.param(32, marks=pytest.mark.slow), pytest.param(128, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("part", [(0.0, 0.0), (2.0, 5e-6), (1.0, 1e-9), (4.0, 1e-5)])
def test_no_adversary_passes_a_divided_cap(part, looks):
    result = best_delta(rule(part), looks, part[1] or 1e-10)
    assert result <= DELTA * (1 + 1e-3)
    if part == (0.0, 0.0):
        assert result >= 0.99 * DELTA  # Gaussian releases alone use the cap up


# --- in a ledger
@pytest.fixture
def ledger(tmp_path) -> PrivacyLedger:
    made = PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}", filter_epsilon)
    made.register("bank", "f" * 64, ["a", "b"])
    return made


def charge(event: dict) -> Charge:
    return Charge(event["type"], event, 1.0, "a test", 1.0, "record", "add_remove")


def votes(epsilon: float, delta: float = DELTA) -> Charge:
    return charge(gaussian_event(gaussian_sigma(epsilon, delta)))


def reserve(ledger: PrivacyLedger, run_id: str, *charges: Charge, delta: float = DELTA) -> None:
    ledger.reserve("bank", BudgetPlan(run_id, "wasp", delta, charges), "Ada")


def release(ledger: PrivacyLedger, run_id: str, *charges: Charge, delta: float = DELTA) -> None:
    reserve(ledger, run_id, *charges, delta=delta)
    for number, paid in enumerate(charges):
        slot = f"slot-{number}"
        ledger.release_once(
            ReleaseRequest("bank", run_id, slot, f"{run_id} {slot}", paid), lambda: b"noise"
        )
    ledger.finish("bank", run_id)


@pytest.mark.parametrize(
    "paid", [votes(EPSILON), charge(training(EPSILON, DELTA))], ids=["votes", "training"]
)
def test_one_run_uses_a_cap_of_its_size_up_exactly(ledger, paid):
    ledger.set_cap("bank", EPSILON, DELTA, "Ada", "agreed")
    release(ledger, "run-1", paid)
    assert ledger.status("bank").left == pytest.approx(0, abs=1e-6)
    assert ledger.verify("bank", second=None) == []


def test_the_first_plan_divides_the_cap_for_good(ledger):
    ledger.set_cap("bank", 2 * EPSILON, 2 * DELTA, "Ada", "agreed")
    release(ledger, "run-1", votes(1.0))
    assert ledger.status("bank").trainings == (0.0, 0.0)
    with pytest.raises(PartBudgetError) as refused:
        reserve(ledger, "run-2", charge(training(1.0, DELTA)))
    assert (refused.value.trained, refused.value.exit_code) == (True, 3)
    release(ledger, "run-3", votes(EPSILON))
    assert [entry.kind for entry in ledger.history("bank")].count("refuse") == 1


def test_a_mixed_first_plan_divides_the_cap_in_its_proportion(ledger):
    ledger.set_cap("bank", 2 * EPSILON, 2 * DELTA, "Ada", "agreed")
    plan = (charge(training(2.0, DELTA / 2)), votes(2.0, DELTA / 2))
    release(ledger, "run-1", *plan)
    assert ledger.status("bank").trainings == pytest.approx((EPSILON, DELTA))
    release(ledger, "run-2", *plan)
    with pytest.raises(BudgetError):
        reserve(ledger, "run-3", plan[0])
    release(ledger, "run-4", votes(0.5, DELTA / 2))


def test_a_plan_that_released_nothing_divides_nothing(ledger):
    ledger.set_cap("bank", EPSILON, DELTA, "Ada", "agreed")
    reserve(ledger, "run-1", votes(1.0))
    with pytest.raises(PartBudgetError):
        reserve(ledger, "run-2", charge(training(1.0, DELTA / 2)))
    ledger.finish("bank", "run-1")
    release(ledger, "run-2", charge(training(1.0, DELTA / 2)))
    assert ledger.status("bank").trainings == (EPSILON, DELTA)


def test_the_owner_divides_a_cap_before_the_first_release_and_only_enlarges_parts_after_it(ledger):
    part = (EPSILON, DELTA)
    with pytest.raises(ConfigError, match="no part of the cap"):
        ledger.set_cap("bank", EPSILON, DELTA, "Ada", "", trainings=(EPSILON + 1, DELTA))
    ledger.set_cap("bank", 2 * EPSILON, 2 * DELTA, "Ada", "agreed", trainings=part)
    release(ledger, "run-1", votes(EPSILON))
    with pytest.raises(PartBudgetError) as refused:
        reserve(ledger, "run-2", votes(1.0))
    assert refused.value.trained is False
    with pytest.raises(ConfigError, match="has releases"):
        ledger.set_cap("bank", 2 * EPSILON, 2 * DELTA, "Ada", "traded", trainings=(1.0, DELTA))
    release(ledger, "run-3", charge(training(EPSILON, DELTA)))
    ledger.set_cap("bank", 3 * EPSILON, 2 * DELTA, "Ada", "more", trainings=part)
    release(ledger, "run-4", votes(1.0))
    assert ledger.verify("bank", second=second_opinion) == []
