"""Attacks on the releases of sums, votes aside: each part has a canary, a record with the largest allowed contribution.

The promise holds for any number of terms, frequencies or queries, because only the ratio of the noise to the
contribution counts; with few of them, an attack on Laplace noise proves more. So a release is attacked with the noise
that it has at `FEW` of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from tasks.accounting.keyphrases import PartPrivacy
from tasks.accounting.sums import SumNoise
from tasks.accounting.teachers import TeacherPrivacy
from tasks.audit.attacks import Attack
from tasks.audit.sums import SumsCase
from tasks.private.releases import density, keyphrases, label_counts, teachers
from tasks.private.releases.sums import Sides, add_noise

FEW: Final = 12
"""Queries of an attack on teachers; an attack on keyphrases has one term or one frequency."""


def part_attack(kind: str, noise: SumNoise[Any], trials: int, confidence: float) -> Attack:
    """Return the attack on a release of sums; its name is `kind` and, where there are several, the sort of noise."""
    privacy, noise = noise.privacy, few_numbers(noise)
    if isinstance(privacy, PartPrivacy):
        kind = f"{kind} {privacy.setting}"
    elif isinstance(privacy, TeacherPrivacy):
        kind = f"{kind} {privacy.kind}"
    case = part_case(noise)
    return Attack(kind, noise, trials, confidence, run=case.attack, likely=case.likely)


def few_numbers(noise: SumNoise[Any]) -> SumNoise[Any]:
    """Return noise with the same ratio to a record's contribution, for few terms, frequencies or queries."""
    privacy = few = noise.privacy
    if isinstance(privacy, PartPrivacy):
        few = replace(privacy, terms=1, frequencies=1, members=1)
    elif isinstance(privacy, TeacherPrivacy) and privacy.part != "labels":
        few = replace(privacy, numbers=min(FEW, privacy.numbers))
    return replace(noise, privacy=few, scale=noise.scale * few.sensitivity / noise.sensitivity)


def part_case(noise: SumNoise[Any]) -> SumsCase:
    """Return the attack on a release of sums."""
    sides = CANARIES[noise.privacy.part](noise)
    laplace = noise.kind == "laplace"
    return SumsCase(
        what=f"who took part, by {noise.privacy.part}",
        sides=(sides.without, sides.canary),
        clean=lambda side: sides.clean(side).sums,
        draw=lambda side: [add_noise(sides.clean(side), noise).sums],
        scale_int=noise.scale_int,
        claimed=noise.epsilon_exact if laplace else noise.sensitivity / noise.scale,
        delta=noise.delta,
        laplace=laplace,
    )


CANARIES: Final[dict[str, Callable[[SumNoise[Any]], Sides]]] = {
    "guidance": density.canary,
    "vocabulary": keyphrases.vocabulary_canary,
    "density": keyphrases.density_canary,
    "labels": label_counts.canary,
    "answers": teachers.answers_canary,
}
"""The attack on each release of sums, by its part."""
