"""How far one row, or one person, can move the votes of a release: sensitivity and scale, with their proofs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, Literal

from connectors.interfaces.errors import ConfigError
from tasks.accounting.composition import Adjacency

Aggregation = Literal["sum", "max", "mean"]
Protects = Literal["record", "person"]
Calibration = Literal["tight", "paper"]
Paper = Literal["wasp", "pre_text"]

MOST_VOTES: Final = 32
"""Largest Q: with it the smallest vote is one integer step and sums still fit 64 bits for four million rows."""

MOST_ROWS_PER_PERSON: Final = 1024
"""Largest m: averages over more rows would leave 64 bits."""

MOST_CHOICE_SHARE: Final = 0.5
"""Largest part of a release's loss that first choices may have; the votes are what it is made for."""


@dataclass(frozen=True, slots=True)
class VotePrivacy:
    """What a run promises about its votes; every number is public.

    `epsilon`, `delta`: for the whole run; infinite epsilon means no protection. `releases`: votes that happen, T-1.
    `votes`: Q, candidates each row votes for on each side. `sides`: 2 for near and far, 1 for near only.
    `protects`: one record (row), or one person with at most `rows_per_person` rows joined by `aggregation`.
    `paper`: whose noise the calibration "paper" is. `choice_share`: part of each release's loss (mu squared)
    that counts which PLM wrote each row's nearest text; 0: nothing is counted.
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
    choice_share: float = 0.0


def vote_sensitivity(votes: int, sides: int = 2, adjacency: Adjacency = "add_remove") -> float:
    """Return by how much one row can move the released votes, L2 norm over all histograms together.

    One row gives 1, 1/2, ..., 2^-(Q-1) on each side, to different bins: sqrt(sides * 4/3 * (1 - 4^-Q)); WASP
    Theorem D.2 with the L2 norm in place of the L1 norm. Replacing a row costs sqrt(2) times that, not twice: votes
    are never negative, so the old and the new ones cannot point in opposite directions.
    """
    need(1 <= votes <= MOST_VOTES, "votes", f"a whole number from 1 to {MOST_VOTES}", votes)
    need(sides in (1, 2), "sides", "1 (near) or 2 (near and far)", sides)
    need(adjacency in ("add_remove", "replace_one"), "adjacency", "add_remove or replace_one", adjacency)
    one_row = math.sqrt(sides * (4.0**votes - 1) * 4 / (3 * 4.0**votes))
    return one_row * (math.sqrt(2) if adjacency == "replace_one" else 1.0)


def person_factor(rows_per_person: int, aggregation: Aggregation) -> float:
    """Return how many times a row's sensitivity a person with `rows_per_person` rows has.

    sum: m, reached by m equal rows. max: sqrt(m), because per bin max(a_j)^2 <= sum of a_j^2. mean: 1, since an
    average is no longer than the longest, and rounding it down to whole steps only shortens it.
    """
    need(rows_per_person >= 1, "rows_per_person", "a whole number from 1", rows_per_person)
    factors = {"sum": float(rows_per_person), "max": math.sqrt(rows_per_person), "mean": 1.0}
    need(aggregation in factors, "aggregation", "sum, max or mean", aggregation)
    return factors[aggregation]


def vote_scale(votes: int, shared_by: int = 1) -> int:
    """Return how many integer steps one vote has: 2^(Q-1), at least 128, times a power of two that is `shared_by`.

    The smallest vote, or its share where `shared_by` rows are averaged, is then about a whole step, and noise is so
    wide in steps that its grid costs nothing.
    """
    return max(1 << (votes - 1), 128) << (shared_by - 1).bit_length()


def choice_steps(privacy: VotePrivacy) -> int:
    """Return how many integer steps a row's first choice counts in the bin of the PLM that wrote it; 0: no such bins.

    With w = D sqrt(f / (1 - f)), rounded down, of all that a row gives, D^2 + w^2 squared, first choices have at most
    the part f = `choice_share`. D is what the row gives as votes.
    """
    share, votes = privacy.choice_share, vote_sensitivity(privacy.votes, privacy.sides)
    return math.floor(votes * math.sqrt(share / (1 - share)) * scale_of(privacy))


def total_sensitivity(privacy: VotePrivacy) -> float:
    """Return the L2 sensitivity, in votes, of what `privacy` protects: all bins of a release together.

    Bins of first choices are further bins beside those of the votes. A row adds w to one of them, so that its votes
    of length D become sqrt(D^2 + w^2). They are not negative either, hence sqrt(2) for replacing a row as before; and
    `person_factor` holds for whatever non-negative bins rows give, joined bin by bin.
    """
    votes = vote_sensitivity(privacy.votes, privacy.sides, privacy.adjacency)
    choice = choice_steps(privacy) / scale_of(privacy) * (math.sqrt(2) if privacy.adjacency == "replace_one" else 1.0)
    one_row = math.hypot(votes, choice)
    return one_row * person_factor(privacy.rows_per_person, privacy.aggregation)


def scale_of(privacy: VotePrivacy) -> int:
    """Return how many integer steps one vote has in a run."""
    averaged = privacy.rows_per_person if privacy.aggregation == "mean" else 1
    return vote_scale(privacy.votes, averaged)


def need(holds: bool, field: str, wanted: str, got: Any) -> None:
    """Raise ConfigError with the field of `privacy` and what to write, unless it holds."""
    if not holds:
        raise ConfigError(f"privacy.{field} is {got!r}; write {wanted}.")
