"""Noise of votes: sigma and the charge for the ledger.

tasks/private/votes/promise.py bounds how far votes move. tasks/accounting/composition.py adds up the cost of releases
(events, `epsilon_of`, the gate's `filter_epsilon`).
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from connectors.interfaces.ledger import ABOUT, Charge
from tasks.accounting.composition import (
    Event,
    discrete_gaussian_event,
    epsilon_of,
    gaussian_sigma,
    non_private_event,
)
from tasks.accounting.promise import require
from tasks.private.votes.promise import (
    VotePrivacy,
    person_factor,
    scale_of,
    total_sensitivity,
    vote_sensitivity,
)
from tasks.accounting.integer_noise import LEAST_SCALE_INT, least_noise, refuse_epsilon

PAPER_L1_PER_SIDE: Final = 2.0
"""The paper takes the L1 norm of one row's votes, 2 per histogram, where the L2 norm is correct (Theorem D.2)."""

PRE_TEXT_EXCESS: Final = 1.541 * math.sqrt(2)
"""Ratio of the noise that the published code of PrE-Text adds to the noise that it accounts for."""


@dataclass(frozen=True, slots=True)
class VoteNoise:
    """The noise of all votes of a run.

    `sigma` in votes (the largest single vote is 1); `scale` integer steps are one vote. `sensitivity`: the L2 distance,
    in votes, by which one record or person moves a release. `epsilon_exact`: the exact joint cost of all votes.
    """

    privacy: VotePrivacy
    sigma: float
    scale: int
    sensitivity: float
    epsilon_exact: float
    kind: ClassVar[str] = "gaussian"

    @property
    def sigma_int(self) -> float:
        """Sigma in integer steps."""
        return self.sigma * self.scale

    @property
    def noise_multiplier(self) -> float:
        """Sigma over the sensitivity."""
        return self.sigma / self.sensitivity

    @property
    def releases(self) -> int:
        """The number of votes."""
        return self.privacy.releases

    @property
    def epsilon_stated(self) -> float:
        """The requested epsilon."""
        return self.privacy.epsilon

    @property
    def delta(self) -> float:
        """Delta of the exact cost."""
        return self.privacy.delta

    @property
    def calibration(self) -> str:
        """The rule that chose sigma: "tight" or "paper"."""
        return self.privacy.calibration

    @property
    def non_private(self) -> bool:
        """True if the run gave up protection explicitly (epsilon is infinite)."""
        return math.isinf(self.epsilon_stated)

    @property
    def event(self) -> Event:
        """One release as an accounting event."""
        if self.non_private:
            return non_private_event()
        return discrete_gaussian_event(self.noise_multiplier, self.sigma_int)

    @property
    def charge(self) -> Charge:
        """One vote as a ledger charge; ConfigError if the run has no release."""
        privacy = self.privacy
        require(self.releases > 0, "releases", "at least 1 to charge for one", self.releases)
        event = {**self.event, ABOUT: {"sides": privacy.sides}}
        mechanism = "none" if self.non_private else "discrete_gaussian"
        reason = _reason(privacy)
        return Charge(mechanism, event, self.sensitivity, reason, self.sigma, privacy.protects, privacy.adjacency)


# --- noise
def calibrate(privacy: VotePrivacy) -> VoteNoise:
    """Return the least noise that keeps the promise, and its exact cost.

    "tight": the exact Gaussian closed form, widened by a millionth for the integer grid. "paper": the noise of the
    paper's own formula or code (see `_paper_sigma`). No release: epsilon 0, no noise. Infinite epsilon: no noise,
    marked non-private. Raises ConfigError if the noise has only a few integer values.
    """
    if privacy.releases == 0 or math.isinf(privacy.epsilon):
        return _noise(privacy, 0.0)
    if privacy.calibration == "paper":
        noise = _noise(privacy, _least_sigma(privacy))
        is_enough = noise.epsilon_exact <= privacy.epsilon
        require(is_enough, "calibration", "tight: the paper's formula fails here", "paper")
        return noise
    return least_noise(_least_sigma(privacy), privacy.epsilon, lambda sigma: _noise(privacy, sigma))


