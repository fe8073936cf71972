"""Attacks on the releases of sums, votes aside: each part has a canary, a record with the largest allowed contribution.

The promise holds for any number of terms, frequencies or queries, because only the ratio of the noise to the
contribution counts; with few of them, an attack on Laplace noise proves more. So a release is attacked with the noise
that it has at `FEW` of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tasks.accounting.keyphrases import PartPrivacy
from tasks.accounting.sums import SumNoise
from tasks.accounting.teachers import TeacherPrivacy
from tasks.audit.attacks import Attack
from tasks.audit.sums import SumsCase
from tasks.private.releases import density, keyphrases, label_counts, teachers
from tasks.private.releases.sums import CleanSums, add_noise
from tasks.private.voting.ballot import Ballot

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tasks.accounting.density import DensityPrivacy

    Floats = NDArray[np.float64]
    Sides = tuple[Any, Any, Callable[[Any], CleanSums]]

FEW: Final = 12
"""Queries of an attack on teachers; an attack on keyphrases has one term or one frequency."""
CLASSES: Final = ("first class", "second class")
OTHERS: Final = 4
"""Teachers, or documents, in addition to the attacked one."""


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
    others, both, clean = CANARIES[noise.privacy.part](noise)
    laplace = noise.kind == "laplace"
    return SumsCase(
        what=f"who took part, by {noise.privacy.part}",
        sides=(others, both),
        clean=lambda side: clean(side).sums,
        draw=lambda side: [add_noise(clean(side), noise).sums],
        scale_int=noise.scale_int,
        claimed=noise.epsilon_exact if laplace else noise.sensitivity / noise.scale,
        delta=noise.delta,
        laplace=laplace,
    )


# --- canaries: the records without and with it, and their sums
def _guidance(noise: SumNoise[DensityPrivacy]) -> Sides:
    """The canary is a row, or a person with the most equal rows that count."""
    persons, rows = noise.privacy.protects == "person", noise.privacy.rows_per_person
    others = Ballot(
        np.eye(3, dtype=np.float32), ["here", "here", "there"], 1, ["a", "b", "c"] if persons else None, sides=1
    )
    both = replace(
        others,
        vectors=np.concatenate([others.vectors, np.ones((rows, 3), dtype=np.float32)]),
        labels=[*others.labels, *["here"] * rows],
        persons=["a", "b", "c", *["canary"] * rows] if persons else None,
    )
    return others, both, lambda ballot: density.clean_sums(ballot, ("here", "there"), noise)


def _vocabulary(noise: SumNoise[PartPrivacy]) -> Sides:
    """The canary is a document with S terms; ``paper`` counts repeated ones."""
    terms, others = noise.privacy.terms, ((0, 1), (1,))
    canary = (0,) * terms if noise.privacy.setting == "paper" else tuple(range(terms))
    return others, (*others, canary), lambda documents: keyphrases.clean_vocabulary(documents, 2 * terms, noise)


def _density(noise: SumNoise[PartPrivacy]) -> Sides:
    """The canary is a document with M keyphrases at one point, whose features are as long as possible.

    The point is at 45 degrees of every pair, or, for the printed features, at the maximum of every cosine.
    """
    privacy, rng = noise.privacy, np.random.default_rng(0)
    paper = privacy.setting == "paper"
    shape = privacy.keyphrases, privacy.frequencies * (2 if paper else 1)
    phases, highest = (np.zeros(shape[1]), 0.0) if paper else (None, np.pi / 4)
    angles = [*(rng.uniform(0, 2 * np.pi, shape) for _ in range(OTHERS)), np.full(shape, highest)]
    points = [keyphrases.contribution(keyphrases.features_at(angle, phases), privacy) for angle in angles]
    documents = np.tile(np.array(points), (1, privacy.members))
    return documents[:-1], documents, lambda rows: keyphrases.clean_density(rows, [0] * len(rows), 1, noise)


def _labels(noise: SumNoise[TeacherPrivacy]) -> Sides:
    """The canary is a row."""
    labels = CLASSES[:1] + CLASSES[1:] * 3
    return labels, (*labels, CLASSES[0]), lambda rows: label_counts.clean_labels(rows, CLASSES, noise)


def _answers(noise: SumNoise[TeacherPrivacy]) -> Sides:
    """The canary is a row that turns its teacher from one class to the other."""
    return *_turned_teacher(noise, 0.5), teachers.clean_answers


def _checks(noise: SumNoise[TeacherPrivacy]) -> Sides:
    """As for answers; the highest sum moves only if the other teachers agree already."""
    return *_turned_teacher(noise, 1.0), teachers.clean_checks


def _turned_teacher(noise: SumNoise[TeacherPrivacy], sure: float) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
    queries = noise.privacy.numbers
    others = (np.full(queries, sure),) * OTHERS
    return (*others, np.zeros(queries)), (*others, np.ones(queries))


CANARIES: Final[dict[str, Callable[[SumNoise[Any]], Sides]]] = {
    "guidance": _guidance,
    "vocabulary": _vocabulary,
    "density": _density,
    "labels": _labels,
    "answers": _answers,
    "checks": _checks,
}
"""The attack on each release of sums, by its part."""
