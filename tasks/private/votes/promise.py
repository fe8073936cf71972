"""The promise of votes: their sensitivity and scale, for a row or a person, with proofs."""

import math
from dataclasses import dataclass
from typing import Final, Literal

from tasks.accounting.composition import Adjacency
from tasks.accounting.promise import Aggregation, Protects, require

Calibration = Literal["tight", "paper"]
Paper = Literal["wasp", "pre_text"]

MOST_VOTES: Final = 32
"""Largest Q: the smallest vote is then one integer step, and sums of four million rows still fit 64 bits."""

MOST_ROWS_PER_PERSON: Final = 1024
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
        require(self.calibration in ("tight", "paper"), "calibration", "tight or paper", self.calibration)
        require(self.protects in ("record", "person"), "protects", "record or person", self.protects)
        one_row = self.protects == "person" or self.rows_per_person == 1
        require(one_row, "rows_per_person", "1, or set protects to person", self.rows_per_person)
        most = self.rows_per_person <= MOST_ROWS_PER_PERSON
        require(most, "rows_per_person", f"at most {MOST_ROWS_PER_PERSON}", self.rows_per_person)
        total_sensitivity(self)  # refuses votes, sides, neighbours and aggregations that no proof covers


def vote_sensitivity(votes: int, sides: int = 2, adjacency: Adjacency = "add_remove") -> float:
    """Return by how much one row can move the released votes.

    The L2 norm over all histograms together. One row gives 1, 1/2, ..., 2^-(Q-1) on each side, to different bins:
    sqrt(sides * 4/3 * (1 - 4^-Q)). This is WASP Theorem D.2 with the L2 norm in place of the L1 norm. Replacing a row
    costs sqrt(2) times as much, not twice: votes are never negative, and the old and the new ones cannot point in
    opposite directions.
    """
    require(1 <= votes <= MOST_VOTES, "votes", f"a whole number from 1 to {MOST_VOTES}", votes)
    require(sides in (1, 2), "sides", "1 (near) or 2 (near and far)", sides)
    require(adjacency in ("add_remove", "replace_one"), "adjacency", "add_remove or replace_one", adjacency)
    one_row = math.sqrt(sides * (4.0**votes - 1) * 4 / (3 * 4.0**votes))
    return one_row * (math.sqrt(2) if adjacency == "replace_one" else 1.0)


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
    averaged = privacy.rows_per_person if privacy.aggregation == "mean" else 1
    return vote_scale(privacy.votes, averaged)
