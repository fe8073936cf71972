"""The noise of several parties against independent numbers, the exact law of its sum, and real votes."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.signal import fftconvolve
from scipy.stats import chi2

from connectors.interfaces.errors import ConfigError
from connectors.ledger.state import cost_of
from tasks.accounting.composition import epsilon_of
from tasks.private.parties.masked_vote import add_noise_share
from tasks.private.parties.promise import (
    MIN_SHARE_INT,
    Parties,
    SharedNoise,
    epsilon_left,
    guarantees,
    parties_of,
    shared_charge,
)
from tasks.private.votes.promise import VotePrivacy, calibrate, sides_of
from tests.support.data.golden import VECTORS
from tests.support.data.masked_rounds import ints

USUAL = calibrate(VotePrivacy(4, 1e-5, 4))
ALARM = 1e-6


def noise_of(number: int, minimum: int = 0, colluding: int = 0) -> SharedNoise:
    return SharedNoise(USUAL, Parties(number, minimum or number, colluding))


# --- independent numbers
def sum_excess(share_int: float, parties: int) -> float:
    """Return the bound on the log-ratio of a sum of discrete Gaussians to one (Kairouz, Liu and Steinke, Theorem 1)."""
    return 10 * math.fsum(
        math.exp(-2 * math.pi**2 * share_int**2 * k / (k + 1)) for k in range(1, parties)
    )


@pytest.mark.parametrize(
    "row", VECTORS["federated_dropout"]["rows"], ids=lambda row: str(list(row.values()))
)
def test_epsilon_with_parties_that_collude_is_the_known_one(row: dict[str, Any]):
    result = epsilon_left(noise_of(row["L"]), row["L"] - row["missing_or_colluding"])
    # The grid of the integers is counted on top: 2 in a million at 16.
    assert result == pytest.approx(row["eps"], abs=VECTORS["federated_dropout"]["tol"], rel=2e-6)


def test_a_sum_of_the_smallest_share_is_one_gaussian_to_sixty_digits():
    assert sum_excess(MIN_SHARE_INT, 150) < 1e-60


def mass(sigma: float, reach: int) -> Any:
    support = np.arange(-reach, reach + 1)
    weights = np.exp(-(support.astype(float) ** 2) / (2 * sigma**2))
    return weights / weights.sum()


@pytest.mark.statistical
def test_the_sum_of_real_shares_follows_the_exact_convolution():
    number, parties = 40_000, 5
    noise = SharedNoise(calibrate(VotePrivacy(8, 1e-5, 4, votes=1)), Parties(parties, parties))
    drawn = sum(add_noise_share(ints(np.zeros(number)), noise) for _ in range(parties))
    reach = math.ceil(10 * noise.share_int)
    exact = mass(noise.share_int, reach)
    for _ in range(parties - 1):
        exact = fftconvolve(exact, mass(noise.share_int, reach))
    exact = np.clip(exact, 0, None) / exact.clip(0).sum()
    edges = np.unique(np.searchsorted(np.cumsum(exact), np.linspace(0, 1, 60)[1:-1]))
    observed = np.bincount(
        np.searchsorted(edges, drawn + parties * reach), minlength=len(edges) + 1
    )
    expected = number * np.add.reduceat(exact, np.concatenate([[0], edges + 1]))
    assert chi2.sf(float(((observed - expected) ** 2 / expected).sum()), len(edges)) > ALARM
    assert drawn.std() == pytest.approx(noise.total.sigma_int, rel=0.03)


# --- shares
def test_shares_are_wider_by_what_may_collude_or_drop_out():
    assert noise_of(10).share_int == pytest.approx(USUAL.sigma_int / math.sqrt(10))
    assert noise_of(10, minimum=8, colluding=3).share_int == pytest.approx(
        USUAL.sigma_int / math.sqrt(5)
    )
    assert noise_of(10, minimum=8, colluding=3).sum_int(8) == pytest.approx(
        USUAL.sigma_int * math.sqrt(8 / 5)
    )


@pytest.mark.parametrize(("minimum", "colluding"), [(10, 0), (10, 3), (7, 2), (2, 1)])
def test_the_promise_holds_for_every_number_of_parties_and_colluders_that_is_stated(
    minimum: int, colluding: int
):
    noise = noise_of(10, minimum, colluding)
    for taking_part in range(minimum, 11):
        for liars in range(taking_part):
            left = taking_part - liars
            holds = epsilon_left(noise, left) <= USUAL.privacy.epsilon
            assert holds or liars > colluding
            assert holds is (left >= noise.parties.bearers)
    assert epsilon_left(noise, minimum - colluding) == pytest.approx(USUAL.epsilon_exact, rel=1e-9)


def test_the_table_goes_from_nobody_to_all_but_one():
    table = guarantees(noise_of(150, colluding=20))
    assert [entry["colluding"] for entry in table] == [0, 1, 2, 3, 5, 20, 21, 149]
    assert [entry["promised"] for entry in table] == [True] * 6 + [False] * 2
    assert [entry["epsilon"] for entry in table] == sorted(entry["epsilon"] for entry in table)
    assert [entry["colluding"] for entry in guarantees(noise_of(2))] == [0, 1]
    alone = guarantees(noise_of(150))[-1]
    assert alone["epsilon"] == pytest.approx(111.6, abs=0.1)


def test_parties_that_cannot_keep_the_promise_are_refused():
    for numbers in ((1, 1, 0), (3, 4, 0), (3, 1, 0), (3, 2, 2), (3, 3, -1)):
        with pytest.raises(ConfigError, match="Write"):
            Parties(*numbers)


def test_shares_of_too_few_steps_are_refused():
    narrow = calibrate(VotePrivacy(60, 1e-5, 1, votes=1, sides=1))
    with pytest.raises(ConfigError, match="integer steps, below 4"):
        SharedNoise(narrow, Parties(150, 150))


# --- the book
def test_a_release_is_charged_as_a_central_one_with_the_same_promise():
    noise = noise_of(10, colluding=3)
    charge, central = shared_charge(noise), USUAL.charge
    assert cost_of(charge.event) == cost_of(central.event) == cost_of(USUAL.event)
    for field in ("mechanism", "noise_scale", "sensitivity"):
        assert getattr(charge, field) == getattr(central, field)
    assert parties_of(charge.event, "") == Parties(10, 10, 3)
    assert parties_of(central.event, "") is None
    assert sides_of(charge.event, "") == sides_of(central.event, "") == 2
    # Ledger lines of earlier versions state both in the sentence alone.
    assert parties_of(USUAL.event, charge.sensitivity_reason) == Parties(10, 10, 3)
    assert parties_of(USUAL.event, central.sensitivity_reason) is None
    assert sides_of(USUAL.event, charge.sensitivity_reason) == 2
    assert "10 parties' votes" in charge.sensitivity_reason
    assert "up to 3 of the parties" in charge.sensitivity_reason
    assert epsilon_of([USUAL.event] * 4, 1e-5) <= 4


def test_no_noise_means_no_protection_in_the_book():
    plain = SharedNoise(calibrate(VotePrivacy(math.inf, 1e-5, 4)), Parties(3, 3))
    assert shared_charge(plain).mechanism == "none"
    assert guarantees(plain)[0] == {"colluding": 0, "epsilon": None, "promised": False}
    assert add_noise_share(ints([5, 6]), plain).tolist() == [5, 6]
