"""Attacks on our own releases: what somebody can prove who knows everything but whether one record took part.

The canary is a record (or a person) whose votes move the release as far as the promise allows. The attacker knows its
votes and everybody else's, projects each release on them, and decides at half the way. From its error rates follows a
lower bound on mu of Gaussian differential privacy (Dong, Roth and Su 2022, Section 2; the errors by Clopper and
Pearson). A pass proves nothing; a bound above the claim proves that the noise is too small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from connectors.base import Advance
from tasks.composition import gaussian_epsilon
from tasks.private.votes import Ballot, Candidates, NoisyVotes, clean_votes, noisy_votes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tasks.accounting import Noise

    Floats = NDArray[np.float64]

CONFIDENCE: Final = 0.999
"""Of a lower bound. Both error rates must be that unlucky at once: about one sound mechanism in 10^5 is called red."""

STANDARD_ERRORS: Final = 6.0
"""Correlation of noises that counts as none, in standard errors; by chance one audit in 10^8 is beyond it."""

Runs = Sequence[Sequence[NoisyVotes]]
Mechanism = Callable[[Ballot, Candidates, "Noise"], list[NoisyVotes]]
"""All releases of one run over one election."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one attack found. `claimed` and `bound` are mu, `trials` runs with and as many without the canary."""

    what: str
    claimed: float
    bound: float
    trials: int
    passed: bool
    remark: str = ""

    def epsilons(self, delta: float) -> tuple[float, float]:
        """Return the claimed epsilon at `delta` and the one that the attack proves at least."""
        return tuple(gaussian_epsilon(mu, delta) if mu > 0 else 0.0 for mu in (self.claimed, self.bound))  # type: ignore[return-value]


def _silent(units: int) -> None:
    """Take no notice of progress."""


@dataclass(frozen=True, slots=True)
class Attack:
    """One mechanism to attack: its name, the noise that it claims, and how often it is tried on each side."""

    name: str
    noise: Noise
    trials: int
    confidence: float


@dataclass(frozen=True, slots=True)
class Attacked:
    """What the attacks on one mechanism found: who took part (three views), freshness and number of releases."""

    attack: Attack
    strengths: tuple[Finding, ...]
    freshness: Finding
    number: Finding

    @property
    def strongest(self) -> Finding:
        """The attack that proves most."""
        return max(self.strengths, key=lambda one: one.bound)

    @property
    def passed(self) -> bool:
        """Whether every finding is as a sound mechanism's."""
        return all(one.passed for one in (*self.strengths, self.freshness, self.number))


def carry_out(attack: Attack, advance: Advance = _silent) -> Attacked:
    """Attack one mechanism; `advance` hears of every run of it."""
    found = audit_votes(attack.noise, attack.trials, advance=advance, confidence=attack.confidence)
    return Attacked(attack, tuple(found[:-2]), found[-2], found[-1])


def releases_of_a_run(ballot: Ballot, candidates: Candidates, noise: Noise) -> list[NoisyVotes]:
    """Return what a run gives away about an election that stays the same: as many noisy votes as were planned."""
    return [noisy_votes(ballot, candidates, noise)[0] for _ in range(noise.releases)]


def audit_votes(
    noise: Noise,
    trials: int = 1000,
    run: Mechanism = releases_of_a_run,
    advance: Advance = _silent,
    confidence: float = CONFIDENCE,
) -> list[Finding]:
    """Attack the vote `2 * trials` times; return what was found about its strength, its freshness and its number.

    `noise`: what the run claims. `run`: the mechanism, ours unless a test sabotages it. `confidence`: of each lower
    bound. Everything here is made up: no private row is opened and no budget spent.
    """
    candidates, others, both = canary_election(noise)
    with_canary, without = [], []
    for _ in range(trials):
        with_canary.append(run(both, candidates, noise))
        without.append(run(others, candidates, noise))
        advance(2)
    known = clean_votes(others, candidates, noise).counts
    direction = clean_votes(both, candidates, noise).counts - known
    noises = np.array([[_counts(one) - known for one in releases] for releases in without], dtype=np.float64)
    views = {"near": direction}
    if noise.privacy.sides == 2:
        views = {
            "near and far": direction,
            "near": direction * np.array([1, 0], dtype=np.int64),
            "far": direction * np.array([0, 1], dtype=np.int64),
        }
    sides = without, with_canary
    strengths = [_strength(noise, name, known, view, sides, confidence) for name, view in views.items()]
    return [*strengths, _freshness(noises), _number(noise, [*with_canary, *without])]


