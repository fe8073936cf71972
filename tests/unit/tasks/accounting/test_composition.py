"""Cost of releases together: limits, order, trade-off curves, and identities of the golden vectors."""

import math
from pathlib import Path
from typing import Any

import dp_accounting
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.interfaces.errors import LedgerError
from connectors.interfaces.ledger import BudgetPlan, Charge, ReleaseRequest
from connectors.ledger.ledger import PrivacyLedger
from tasks.accounting.composition import (
    discrete_gaussian_event,
    discrete_laplace_event,
    epsilon_of,
    filter_epsilon,
    gaussian_epsilon,
    mu_of,
    mu_of_pure,
    non_private_event,
    second_opinion,
)
from tests.support.data.golden import rows
from tests.support.ledgers import gaussian_event, laplace_event

SEVERAL = st.lists(
    st.one_of(
        st.builds(gaussian_event, st.floats(0.5, 50), st.integers(1, 9)),
        st.builds(
            discrete_gaussian_event, st.floats(0.5, 50), st.floats(100, 5000), st.integers(1, 9)
        ),
        st.builds(laplace_event, st.floats(0.01, 2), st.integers(1, 9)),
        st.builds(discrete_laplace_event, st.floats(0.01, 2), st.integers(1, 9)),
    ),
    min_size=1,
    max_size=6,
)


def test_no_release_costs_nothing_and_a_non_private_one_everything():
    for cost in (epsilon_of, filter_epsilon):
        assert cost([], 1e-5) == 0
        assert cost([gaussian_event(2, count=0)], 1e-5) == 0
        assert cost([gaussian_event(2), non_private_event()], 1e-5) == math.inf


@settings(deadline=None, max_examples=50)
@given(events=SEVERAL, last=SEVERAL, delta=st.sampled_from([1e-3, 1e-5, 1e-8]))
def test_the_gate_only_ever_rises_and_forgets_the_order(events: Any, last: Any, delta: float):
    before, after = filter_epsilon(events, delta), filter_epsilon(events + last, delta)
    assert 0 <= before <= after
    assert filter_epsilon((events + last)[::-1], delta) == pytest.approx(after, rel=1e-12)
    assert filter_epsilon(events, delta / 10) >= before


@settings(deadline=None, max_examples=50)
@given(multiplier=st.floats(0.5, 50), sigma=st.floats(100, 5000), count=st.integers(1, 20))
def test_a_count_equals_that_many_events(multiplier: float, sigma: float, count: int):
    many = filter_epsilon([discrete_gaussian_event(multiplier, sigma)] * count, 1e-5)
    assert filter_epsilon(
        [discrete_gaussian_event(multiplier, sigma, count)], 1e-5
    ) == pytest.approx(many, rel=1e-12)


def test_the_epsilon_of_integer_laplace_noise_is_the_worst_of_its_pure_epsilon():
    """An integer mechanism of that epsilon may have two losses only; continuous Laplace noise would cost 2.99."""
    assert epsilon_of([discrete_laplace_event(0.3, 10)], 1e-5) == pytest.approx(2.9974, abs=2e-4)


def test_equal_releases_without_gaussian_noise_compose_together():
    single = [laplace_event(0.1), discrete_laplace_event(0.2), gaussian_event(30.0)]
    counted = [laplace_event(0.1, 60), discrete_laplace_event(0.2, 60), gaussian_event(30.0, 60)]
    assert second_opinion(single * 60, 1e-5) == pytest.approx(
        second_opinion(counted, 1e-5), rel=1e-14
    )


def test_gaussian_releases_cost_the_same_in_report_and_gate():
    events = [gaussian_event(2.0, 4), discrete_gaussian_event(3.0, 450, 2)]
    assert epsilon_of(events, 1e-5) == filter_epsilon(events, 1e-5)


def test_the_gate_never_states_less_than_the_numeric_composition():
    for events in (
        [laplace_event(1), gaussian_event(0.9)],
        [laplace_event(0.1, 30)],
        [laplace_event(2, 3)],
    ):
        assert filter_epsilon(events, 1e-5) >= epsilon_of(events, 1e-5)


def test_integer_noise_is_never_stated_cheaper_than_it_is():
    for row in rows("discrete_gaussian_topq"):
        multiplier = row["sigma_int"] / math.sqrt(row["sensitivity_sq_int"])
        event = discrete_gaussian_event(multiplier, row["sigma_int"], row["k"])
        # 6e-7 is the disagreement of the two routes to the expected number.
        assert epsilon_of([event], row["delta"]) >= row["eps_exact"] - 6e-7
        assert epsilon_of([event], row["delta"]) == pytest.approx(row["eps_exact"], abs=0.03)


@pytest.mark.parametrize("sigma", [1.0, 1.5, 3.0, 10.0])
@pytest.mark.parametrize("count", [1, 4])
def test_unscaled_counts_are_never_stated_cheaper_than_they_are(sigma: float, count: int):
    from dp_accounting.pld import privacy_loss_distribution as pld

    exact = pld.from_discrete_gaussian_mechanism(sigma, 1, use_connect_dots=True).self_compose(
        count
    )
    stated = epsilon_of(
        [{"type": "discrete_gaussian", "noise_multiplier": sigma, "count": count}], 1e-5
    )
    assert stated >= exact.get_epsilon_for_delta(1e-5) - 1e-6


