"""Attacks on the released moments with a synthetic row or person.

The canary has the largest allowed contribution. The attacker knows everybody else's contribution and the canary's,
projects the release on the canary's and decides at the halfway point, as in tasks/audit/attacks.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from connectors.interfaces.progress import Advance
from tasks.accounting.moments import MomentsNoise, Plane
from tasks.audit.attacks import Attack, likely_vote
from tasks.audit.bounds import CONFIDENCE, Finding, check_noise, gaussian_finding, ignore_progress, run_sides
from tasks.private.releases.keyphrase_release import NoisySums
from tasks.private.releases.moments import clean_moments, noisy_moments
from tasks.private.voting.ballot import Ballot
from tasks.private.voting.persons import selected_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

FAR = 100.0
"""Length of the canary's vector before it is cut to 1."""

Mechanism = Callable[[Ballot, Plane, MomentsNoise], list[NoisySums]]
"""All releases of one run about some rows."""


def release_of_a_run(ballot: Ballot, plane: Plane, noise: MomentsNoise) -> list[NoisySums]:
    """Return the releases of a run: one release of moments."""
    return [noisy_moments(ballot, plane, noise)]


def moments_attack(name: str, noise: MomentsNoise, trials: int, confidence: float) -> Attack:
    """Return the attack on moments of private vectors."""

    def run(trials: int, confidence: float, advance: Advance) -> list[Finding]:
        return audit_moments(noise, trials, advance=advance, confidence=confidence)

    return Attack(name, noise, trials, confidence, run=run, likely=partial(likely_vote, noise))


def audit_moments(
    noise: MomentsNoise,
    trials: int = 1000,
    run: Mechanism = release_of_a_run,
    advance: Advance = ignore_progress,
    confidence: float = CONFIDENCE,
) -> list[Finding]:
    """Attack the moments `2 * trials` times.

    Return findings on their strength, freshness and number of releases. All data is synthetic: no private row is opened
    and no budget spent.
    """
    plane = Plane(np.zeros(noise.privacy.directions), np.eye(noise.privacy.directions))
    others, both = canary_rows(noise)
    votes = [ballot.vectors[selected_rows(ballot, noise.privacy.rows)] for ballot in (others, both)]
    baseline, with_canary = (clean_moments(vectors, plane, noise).sums.ravel() for vectors in votes)
    direction = (with_canary - baseline).astype(np.float64)

    def release(ballot: Ballot) -> list[NDArray[np.int64]]:
        return [sums.sums.ravel() for sums in run(ballot, plane, noise)]

    sides = run_sides(release, (others, both), baseline, trials, advance)
    claimed = noise.sensitivity / noise.sigma
    strength = gaussian_finding("who took part, by the moments", claimed, sides, direction, 1, confidence)
    return [strength, *check_noise(sides, 1, trials)]


def canary_rows(noise: MomentsNoise) -> tuple[Ballot, Ballot]:
    """Return three rows, and the same with the canary.

    The canary is one row, or a person with more equal rows than count.
    """
    persons = noise.privacy.protects == "person"
    rows = noise.privacy.rows + 1 if persons else 1
    vectors = np.zeros((3 + rows, noise.privacy.directions), dtype=np.float32)
    vectors[3:, 0] = FAR
    names = ["a", "b", "c", *["canary"] * rows]
    both = Ballot(vectors, ["here"] * len(vectors), 1, names if persons else None, sides=1)
    return Ballot(vectors[:3], ["here"] * 3, 1, names[:3] if persons else None, sides=1), both
