"""The promise of votes: sensitivity, scale and noise for a row or a person, with proofs, and the charge of a vote.

tasks/accounting/composition.py adds up the cost of releases (events, `epsilon_of`, the cap check's `filter_epsilon`).
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from connectors.interfaces.ledger import ABOUT, Charge
from tasks.accounting.composition import (
    Adjacency,
    Event,
    discrete_gaussian_event,
    epsilon_of,
    gaussian_sigma,
    non_private_event,
)
from tasks.accounting.integer_noise import MIN_SCALE_INT, least_noise, refuse_epsilon
from tasks.accounting.promise import Aggregation, Protects, require

Calibration = Literal["tight", "paper"]
Paper = Literal["wasp", "pre_text"]

MAX_VOTES: Final = 32
"""Largest Q: the smallest vote is then one integer step, and sums of four million rows still fit 64 bits."""

MAX_ROWS_PER_PERSON: Final = 1024
"""Largest m: averages over more rows would not fit 64 bits."""


@dataclass(frozen=True, slots=True)
class VotePrivacy:
    """The privacy promise of all votes of a run; every number is public.

    `epsilon`, `delta`: for all votes together; infinite epsilon means no protection. `releases`: number of votes, T-1.
    `votes`: Q, candidates each row votes for on each side. `sides`: 2 for near and far, 1 for near only.
    `protects`: one record (row), or one person with at most `rows_per_person` rows joined by `aggregation`.
    `paper`: the paper whose noise the calibration "paper" uses. Raises ConfigError for numbers that promise nothing.
    """

    epsilon: float
    delta: float
    releases: int
    votes: int = 8
    sides: int = 2
    adjacency: Adjacency = "add_remove"
    protects: Protects = "record"
    rows_per_person: int = 1
    aggregation: Aggregation = "max"
    calibration: Calibration = "tight"
    paper: Paper = "wasp"

    def __post_init__(self) -> None:
        require(self.epsilon > 0, "epsilon", "a positive number, or inf", self.epsilon)
        require(0 < self.delta < 1, "delta", "a number between 0 and 1", self.delta)
        require(self.releases >= 0, "releases", "a whole number from 0", self.releases)
        require(
            self.calibration in ("tight", "paper"),
            "calibration",
            "tight or paper",
            self.calibration,
        )
        require(
            self.protects in ("record", "person"), "protects", "record or person", self.protects
        )
        one_row = self.protects == "person" or self.rows_per_person == 1
        require(one_row, "rows_per_person", "1, or set protects to person", self.rows_per_person)
        most = self.rows_per_person <= MAX_ROWS_PER_PERSON
        require(most, "rows_per_person", f"at most {MAX_ROWS_PER_PERSON}", self.rows_per_person)
        # Refuses votes, sides, neighbours and aggregations that no proof covers.
        total_sensitivity(self)


def vote_sensitivity(votes: int, sides: int = 2, adjacency: Adjacency = "add_remove") -> float:
    """Return by how much one row can move the released votes.

    The L2 norm over all histograms together. One row gives 1, 1/2, ..., 2^-(Q-1) on each side, to different bins:
    sqrt(sides * 4/3 * (1 - 4^-Q)). This is WASP Theorem D.2 with the L2 norm in place of the L1 norm. Replacing a row
    costs sqrt(2) times as much, not twice: votes are never negative, and the old and the new ones cannot point in
    opposite directions.
    """
    require(1 <= votes <= MAX_VOTES, "votes", f"a whole number from 1 to {MAX_VOTES}", votes)
    require(sides in (1, 2), "sides", "1 (near) or 2 (near and far)", sides)
    require(
        adjacency in ("add_remove", "replace_one"),
        "adjacency",
        "add_remove or replace_one",
        adjacency,
    )
    one_row = math.sqrt(sides * (4.0**votes - 1) * 4 / (3 * 4.0**votes))
    if adjacency == "replace_one":
        return math.sqrt(2) * one_row
    return one_row


def person_factor(rows_per_person: int, aggregation: Aggregation) -> float:
    """Return the ratio of a person's sensitivity to a row's.

    sum: m, reached by m equal rows. max: sqrt(m), because per bin max(a_j)^2 <= sum of a_j^2. mean: 1, because an
    average is no longer than the longest row, and rounding it down to whole steps only shortens it.
    """
    require(rows_per_person >= 1, "rows_per_person", "a whole number from 1", rows_per_person)
    factors = {"sum": float(rows_per_person), "max": math.sqrt(rows_per_person), "mean": 1.0}
    require(aggregation in factors, "aggregation", "sum, max or mean", aggregation)
    return factors[aggregation]


def vote_scale(votes: int, shared_by: int = 1) -> int:
    """Return the number of integer steps of one vote.

    2^(Q-1), at least 128, times a power of two of at least `shared_by`. The smallest vote, or its share where
    `shared_by` rows are averaged, is then about a whole step. The noise spans so many steps that its grid costs
    nothing.
    """
    return max(1 << (votes - 1), 128) << (shared_by - 1).bit_length()


def total_sensitivity(privacy: VotePrivacy) -> float:
    """Return the L2 sensitivity, in votes, of all bins of a release together.

    `person_factor` holds for any non-negative bins, joined bin by bin.
    """
    one_row = vote_sensitivity(privacy.votes, privacy.sides, privacy.adjacency)
    return one_row * person_factor(privacy.rows_per_person, privacy.aggregation)


def scale_of(privacy: VotePrivacy) -> int:
    """Return the integer steps of one vote in a run."""
    # An average divides votes by up to m, so its steps are finer.
    if privacy.aggregation == "mean":
        return vote_scale(privacy.votes, privacy.rows_per_person)
    return vote_scale(privacy.votes)


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
        mechanism = "discrete_gaussian"
        if self.non_private:
            mechanism = "none"
        reason = _reason(privacy)
        return Charge(
            mechanism,
            event,
            self.sensitivity,
            reason,
            self.sigma,
            privacy.protects,
            privacy.adjacency,
        )


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


def signal_index(
    declared_rows: int, sigma: float, candidates_per_class: int, share: float = 0.03
) -> float:
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
    if sentence is None:
        return 0
    return int(sentence[1])


# --- inside
def _noise(privacy: VotePrivacy, sigma: float) -> VoteNoise:
    sensitivity = total_sensitivity(privacy)
    scale = scale_of(privacy)
    if privacy.releases == 0:
        return VoteNoise(privacy, sigma, scale, sensitivity, 0.0)
    if sigma == 0:
        return VoteNoise(privacy, sigma, scale, sensitivity, math.inf)
    if sigma * scale < MIN_SCALE_INT:
        or_inf = ", or inf for no protection"
        refuse_epsilon(privacy, lambda smaller: _least_sigma(smaller) * scale_of(smaller), or_inf)
    event = discrete_gaussian_event(sigma / sensitivity, sigma * scale, privacy.releases)
    epsilon = epsilon_of([event], privacy.delta)
    return VoteNoise(privacy, sigma, scale, sensitivity, epsilon)


def _least_sigma(privacy: VotePrivacy) -> float:
    """Return the noise of a paper, or the least continuous noise, in votes."""
    if privacy.calibration == "paper":
        return _paper_sigma(privacy)
    return gaussian_sigma(
        privacy.epsilon, privacy.delta, total_sensitivity(privacy), privacy.releases
    )


def _paper_sigma(privacy: VotePrivacy) -> float:
    """Return the noise of a paper, in votes.

    WASP: its printed formula with Delta = 4 (after Theorem D.2), Delta = 2 on one side, and 1 for its baselines of one
    vote on one side. PrE-Text: the noise that it accounts for, times the factor in its code.
    """
    if privacy.paper == "pre_text":
        accounted = gaussian_sigma(
            privacy.epsilon, privacy.delta, total_sensitivity(privacy), privacy.releases
        )
        return accounted * PRE_TEXT_EXCESS
    factor = person_factor(privacy.rows_per_person, privacy.aggregation)
    if privacy.adjacency == "replace_one":
        factor *= math.sqrt(2)
    spread = math.sqrt(2 * math.log(1.25 / privacy.delta)) * math.sqrt(privacy.releases)
    delta_of_vote = PAPER_L1_PER_SIDE * privacy.sides
    if (privacy.votes, privacy.sides) == (1, 1):
        delta_of_vote = 1.0
    return delta_of_vote * factor * spread / privacy.epsilon


def _reason(privacy: VotePrivacy) -> str:
    votes = privacy.votes
    sides = privacy.sides
    one_row = vote_sensitivity(votes, sides)
    sentence = f"one row gives 1, 1/2, ... to {votes} bins on {sides} side(s), "
    sentence += f"sqrt({sides}*4/3*(1-4^-{votes})) = {one_row:.6g}"
    if privacy.adjacency == "replace_one":
        sentence += "; times sqrt(2) for replacing it"
    if privacy.protects == "person":
        rows = privacy.rows_per_person
        factor = person_factor(privacy.rows_per_person, privacy.aggregation)
        sentence += (
            f"; times {factor:.6g} for a person's {rows} row(s) joined by {privacy.aggregation}"
        )
    return sentence