@pytest.mark.parametrize("epsilon", [0.001, 0.1, 1.0, 5.0, 20.0])
def test_the_gaussian_that_replaces_pure_privacy_is_weaker_everywhere(epsilon: float):
    from scipy.special import ndtr, ndtri

    mu = mu_of_pure(epsilon)
    false_alarm = np.linspace(1e-9, 1 - 1e-9, 20001)
    pure = np.maximum.reduce(
        [0 * false_alarm, 1 - np.exp(epsilon) * false_alarm, np.exp(-epsilon) * (1 - false_alarm)]
    )
    assert (ndtr(ndtri(1 - false_alarm) - mu) <= pure + 1e-12).all()
    corner = 1 / (1 + math.exp(epsilon))
    assert ndtr(ndtri(1 - corner) - mu) == pytest.approx(corner, rel=1e-9)


@pytest.mark.parametrize(
    "event",
    [
        {"type": "geometric", "epsilon": 1},
        {},
        {"type": "gaussian"},
        {"type": "gaussian", "noise_multiplier": 0},
        {"type": "gaussian", "noise_multiplier": math.nan},
        {"type": "gaussian", "noise_multiplier": 1, "count": -1},
        {"type": "gaussian", "noise_multiplier": 1, "count": 1.5},
        {"type": "laplace", "epsilon": math.inf},
        {"type": "discrete_gaussian", "noise_multiplier": 0.5, "sigma_int": 0.5},
    ],
)
def test_an_event_that_is_not_understood_closes_the_gate(event: dict[str, Any]):
    for cost in (epsilon_of, filter_epsilon):
        with pytest.raises(LedgerError):
            cost([event], 1e-5)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, math.nan])
def test_a_delta_outside_zero_and_one_closes_the_gate(delta: float):
    with pytest.raises(LedgerError, match="delta"):
        filter_epsilon([gaussian_event(1)], delta)


def test_integer_laplace_noise_is_counted_as_the_worst_of_its_epsilon():
    from dp_accounting.pld import privacy_loss_distribution as losses

    for scale, sensitivity in ((1.0, 1), (2.5, 10), (400.0, 100)):
        epsilon = sensitivity / scale
        for count in (1, 4):
            exact = losses.from_discrete_laplace_mechanism(1 / scale, sensitivity).self_compose(
                count
            )
            counted = epsilon_of([discrete_laplace_event(epsilon, count)], 1e-5)
            assert exact.get_epsilon_for_delta(1e-5) <= counted + 2e-4 * count
            assert counted <= count * epsilon + 2e-4 * count
            assert (
                counted
                <= filter_epsilon([discrete_laplace_event(epsilon, count)], 1e-5) + 2e-4 * count
            )


@pytest.mark.parametrize("delta", [1e-12, 1e-9, 1e-5, 0.01])
@pytest.mark.parametrize("mu", [1e-4, 0.02, 0.3, 1.5, 20.0])
def test_the_closed_form_is_that_of_dp_accounting(mu: float, delta: float) -> None:
    assert gaussian_epsilon(mu, delta) == pytest.approx(
        dp_accounting.get_epsilon_gaussian(1 / mu, delta), abs=1e-11
    )


@pytest.mark.parametrize("delta", [1e-12, 1e-11, 1e-5])
@pytest.mark.parametrize("epsilon", [0.002, 0.05, 4.0])
def test_a_sound_total_verifies_at_every_epsilon_and_delta_and_one_that_is_too_small_does_not(
    tmp_path: Path, epsilon: float, delta: float
) -> None:
    multiplier = 1 / mu_of(epsilon, delta)
    paid = Charge(
        "gaussian",
        discrete_gaussian_event(multiplier, 4000 * multiplier),
        1.0,
        "",
        multiplier,
        "record",
        "add_remove",
    )

    def verified(name: str, part: float) -> list[str]:
        ledger = PrivacyLedger(
            f"sqlite:///{tmp_path / name}.db",
            lambda events, delta: part * filter_epsilon(events, delta),
        )
        ledger.register("notes", "f" * 64, ["a"])
        ledger.reserve("notes", BudgetPlan("run", "wasp", delta, (paid,)), "me")
        ledger.release_once(ReleaseRequest("notes", "run", "vote-0", "key", paid), lambda: b"noise")
        return ledger.verify("notes", second=second_opinion)

    assert verified("sound", 1.0) == []
    assert "second accountant" in "".join(verified("understated", 1 - 1e-3))


def test_loss_distributions_overstate_a_tiny_delta_and_end_below_it() -> None:
    from dp_accounting import pld

    def numeric(delta: float) -> float:
        accountant = pld.PLDAccountant().compose(dp_accounting.GaussianDpEvent(1.0))
        return float(accountant.get_epsilon(delta))

    exact = gaussian_epsilon(1.0, 1e-14)
    assert numeric(1e-14) == pytest.approx(exact + 0.0031, abs=1e-4)
    assert numeric(1e-16) == math.inf
    assert gaussian_epsilon(1.0, 1e-16) == pytest.approx(8.45195, abs=1e-5)


def test_integer_noise_can_cost_less_than_continuous_noise_and_more_on_a_sample() -> None:
    from dp_accounting.pld import privacy_loss_distribution as losses

    def epsilons(sample_rate: float) -> tuple[float, float]:
        integer = losses.from_discrete_gaussian_mechanism(0.5, 1, sampling_prob=sample_rate)
        continuous = losses.from_gaussian_mechanism(0.5, sampling_prob=sample_rate)
        return integer.get_epsilon_for_delta(1e-5), continuous.get_epsilon_for_delta(1e-5)

    assert epsilons(1.0) == pytest.approx((9.961, 9.997), abs=1e-3)
    assert epsilons(0.1) == pytest.approx((7.222, 6.576), abs=1e-3)
    # Integer noise is never stated cheaper because of a sample.
    event = discrete_gaussian_event(2.0, 2.0)
    assert epsilon_of([event | {"sample_rate": 0.1}], 1e-5) == epsilon_of([event], 1e-5)