def signal_index(declared_rows: int, sigma: float, candidates_per_class: int, share: float = 0.03) -> float:
    """Return the ratio of a top candidate's votes to the highest bin of pure noise.

    Below 1 the votes choose at random. declared_rows * share / (sigma * sqrt(2 ln n_c)). `share`: part of all rows that
    gives a full vote to a top candidate. Only declared, public numbers enter, never a count of private rows. Infinite
    without noise.
    """
    if sigma == 0:
        return math.inf
    return declared_rows * share / (sigma * math.sqrt(2 * math.log(max(candidates_per_class, 2))))


def sides_of(event: Mapping[str, Any], reason: str) -> int:
    """Return the number of sides that records voted on in a charge.

    0 if the charge is not a vote. Ledger lines from before events had the field contain it only in the sentence
    `reason`.
    """
    if ABOUT in event:
        return int(event[ABOUT].get("sides", 0))
    sentence = re.search(r" bins on ([12]) side", reason)
    return int(sentence[1]) if sentence else 0


# --- inside
def _noise(privacy: VotePrivacy, sigma: float) -> VoteNoise:
    sensitivity = total_sensitivity(privacy)
    scale = scale_of(privacy)
    if sigma > 0:
        if sigma * scale < LEAST_SCALE_INT:
            or_inf = ", or inf for no protection"
            refuse_epsilon(privacy, lambda smaller: _least_sigma(smaller) * scale_of(smaller), or_inf)
        event = discrete_gaussian_event(sigma / sensitivity, sigma * scale, privacy.releases)
        epsilon = epsilon_of([event], privacy.delta)
    else:
        epsilon = math.inf if privacy.releases else 0.0
    return VoteNoise(privacy, sigma, scale, sensitivity, epsilon)


def _least_sigma(privacy: VotePrivacy) -> float:
    """Return the noise of a paper, or the least continuous noise, in votes."""
    if privacy.calibration == "paper":
        return _paper_sigma(privacy)
    return gaussian_sigma(privacy.epsilon, privacy.delta, total_sensitivity(privacy), privacy.releases)


def _paper_sigma(privacy: VotePrivacy) -> float:
    """Return the noise of a paper, in votes.

    WASP: its printed formula with Delta = 4 (after Theorem D.2), Delta = 2 on one side, and 1 for its baselines of one
    vote on one side. PrE-Text: the noise that it accounts for, times the factor in its code.
    """
    if privacy.paper == "pre_text":
        accounted = gaussian_sigma(privacy.epsilon, privacy.delta, total_sensitivity(privacy), privacy.releases)
        return accounted * PRE_TEXT_EXCESS
    factor = person_factor(privacy.rows_per_person, privacy.aggregation)
    factor *= math.sqrt(2) if privacy.adjacency == "replace_one" else 1.0
    spread = math.sqrt(2 * math.log(1.25 / privacy.delta)) * math.sqrt(privacy.releases)
    delta_of_vote = 1.0 if (privacy.votes, privacy.sides) == (1, 1) else PAPER_L1_PER_SIDE * privacy.sides
    return delta_of_vote * factor * spread / privacy.epsilon


def _reason(privacy: VotePrivacy) -> str:
    votes, sides = privacy.votes, privacy.sides
    one_row = vote_sensitivity(votes, sides)
    sentence = f"one row gives 1, 1/2, ... to {votes} bins on {sides} side(s), "
    sentence += f"sqrt({sides}*4/3*(1-4^-{votes})) = {one_row:.6g}"
    if privacy.adjacency == "replace_one":
        sentence += "; times sqrt(2) for replacing it"
    if privacy.protects == "person":
        rows, factor = privacy.rows_per_person, person_factor(privacy.rows_per_person, privacy.aggregation)
        sentence += f"; times {factor:.6g} for a person's {rows} row(s) joined by {privacy.aggregation}"
    return sentence
