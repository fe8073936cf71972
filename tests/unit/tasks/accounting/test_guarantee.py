"""A guarantee composes the costs of its releases once, and its promise checks itself."""

import math
from dataclasses import dataclass, replace
from typing import Any

import pytest

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.ledger import Charge
from tasks.accounting.composition import epsilon_of, non_private_event
from tasks.accounting.guarantee import ROUNDING, Guarantee, finite, no_release
from tasks.accounting.integer_noise import calibrate_sums
from tasks.accounting.promise import Promise
from tasks.private.density.promise import DensityPrivacy
from tasks.private.phrases.promise import PartPrivacy
from tasks.private.teachers.promise import TeacherPrivacy
from tasks.private.training.promise import Training, calibrate_training
from tasks.private.votes.promise import VotePrivacy, calibrate

PROMISE = Promise(4.0, 1e-5)


@dataclass(frozen=True)
class Drawn:
    """A release with `times` equal charges."""

    noise: Any
    times: int = 1

    def charges(self) -> tuple[Charge, ...]:
        return (self.noise.charge,) * self.times


@dataclass(frozen=True)
class Exposed:
    """A use of private records without noise."""

    noise: None = None

    def charges(self) -> tuple[Charge, ...]:
        return (
            Charge(
                "none", non_private_event(), 0.0, "nothing bounds it", 0.0, "record", "add_remove"
            ),
        )


def votes(epsilon: float = 2.0, releases: int = 3) -> Drawn:
    return Drawn(calibrate(VotePrivacy(epsilon, 1e-5, releases)), releases)


def counts(epsilon: float = 0.4) -> Drawn:
    return Drawn(calibrate_sums(TeacherPrivacy("labels", epsilon, 1e-5, 1)))


def test_the_cost_of_one_release_is_its_own_and_of_several_their_composition() -> None:
    alone = Guarantee(PROMISE, (votes(),))
    assert alone.epsilon_exact == votes().noise.epsilon_exact <= 2.0
    both = Guarantee(PROMISE, (counts(), votes()))
    assert both.epsilon_exact == epsilon_of([charge.event for charge in both.charges], 1e-5)
    assert both.epsilon_exact > alone.epsilon_exact
    assert len(both.charges) == 4


def test_a_training_costs_what_the_larger_of_two_accountants_says() -> None:
    training = Drawn(calibrate_training(Training(30, 50, 500), 4.0, 1e-5))
    assert Guarantee(PROMISE, (training,)).epsilon_exact == training.noise.epsilon_exact


def test_the_error_of_numerical_composition_is_no_excess() -> None:
    both = Guarantee(PROMISE, (counts(), votes()))
    exact = both.epsilon_exact
    stated = exact / (1 + ROUNDING / 2)
    assert replace(both, promise=replace(PROMISE, epsilon=stated)).epsilon_exact == stated
    assert replace(both, promise=replace(PROMISE, epsilon=exact / 1.01)).epsilon_exact == exact


def test_an_exposure_costs_infinity_and_no_release_nothing() -> None:
    exposed = Guarantee(Promise(math.inf, 1e-5), (Exposed(),))
    assert (exposed.epsilon_exact, exposed.non_private, finite(exposed.epsilon_exact)) == (
        math.inf,
        True,
        None,
    )
    closed = no_release()
    assert (closed.epsilon_exact, closed.non_private, closed.charges) == (0.0, False, ())
    assert (
        exposed.shown_noise
        == closed.shown_noise
        == {
            "sensitivity": 0.0,
            "calibration": "none",
            "sigma": 0.0,
            "noise_multiplier": 0.0,
        }
    )


def test_plan_and_tracking_show_the_noise_of_the_last_release() -> None:
    both = Guarantee(PROMISE, (counts(), votes()))
    noise = votes().noise
    assert both.noise == noise
    assert both.shown_noise["sigma"] == noise.sigma
    assert both.shown_noise["noise_multiplier"] == noise.sigma / noise.sensitivity
    assert both.of(Drawn) == counts(), "the first of a kind"
    assert both.of(Exposed) is None
    assert Guarantee(PROMISE, (counts(),)).of(Exposed) is None


def test_the_protected_unit_is_stated_with_its_records() -> None:
    assert PROMISE.unit == "record"
    person = replace(PROMISE, protects="person", rows_per_person=8, aggregation="mean")
    assert person.unit == "person (at most 8 rows of each, joined by mean)"


@pytest.mark.parametrize(
    "promise",
    [
        lambda: Promise(-1.0, 1e-5),
        lambda: Promise(math.nan, 1e-5),
        lambda: Promise(1.0, 1.0),
        lambda: VotePrivacy(0.0, 1e-5, 1),
        lambda: VotePrivacy(1.0, 0.0, 1),
        lambda: VotePrivacy(1.0, 1e-5, 1, votes=33),
        lambda: VotePrivacy(1.0, 1e-5, 1, rows_per_person=2),
        lambda: DensityPrivacy(0.0, 1e-5),
        lambda: DensityPrivacy(1.0, 1e-5, rows_per_person=0),
        lambda: PartPrivacy("density", math.inf),
        lambda: PartPrivacy("vocabulary", 1.0, terms=0),
        lambda: TeacherPrivacy("labels", math.inf, 1e-5, 1),
        lambda: TeacherPrivacy("answers", 1.0, 1e-5, 0),
    ],
)
def test_a_promise_of_nothing_cannot_be_made(promise: Any) -> None:
    with pytest.raises(ConfigError, match=r"^privacy\.\w+: .* is not allowed\. Write "):
        promise()
