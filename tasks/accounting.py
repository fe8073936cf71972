"""How much noise a vote needs: sensitivity, scale, sigma, and the charge that tells the ledger.

What releases cost together (events, `epsilon_of`, the gate's `filter_epsilon`) is computed in tasks/composition.py and
can be imported from here.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Final, Literal

from connectors.base import Charge, ConfigError
from tasks.composition import Adjacency as Adjacency
from tasks.composition import Event as Event
from tasks.composition import discrete_gaussian_event as discrete_gaussian_event
from tasks.composition import discrete_laplace_event as discrete_laplace_event
from tasks.composition import dp_sgd_event as dp_sgd_event
from tasks.composition import epsilon_of as epsilon_of
from tasks.composition import filter_epsilon as filter_epsilon
from tasks.composition import gaussian_event as gaussian_event
from tasks.composition import gaussian_sigma as gaussian_sigma
from tasks.composition import laplace_event as laplace_event
from tasks.composition import non_private_event as non_private_event
from tasks.composition import rho_of as rho_of
from tasks.composition import zcdp_epsilon as zcdp_epsilon

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

LEAST_SIGMA_INT: Final = 16.0
"""Below this the noise is a handful of integers and protects nobody."""

PAPER_L1_PER_SIDE: Final = 2.0
"""The paper takes the L1 norm of one row's votes, 2 per histogram, where the L2 norm is due (Theorem D.2)."""

PRE_TEXT_EXCESS: Final = 1.541 * math.sqrt(2)
"""How many times the noise that it accounts for the published code of PrE-Text draws."""


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


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise of every release of a run.

    `sigma` in votes (the largest single vote is 1), `sigma_int` in integer steps (`scale` steps are one vote),
    `noise_multiplier` = sigma / sensitivity. `epsilon_stated` is what was asked for, `epsilon_exact` what all
    releases really cost together at `delta`.
    """

    privacy: VotePrivacy
    sigma: float
    sigma_int: float
    scale: int
    sensitivity: float
    noise_multiplier: float
    releases: int
    epsilon_stated: float
    epsilon_exact: float
    delta: float
    calibration: str

    @property
    def non_private(self) -> bool:
        """Whether the run gave up protection explicitly (epsilon is infinite)."""
        return math.isinf(self.epsilon_stated)

    @property
    def event(self) -> Event:
        """One release as the accountant reads it."""
        if self.non_private:
            return non_private_event()
        return discrete_gaussian_event(self.noise_multiplier, self.sigma_int)

    @property
    def charge(self) -> Charge:
        """One release as the ledger writes it."""
        return vote_charge(self)


# --- sensitivity
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


# --- noise
def calibrate(privacy: VotePrivacy) -> Noise:
    """Return the least noise that keeps the promise, and what it really costs.

    "tight": the exact Gaussian closed form, widened a millionth for the integer grid. "paper": what the paper's own
    formula or code draws (see `_paper_sigma`). No release: epsilon 0, no noise. Infinite epsilon: no noise, marked
    non-private. Raises ConfigError for numbers that promise nothing.
    """
    _check(privacy)
    if privacy.releases == 0 or math.isinf(privacy.epsilon):
        return _noise(privacy, 0.0)
    if privacy.calibration == "paper":
        noise = _noise(privacy, _paper_sigma(privacy))
        need(noise.epsilon_exact <= privacy.epsilon, "calibration", "tight: the paper's formula fails here", "paper")
        return noise
    least = gaussian_sigma(privacy.epsilon, privacy.delta, total_sensitivity(privacy), privacy.releases)
    widening = 1e-6
    while True:
        noise = _noise(privacy, least * (1 + widening))
        if noise.epsilon_exact <= privacy.epsilon:
            return noise
        widening *= 2


def signal_index(declared_rows: int, sigma: float, candidates_per_class: int, share: float = 0.03) -> float:
    """Return how a top candidate's votes compare with the highest bin of noise alone; below 1 votes choose by chance.

    declared_rows * share / (sigma * sqrt(2 ln n_c)). `share`: part of all rows that gives a full vote to a top
    candidate. Only declared, public numbers enter, never a count of private rows. Infinite without noise.
    """
    if sigma == 0:
        return math.inf
    return declared_rows * share / (sigma * math.sqrt(2 * math.log(max(candidates_per_class, 2))))


def vote_charge(noise: Noise) -> Charge:
    """Return one release as the ledger writes it. ConfigError if the run has no release to pay for."""
    need(noise.releases > 0, "releases", "at least 1 to charge for one", noise.releases)
    privacy = noise.privacy
    return Charge(
        mechanism="none" if noise.non_private else "discrete_gaussian",
        event=noise.event,
        sensitivity=noise.sensitivity,
        sensitivity_reason=_reason(privacy),
        noise_scale=noise.sigma,
        protects=privacy.protects,
        adjacency=privacy.adjacency,
    )


def sides_of(reason: str) -> int:
    """Return on how many sides rows voted, from the reason of a charge; 0 where they did not vote."""
    told = re.search(r" bins on ([12]) side", reason)
    return int(told[1]) if told else 0


# --- inside
def _noise(privacy: VotePrivacy, sigma: float) -> Noise:
    sensitivity, scale = total_sensitivity(privacy), scale_of(privacy)
    sigma_int, multiplier = sigma * scale, sigma / sensitivity
    if sigma > 0:
        need(sigma_int >= LEAST_SIGMA_INT, "epsilon", "smaller, or inf for a run without protection", privacy.epsilon)
        epsilon = epsilon_of([discrete_gaussian_event(multiplier, sigma_int, privacy.releases)], privacy.delta)
    else:
        epsilon = math.inf if privacy.releases else 0.0
    return Noise(
        privacy=privacy,
        sigma=sigma,
        sigma_int=sigma_int,
        scale=scale,
        sensitivity=sensitivity,
        noise_multiplier=multiplier,
        releases=privacy.releases,
        epsilon_stated=privacy.epsilon,
        epsilon_exact=epsilon,
        delta=privacy.delta,
        calibration=privacy.calibration,
    )


def _paper_sigma(privacy: VotePrivacy) -> float:
    """Return the noise of a paper, in votes.

    WASP: its printed formula with Delta = 4 (after Theorem D.2), Delta = 2 on one side, and 1 for its baselines of one
    vote on one side. PrE-Text: what it accounts for, times what its code multiplies that with.
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
    if privacy.choice_share:
        weight = choice_steps(privacy) / scale_of(privacy)
        sentence += f"; and {weight:.6g} to the bin of the PLM that wrote its nearest text, together "
        sentence += f"{math.hypot(one_row, weight):.6g}"
    if privacy.adjacency == "replace_one":
        sentence += "; times sqrt(2) for replacing it"
    if privacy.protects == "person":
        rows, factor = privacy.rows_per_person, person_factor(privacy.rows_per_person, privacy.aggregation)
        sentence += f"; times {factor:.6g} for a person's {rows} row(s) joined by {privacy.aggregation}"
    return sentence


