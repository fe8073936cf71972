"""The noise of one released density: one sum of features per class.

The release serves all rounds and later runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from connectors.interfaces.ledger import Charge
from tasks.accounting.composition import discrete_gaussian_event, epsilon_of, gaussian_sigma
from tasks.accounting.sensitivity import VotePrivacy, need
from tasks.accounting.votes import LEAST_SIGMA_INT, Noise

COUNTING: Final = 0.1
"""Part of a row's squared length in its constant feature."""

FEATURE_STEPS: Final = 2**14
"""Integer steps of a feature; features are truncated to whole steps, which makes no vector longer."""


@dataclass(frozen=True, slots=True)
class GuidanceNoise(Noise):
    """The noise of a density.

    `sigma` and `sensitivity` are in units of features, which have a length of at most 1 per row.
    """

    @property
    def charge(self) -> Charge:
        """The release as a ledger charge."""
        return Charge(
            mechanism="none" if self.non_private else "discrete_gaussian",
            event=self.event,
            sensitivity=self.sensitivity,
            sensitivity_reason=_reason(self.privacy),
            noise_scale=self.sigma,
            protects=self.privacy.protects,
            adjacency=self.privacy.adjacency,
        )


def density_sensitivity(privacy: VotePrivacy) -> float:
    """Return the L2 distance by which one row or person moves the sums of all classes.

    A row adds its features, whose length is at most 1, to the sum of its class and nothing to the others. Features
    are truncated towards zero to whole steps, which only shortens them: 1. A person adds the average of their rows'
    features, over all classes, which is no longer than the longest: 1.

    Replacing a row by one of another class moves two sums by at most 1 each: sqrt(2). In the same class the constant
    features of both rows cancel, because they are equal integers, and the rest of each is no longer than sqrt(1 - s),
    with s = COUNTING: 2 sqrt(1 - s), which is larger. The bound of a row that adds nothing is 1. Replacing a person: 2,
    because truncation of averages can leave different constants.
    """
    if privacy.adjacency != "replace_one":
        return 1.0
    return 2.0 if privacy.protects == "person" else max(2 * math.sqrt(1 - COUNTING), math.sqrt(2))


def calibrate_density(privacy: VotePrivacy) -> GuidanceNoise:
    """Return the least noise for the promise with one release, and its exact cost.

    Infinite epsilon: no noise, marked non-private. Raises ConfigError for numbers that promise nothing, for any
    calibration other than "tight", and where persons' rows are not averaged.
    """
    need(privacy.epsilon > 0, "epsilon", "a positive number, or inf", privacy.epsilon)
    need(0 < privacy.delta < 1, "delta", "a number between 0 and 1", privacy.delta)
    need(privacy.calibration == "tight", "calibration", "tight: no paper releases this density", privacy.calibration)
    averaged = privacy.protects == "record" or privacy.aggregation == "mean"
    need(averaged, "joined_by", "mean: a person adds the average of their rows", privacy.aggregation)
    sensitivity = density_sensitivity(privacy)
    if math.isinf(privacy.epsilon):
        return _noise(privacy, 0.0, math.inf)
    least, widening = gaussian_sigma(privacy.epsilon, privacy.delta, sensitivity), 1e-6
    while True:
        sigma = least * (1 + widening)
        need(sigma * FEATURE_STEPS >= LEAST_SIGMA_INT, "epsilon", "a smaller number, or inf", privacy.epsilon)
        exact = epsilon_of([discrete_gaussian_event(sigma / sensitivity, sigma * FEATURE_STEPS)], privacy.delta)
        if exact <= privacy.epsilon:
            return _noise(privacy, sigma, exact)
        widening *= 2


def describe_density(noise: GuidanceNoise) -> str:
    """Describe the release in a sentence."""
    how = "without noise" if noise.non_private else f"with integer Gaussian noise, sigma {noise.sigma:.4f}"
    return (
        f"one sum of features per class, {how}; one {noise.privacy.protects} moves all of them together by at most "
        f"{noise.sensitivity:g} (L2); it serves every round"
    )


def _noise(privacy: VotePrivacy, sigma: float, exact: float) -> GuidanceNoise:
    sensitivity = density_sensitivity(privacy)
    return GuidanceNoise(
        privacy=privacy,
        sigma=sigma,
        sigma_int=sigma * FEATURE_STEPS,
        scale=FEATURE_STEPS,
        sensitivity=sensitivity,
        noise_multiplier=sigma / sensitivity,
        releases=1,
        epsilon_stated=privacy.epsilon,
        epsilon_exact=exact,
        delta=privacy.delta,
        calibration=privacy.calibration,
    )


def _reason(privacy: VotePrivacy) -> str:
    if privacy.protects == "person":
        what = f"one person adds the average features of at most {privacy.rows_per_person} row(s), over all classes"
    else:
        what = "one row adds its features to the sum of its class"
    if privacy.adjacency != "replace_one":
        return f"{what}: no longer than 1 (L2)"
    moved = "replacing it moves as much again" if privacy.protects == "person" else "the constants of two rows cancel"
    return f"{what}: no longer than 1 (L2); {moved}: {density_sensitivity(privacy):.4f}"
