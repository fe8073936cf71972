"""Attacks on our own releases: what somebody can prove who knows everything but whether one record took part.

The canary is a record (or a person) whose votes move the release as far as the promise allows. The attacker knows its
votes and everybody else's, projects each release on them, and decides at half the way. From its error rates follows a
lower bound on mu of Gaussian differential privacy (Dong, Roth and Su 2022, Section 2). A pass proves nothing; a bound
above the claim proves that the noise is too small. Votes near and far (WASP) and near alone (private evolution) are
attacked here, densities in tasks/audit/density.py, the two parts of DP-KPS in tasks/audit/keyphrases.py, teachers
and label counts in tasks/audit/teachers.py, sums of parties in tasks/audit/federated.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from connectors.interfaces.progress import Advance
from tasks.accounting.density import GuidanceNoise
from tasks.accounting.teachers import PartNoise
from tasks.accounting.votes import Noise
from tasks.audit.bounds import (
    CONFIDENCE,
    Finding,
    fresh_and_counted,
    gaussian_finding,
    sides_seen,
    silent,
)
from tasks.audit.federated import FederatedRun
from tasks.private.voting.ballot import Ballot, Candidates
from tasks.private.voting.votes import NoisyVotes, RawVotes, clean_votes, noisy_votes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tasks.accounting.federated import Parties
    from tasks.accounting.keyphrases import KeyphraseNoise

    Ints = NDArray[np.int64]

Mechanism = Callable[[Ballot, Candidates, Noise], Sequence[NoisyVotes]]
"""All releases of one run over one election."""


@dataclass(frozen=True, slots=True)
class Attack:
    """One mechanism to attack: its name, the noise that it claims, and how often it is tried on each side.

    `parties`: who adds the noise, where several parties vote. `run`: the attack itself, where the release brings one;
    trials, confidence, progress -> findings, of which freshness and number are the last.
    """

    name: str
    noise: Noise | KeyphraseNoise | PartNoise
    trials: int
    confidence: float
    parties: Parties | None = None
    run: Callable[[int, float, Advance], Sequence[Finding]] | None = None


@dataclass(frozen=True, slots=True)
class Attacked:
    """What the attacks on one mechanism found: who took part (one or more views), freshness and number of releases."""

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


def carry_out(attack: Attack, advance: Advance = silent) -> Attacked:
    """Attack one mechanism; `advance` hears of every run of it."""
    if attack.run is not None:
        found = list(attack.run(attack.trials, attack.confidence, advance))
    elif isinstance(attack.noise, GuidanceNoise):
        from tasks.audit.density import audit_guidance

        found = audit_guidance(attack.noise, attack.trials, advance=advance, confidence=attack.confidence)
    elif isinstance(attack.noise, Noise):
        run = releases_of_a_run if attack.parties is None else FederatedRun(attack.parties)
        found = audit_votes(attack.noise, attack.trials, run, advance, attack.confidence)
    elif isinstance(attack.noise, PartNoise):
        from tasks.audit.teachers import audit_teachers

        found = audit_teachers(attack.noise, attack.trials, advance=advance, confidence=attack.confidence)
    else:
        from tasks.audit.keyphrases import audit_keyphrases

        found = audit_keyphrases(attack.noise, attack.trials, advance=advance, confidence=attack.confidence)
    return Attacked(attack, tuple(found[:-2]), found[-2], found[-1])


def releases_of_a_run(ballot: Ballot, candidates: Candidates, noise: Noise) -> list[NoisyVotes]:
    """Return what a run gives away about an election that stays the same: as many noisy votes as were planned."""
    return [noisy_votes(ballot, candidates, noise)[0] for _ in range(noise.releases)]


def audit_votes(
    noise: Noise,
    trials: int = 1000,
    run: Mechanism = releases_of_a_run,
    advance: Advance = silent,
    confidence: float = CONFIDENCE,
) -> list[Finding]:
    """Attack the vote `2 * trials` times; return what was found about its strength, its freshness and its number.

    `noise`: what the run claims. `run`: the mechanism, ours unless a test sabotages it. `confidence`: of each lower
    bound. Everything here is made up: no private row is opened and no budget spent.
    """
    candidates, others, both = canary_election(noise)
    known, all_votes = (_flat(clean_votes(one, candidates, noise)) for one in (others, both))
    direction = (all_votes - known).astype(np.float64)

    def release(ballot: Ballot) -> list[Ints]:
        return [_counts(one) for one in run(ballot, candidates, noise)]

    sides = sides_seen(release, (others, both), known, trials, advance)
    claimed = claim_of(noise)
    strengths = [
        gaussian_finding(f"who took part, by {name} votes", claimed, sides, view, noise.releases, confidence)
        for name, view in _views(direction, len(candidates.ids), noise.privacy.sides).items()
    ]
    return [*strengths, *fresh_and_counted(sides, noise.releases, trials)]


def audit_sums(
    noise: Noise,
    release: Callable[[Ints], Ints],
    canary: Ints,
    trials: int,
    confidence: float = CONFIDENCE,
    advance: Advance = silent,
) -> list[Finding]:
    """Attack one release of noisy sums `2 * trials` times; return its strength, its freshness and its number.

    `release`: adds noise to integer sums (width,). `canary`: the largest change by one record, in integer steps.
    """
    known = np.zeros_like(canary)
    sides = sides_seen(lambda sums: [release(sums)], (known, known + canary), known, trials, advance)
    finding = gaussian_finding(
        "who took part", claim_of(noise), sides, canary.astype(np.float64), noise.releases, confidence
    )
    return [finding, *fresh_and_counted(sides, noise.releases, trials)]


def _views(direction: NDArray[np.float64], size: int, sides: int) -> dict[str, NDArray[np.float64]]:
    """Return what an attack looks at: all bins together and, where there are several kinds, each of them alone."""
    kinds = np.arange(len(direction)) // size
    kinds[sides * size :] = 2
    found = {
        name: np.where(kinds == kind, direction, 0.0)
        for kind, name in enumerate(("near", "far", "first choices"))
        if (kinds == kind).any()
    }
    return found if len(found) == 1 else {" and ".join(found): direction} | found


def _flat(votes: RawVotes) -> Ints:
    """Return the clean counts of all bins, near, far, then first choices."""
    return np.concatenate([votes.counts.T.ravel(), votes.choices])


def _counts(votes: NoisyVotes) -> Ints:
    """Return the counts of all bins of one release, near, far, then first choices."""
    return np.concatenate([part for part in (votes.near, votes.far, votes.choices) if part is not None])


def claim_of(noise: Noise) -> float:
    """Return the mu that all releases of a run claim together."""
    return math.sqrt(noise.releases) / noise.noise_multiplier


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
    writers = np.repeat(np.arange(classes), size)  # first choices in different bins, as far apart as they can be
    candidates = Candidates(np.arange(len(line), dtype=np.int64), labels, vectors, writers, classes)
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