def canary_election(noise: Noise) -> tuple[Candidates, Ballot, Ballot]:
    """Return candidates, the ballot without the canary and the one with it; the canary moves the votes furthest.

    One record: all its votes, Q on each side, go to different candidates. A person whose votes are joined by maximum:
    rows in m classes, so that no two votes meet; by sum or average: m equal rows.
    """
    privacy = noise.privacy
    rows = privacy.rows_per_person
    classes = rows if privacy.aggregation == "max" else 1
    size = 2 * privacy.votes
    line = np.concatenate([np.arange(size) + 1000.0 * number for number in range(classes)])
    labels = np.repeat([f"class {number}" for number in range(classes)], size).astype(object)
    vectors = line.astype(np.float32)[:, None]
    candidates = Candidates(np.arange(len(line), dtype=np.int64), labels, vectors)
    places = [1000.0 * (number % classes) for number in range(rows)]
    own = np.array(places, dtype=np.float32)[:, None]
    own_labels = [f"class {number % classes}" for number in range(rows)]
    other = np.full((3, 1), size / 2, dtype=np.float32)
    persons = privacy.protects == "person"
    names = ["a", "b", "c"] if persons else None
    others = Ballot(other, ["class 0"] * 3, privacy.votes, names, sides=privacy.sides)
    both = replace(
        others,
        vectors=np.concatenate([other, own]),
        labels=[*others.labels, *own_labels],
        persons=["a", "b", "c", *["canary"] * rows] if persons else None,
    )
    return candidates, others, both


def lower_bound(false_alarms: int, misses: int, trials: int, confidence: float = CONFIDENCE) -> float:
    """Return the mu that an attack with these errors in `trials` decisions each proves at least; never below 0.

    Each error rate is bounded from above with half of the doubt (Clopper and Pearson 1934).
    """
    from scipy.special import ndtri

    doubt = (1 - confidence) / 2
    return max(0.0, -float(ndtri(_most(false_alarms, trials, doubt))) - float(ndtri(_most(misses, trials, doubt))))


def claim_of(noise: Noise) -> float:
    """Return the mu that all releases of a run claim together."""
    return math.sqrt(noise.releases) / noise.noise_multiplier


def likely_bound(mu: float, trials: int, confidence: float = CONFIDENCE) -> float:
    """Return the lower bound on mu that `trials` decisions each about a sound mechanism lead to in the middle."""
    from scipy.special import ndtr

    errors = round(trials * float(ndtr(-mu / 2)))
    return lower_bound(errors, errors, trials, confidence)


def _most(errors: int, trials: int, doubt: float) -> float:
    from scipy.stats import beta

    return 1.0 if errors >= trials else float(beta.ppf(1 - doubt, errors + 1, trials - errors))


def _counts(votes: NoisyVotes) -> Floats:
    sides = [votes.near] if votes.far is None else [votes.near, votes.far]
    return np.stack(sides, axis=1).astype(np.float64)


def _score(releases: Sequence[NoisyVotes], known: NDArray[np.int64], direction: NDArray[np.int64]) -> float:
    return float(sum(((_counts(one) - known) * direction).sum() for one in releases))


def _strength(
    noise: Noise,
    name: str,
    known: NDArray[np.int64],
    view: NDArray[np.int64],
    sides: tuple[Runs, Runs],
    confidence: float,
) -> Finding:
    """Decide who took part by what is seen through `view`, the canary's votes or one side of them."""
    without, with_canary = (np.array([_score(releases, known, view) for releases in side]) for side in sides)
    halfway = noise.releases * float((view**2).sum()) / 2
    claimed = claim_of(noise)
    errors = int((without > halfway).sum()), int((with_canary <= halfway).sum())
    bound = lower_bound(*errors, len(without), confidence)
    shares = f"{errors[0]} false alarms, {errors[1]} misses in {len(without)} decisions each"
    return Finding(f"who took part, by {name} votes", claimed, bound, len(without), bound <= claimed, shares)


def _freshness(noises: Floats) -> Finding:
    """Compare noises of one run with each other and those of consecutive runs: they must have nothing in common."""
    within = _correlation(noises[:, 1:], noises[:, :-1])
    between = _correlation(noises[1:], noises[:-1])
    worst = max(within, between)
    remark = f"noises of different releases agree by {worst:.1f} standard errors; up to {STANDARD_ERRORS:g} is chance"
    return Finding("noise is fresh", 0.0, 0.0, len(noises), worst <= STANDARD_ERRORS, remark)


def _correlation(one: Floats, other: Floats) -> float:
    """Return the correlation of two arrays in standard errors of no correlation."""
    if one.size < 2:
        return 0.0
    spread = math.sqrt(float((one**2).sum()) * float((other**2).sum()))
    return abs(float((one * other).sum())) / spread * math.sqrt(one.size) if spread else 0.0


def _number(noise: Noise, runs: Runs) -> Finding:
    most = max(len(releases) for releases in runs)
    remark = f"{most} releases seen, {noise.releases} planned"
    return Finding("as many releases as planned", 0.0, 0.0, len(runs), most <= noise.releases, remark)
