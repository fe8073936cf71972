"""Attacks on the released density with a synthetic row or person.

It has the largest allowed contribution. The attacker knows everybody else's features and the canary's, projects the
release on the canary's and decides at the halfway point, as in tasks/audit/attacks.py. Few dimensions prove as much as
many: only the noise along the canary counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from connectors.interfaces.progress import Advance
from tasks.accounting.density import GuidanceNoise
from tasks.audit.attacks import Attack, likely_vote
from tasks.audit.bounds import CONFIDENCE, Finding, check_noise, gaussian_finding, ignore_progress, run_sides
from tasks.private.releases.density import clean_sums, noisy_density
from tasks.private.releases.keyphrase_release import NoisySums
from tasks.private.voting.ballot import Ballot

if TYPE_CHECKING:
    from numpy.typing import NDArray

LABELS: Final = ("here", "there")

Mechanism = Callable[[Ballot, GuidanceNoise], list[NoisySums]]
"""All releases of one run about some rows."""


def release_of_a_run(ballot: Ballot, noise: GuidanceNoise) -> list[NoisySums]:
    """Return the releases of a run: one density."""
    return [noisy_density(ballot, LABELS, noise)]


def density_attack(name: str, noise: GuidanceNoise, trials: int, confidence: float) -> Attack:
    """Return the attack on a density; its features have both signs."""

    def run(trials: int, confidence: float, advance: Advance) -> list[Finding]:
        return audit_guidance(noise, trials, advance=advance, confidence=confidence)

    return Attack(name, noise, trials, confidence, run=run, likely=partial(likely_vote, noise, half=0.25))


def audit_guidance(
    noise: GuidanceNoise,
    trials: int = 1000,
    run: Mechanism = release_of_a_run,
    advance: Advance = ignore_progress,
    confidence: float = CONFIDENCE,
) -> list[Finding]:
    """Attack the density `2 * trials` times.

    Return findings on its strength, freshness and number of releases. All data is synthetic: no private row is opened
    and no budget spent.
    """
    others, both = canary_rows(noise)
    baseline, with_canary = (clean_sums(rows, LABELS, noise).sums.ravel() for rows in (others, both))
    direction = (with_canary - baseline).astype(np.float64)

    def release(ballot: Ballot) -> list[NDArray[np.int64]]:
        return [sums.sums.ravel() for sums in run(ballot, noise)]

    sides = run_sides(release, (others, both), baseline, trials, advance)
    claimed = 1 / noise.noise_multiplier
    strength = gaussian_finding("who took part, by the density", claimed, sides, direction, 1, confidence)
    return [strength, *check_noise(sides, 1, trials)]


def canary_rows(noise: GuidanceNoise) -> tuple[Ballot, Ballot]:
    """Return some rows, and the same with the canary.

    The canary is one row, or a person with the most equal rows that count.
    """
    persons, rows = noise.privacy.protects == "person", noise.privacy.rows_per_person
    names = ["a", "b", "c"] if persons else None
    others = Ballot(np.eye(3, dtype=np.float32), ["here", "here", "there"], 1, names, sides=1)
    own = np.tile(np.ones((1, 3), dtype=np.float32), (rows, 1))
    both = replace(
        others,
        vectors=np.concatenate([others.vectors, own]),
        labels=[*others.labels, *["here"] * rows],
        persons=["a", "b", "c", *["canary"] * rows] if persons else None,
    )
    return others, both
