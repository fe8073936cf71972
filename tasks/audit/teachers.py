"""Attacks on label counts, teachers' answers and checks with a synthetic row.

The row has the largest allowed effect. The row adds one to a count, or reverses one teacher in every query. The
attacker knows everything else, including the other teachers' answers. It projects on the row's effect (Gaussian noise)
or sums likelihood ratios (Laplace noise), as in tasks/audit/keyphrases.py. The promise holds for any number of queries:
only the ratio of the noise to the row's effect counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from connectors.interfaces.progress import Advance
from tasks.accounting.composition import gaussian_epsilon
from tasks.accounting.teachers import PartNoise, TeacherPrivacy
from tasks.audit.attacks import Attack
from tasks.audit.bounds import (
    CONFIDENCE,
    Finding,
    check_noise,
    gaussian_finding,
    ignore_progress,
    likely_bound,
    run_sides,
)
from tasks.audit.keyphrases import laplace_finding, laplace_threshold
from tasks.private.releases.keyphrase_release import CleanSums, NoisySums
from tasks.private.releases.label_counts import clean_labels, noisy_labels
from tasks.private.releases.teachers import clean_answers, clean_checks, noisy_answers, noisy_checks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

CLASSES: Final = ("first class", "second class")
OTHERS: Final = 4
"""Teachers, or rows, in addition to the attacked one."""


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """Input of a run with or without the row.

    Labels of rows, or each teacher's answers.
    """

    labels: tuple[str, ...] = ()
    answers: tuple[Floats, ...] = ()


Mechanism = Callable[[Side, PartNoise], list[NoisySums]]
"""All releases of one part in one run."""


def release_of_a_run(side: Side, noise: PartNoise) -> list[NoisySums]:
    """Return the releases of a run: one release of the part."""
    if noise.privacy.part == "labels":
        return [noisy_labels(side.labels, CLASSES, noise)]
    if noise.privacy.part == "checks":
        return [noisy_checks(side.answers, noise)]
    return [noisy_answers(side.answers, noise)]


def audit_teachers(
    noise: PartNoise,
    trials: int = 1000,
    run: Mechanism = release_of_a_run,
    advance: Advance = ignore_progress,
    confidence: float = CONFIDENCE,
) -> list[Finding]:
    """Attack one part `2 * trials` times.

    Return findings on its strength, freshness and number of releases. All data is synthetic: no private row is opened
    and no budget spent.
    """
    without, with_row = sides_of(noise.privacy)
    baseline, direction = _clean(without, noise).sums, _direction(noise)

    def release(side: Side) -> list[Ints]:
        return [sums.sums for sums in run(side, noise)]

    sides = run_sides(release, (without, with_row), baseline, trials, advance)
    what = f"who took part, by {noise.privacy.part}"
    if noise.privacy.kind == "gaussian":
        claimed = noise.sensitivity / noise.scale
        strength = gaussian_finding(what, claimed, sides, direction, 1, confidence)
    else:
        strength = laplace_finding(what, noise, sides, direction, confidence)
    return [strength, *check_noise(sides, 1, trials)]


def teacher_attack(name: str, noise: PartNoise, trials: int, confidence: float) -> Attack:
    """Return the attack on teachers' answers, checks or label counts."""

    def run(trials: int, confidence: float, advance: Advance) -> list[Finding]:
        return audit_teachers(noise, trials, advance=advance, confidence=confidence)

    return Attack(name, noise, trials, confidence, run=run, likely=partial(likely_epsilon, noise))


def likely_epsilon(noise: PartNoise, trials: int, confidence: float = CONFIDENCE) -> float:
    """Return the epsilon that `trials` trials can prove for a sound mechanism.

    The row is added, never replaced.
    """
    if noise.privacy.kind == "gaussian":
        length = float(np.linalg.norm(_direction(noise))) / noise.steps
        mu = likely_bound(length / noise.scale, trials, confidence)
        return gaussian_epsilon(mu, noise.delta) if mu > 0 else 0.0
    return laplace_threshold(noise, _direction(noise), trials, confidence)[1]


def sides_of(privacy: TeacherPrivacy) -> tuple[Side, Side]:
    """Return the input without the row, and with it."""
    if privacy.part == "labels":
        labels = CLASSES[:1] + CLASSES[1:] * (OTHERS - 1)
        return Side(labels=labels), Side(labels=(*labels, CLASSES[0]))
    level = 1.0 if privacy.part == "checks" else 0.5  # the highest sum moves only if the others agree already
    others = (np.full(privacy.numbers, level),) * OTHERS
    one_way, other_way = np.zeros(privacy.numbers), np.ones(privacy.numbers)
    return Side(answers=(*others, one_way)), Side(answers=(*others, other_way))


def _direction(noise: PartNoise) -> Floats:
    without, with_row = (_clean(side, noise).sums for side in sides_of(noise.privacy))
    return (with_row - without).astype(np.float64)


def _clean(side: Side, noise: PartNoise) -> CleanSums:
    if noise.privacy.part == "labels":
        return clean_labels(side.labels, CLASSES, noise)
    return clean_checks(side.answers) if noise.privacy.part == "checks" else clean_answers(side.answers)
