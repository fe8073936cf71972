"""Noise of a vote: sigma and the charge for the ledger.

tasks/accounting/sensitivity.py bounds how far votes move. tasks/accounting/composition.py adds up the cost of releases
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
from tasks.accounting.sensitivity import (
    MOST_ROWS_PER_PERSON,
    VotePrivacy,
    need,
    person_factor,
    scale_of,
    total_sensitivity,
    vote_sensitivity,
)
from tasks.accounting.sums import LEAST_SCALE_INT, SumNoise, least_noise, refuse_epsilon

PAPER_L1_PER_SIDE: Final = 2.0
"""The paper takes the L1 norm of one row's votes, 2 per histogram, where the L2 norm is correct (Theorem D.2)."""

PRE_TEXT_EXCESS: Final = 1.541 * math.sqrt(2)
"""Ratio of the noise that the published code of PrE-Text adds to the noise that it accounts for."""


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise of every release of a run.

    `sigma` in votes (the largest single vote is 1); `scale` integer steps are one vote. `epsilon_stated`: the
    requested epsilon. `epsilon_exact`: the exact joint cost of all releases at `delta`. `sums`: the releases of a
    method that does not vote; the fields above describe the last of them. `beside`: label counts and a vocabulary
    before, and teachers' answers after, the releases of the method. Each of them has its own noise.
    """

    privacy: VotePrivacy
    sigma: float
    scale: int
    sensitivity: float
    epsilon_stated: float
    epsilon_exact: float
    delta: float
    calibration: str = "tight"
    sums: tuple[SumNoise[Any], ...] = ()
    beside: tuple[SumNoise[Any], ...] = ()
    kind: ClassVar[str] = "gaussian"

    @property
    def sigma_int(self) -> float:
        """Sigma in integer steps."""
        return self.sigma * self.scale

    @property
    def noise_multiplier(self) -> float:
        """Sigma over the sensitivity; 0 for a run that moves nothing."""
        return self.sigma / self.sensitivity if self.sensitivity else 0.0

    @property
    def releases(self) -> int:
        """The number of releases of the method."""
        return len(self.sums) or self.privacy.releases

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
        need(self.releases > 0, "releases", "at least 1 to charge for one", self.releases)
        event = {**self.event, ABOUT: {"sides": self.privacy.sides}}
        return self.charge_as("discrete_gaussian", event, _reason(self.privacy))

    def charge_as(self, mechanism: str, event: Event, reason: str) -> Charge:
        """Return one release as a charge for a mechanism, an event and the reason of the sensitivity."""
        kind, unit = "none" if self.non_private else mechanism, self.privacy
        return Charge(kind, event, self.sensitivity, reason, self.sigma, unit.protects, unit.adjacency)

    def part(self, name: str) -> SumNoise[Any] | None:
        """Return the noise of a release of sums by its name; None if the run does not make it."""
        return next((release for release in (*self.sums, *self.beside) if release.privacy.part == name), None)

    @property
    def charges(self) -> tuple[Charge, ...]:
        """The releases of the method itself, in order."""
        if self.sums or not self.releases:
            return tuple(release.charge for release in self.sums)
        return (self.charge,) * self.releases


# --- noise
def calibrate(privacy: VotePrivacy) -> Noise:
    """Return the least noise that keeps the promise, and its exact cost.

    "tight": the exact Gaussian closed form, widened by a millionth for the integer grid. "paper": the noise of the
    paper's own formula or code (see `_paper_sigma`). No release: epsilon 0, no noise. Infinite epsilon: no noise,
    marked non-private. Raises ConfigError for numbers that promise nothing.
    """
    _check(privacy)
    if privacy.releases == 0 or math.isinf(privacy.epsilon):
        return _noise(privacy, 0.0)
    if privacy.calibration == "paper":
        noise = _noise(privacy, _least_sigma(privacy))
        need(noise.epsilon_exact <= privacy.epsilon, "calibration", "tight: the paper's formula fails here", "paper")
        return noise
    return least_noise(_least_sigma(privacy), privacy.epsilon, lambda sigma: _noise(privacy, sigma))


def noise_of_sums(privacy: VotePrivacy, *sums: SumNoise[Any]) -> Noise:
    """Return the noise of a run with the promise `privacy` whose method makes the releases `sums`."""
    last, exact = sums[-1], epsilon_of([release.event for release in sums], privacy.delta)
    promise, kind = (privacy.epsilon, exact, privacy.delta), last.privacy.calibration
    return Noise(privacy, last.scale, last.privacy.steps, last.sensitivity, *promise, kind, sums)


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
def _noise(privacy: VotePrivacy, sigma: float) -> Noise:
    sensitivity, scale = total_sensitivity(privacy), scale_of(privacy)
    if sigma > 0:
        if sigma * scale < LEAST_SCALE_INT:
            or_inf = ", or inf for no protection"
            refuse_epsilon(privacy, lambda smaller: _least_sigma(smaller) * scale_of(smaller), or_inf)
        event = discrete_gaussian_event(sigma / sensitivity, sigma * scale, privacy.releases)
        epsilon = epsilon_of([event], privacy.delta)
    else:
        epsilon = math.inf if privacy.releases else 0.0
    promise = privacy.epsilon, epsilon, privacy.delta
    return Noise(privacy, sigma, scale, sensitivity, *promise, privacy.calibration)


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