def _check(privacy: VotePrivacy) -> None:
    need(privacy.epsilon > 0, "epsilon", "a positive number, or inf", privacy.epsilon)
    need(0 < privacy.delta < 1, "delta", "a number between 0 and 1", privacy.delta)
    need(privacy.releases >= 0, "releases", "a whole number from 0", privacy.releases)
    need(privacy.calibration in ("tight", "paper"), "calibration", "tight or paper", privacy.calibration)
    need(privacy.protects in ("record", "person"), "protects", "record or person", privacy.protects)
    one_row = privacy.protects == "person" or privacy.rows_per_person == 1
    need(one_row, "rows_per_person", "1, or set protects to person", privacy.rows_per_person)
    most = privacy.rows_per_person <= MOST_ROWS_PER_PERSON
    need(most, "rows_per_person", f"at most {MOST_ROWS_PER_PERSON}", privacy.rows_per_person)
    need(privacy.aggregation in ("sum", "max", "mean"), "aggregation", "max, sum or mean", privacy.aggregation)
    share = privacy.choice_share
    need(0 <= share <= MOST_CHOICE_SHARE, "choice_share", f"a number from 0 to {MOST_CHOICE_SHARE}", share)
    own = share == 0 or privacy.calibration == "tight"
    need(own, "calibration", "tight: no paper counts first choices", privacy.calibration)


def need(holds: bool, field: str, wanted: str, got: Any) -> None:
    """Raise ConfigError with the field of `privacy` and what to write, unless it holds."""
    if not holds:
        raise ConfigError(f"privacy.{field} is {got!r}; write {wanted}.")
