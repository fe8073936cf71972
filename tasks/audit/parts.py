"""Attacks on densities, the two parts of DP-KPS, label counts, and teachers' answers and checks.

Each case has a synthetic record with the largest allowed contribution. The promise holds for any number of terms,
frequencies or queries, because only the ratio of the noise to the contribution counts; with few of them, an attack on
Laplace noise proves more. So a release is attacked with the noise that it has at `FEW` of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tasks.accounting.density import GuidanceNoise
from tasks.accounting.keyphrases import KeyphraseNoise, PartPrivacy, document_sensitivity
from tasks.accounting.teachers import PartNoise, part_sensitivity
from tasks.audit.attacks import Attack, attack_on
from tasks.audit.sums import SumsCase
from tasks.private.releases import density, keyphrase_release, label_counts, teachers
from tasks.private.releases.keyphrase_release import CleanSums, NoisySums
from tasks.private.voting.ballot import Ballot

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

FEW: Final = 12
"""Queries of an attack on teachers; an attack on keyphrases has one term or one frequency."""
CLASSES: Final = ("first class", "second class")
OTHERS: Final = 4
"""Teachers, or rows, in addition to the attacked one."""


def part_attack(name: str, noise: Any, trials: int, confidence: float) -> Attack:
    """Return the attack on a density, a part of DP-KPS, label counts, answers or checks, by the type of its noise."""
    if isinstance(noise, GuidanceNoise):
        return attack_on(name, noise, density_case(noise), trials, confidence)
    if isinstance(noise, KeyphraseNoise):
        noise = few_phrases(noise)
        return attack_on(f"{name} {noise.privacy.setting}", noise, keyphrase_case(noise), trials, confidence)
    noise = few_queries(noise)
    return attack_on(f"{name} {noise.privacy.kind}", noise, teacher_case(noise), trials, confidence)


def density_case(noise: GuidanceNoise) -> SumsCase:
    """Return the attack on a density; the canary is a row, or a person with the most equal rows that count."""
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
    labels = ("here", "there")
    return SumsCase(
        what="who took part, by the density",
        sides=(others, both),
        clean=lambda ballot: density.clean_sums(ballot, labels, noise).sums,
        draw=lambda ballot: [density.noisy_density(ballot, labels, noise).sums],
        scale_int=noise.sigma_int,
        claimed=1 / noise.noise_multiplier,
        delta=noise.delta,
    )


def few_phrases(noise: KeyphraseNoise) -> KeyphraseNoise:
    """Return noise with the same ratio to a document's contribution, for one term or one frequency of one density."""
    few = replace(noise.privacy, terms=1, frequencies=1, members=1)
    ratio = document_sensitivity(few) / noise.sensitivity
    return replace(
        noise,
        privacy=few,
        scale=noise.scale * ratio,
        scale_int=noise.scale_int * ratio,
        sensitivity=noise.sensitivity * ratio,
    )


def keyphrase_case(noise: KeyphraseNoise) -> SumsCase:
    """Return the attack on a part of DP-KPS; the canary is a document."""
    privacy = noise.privacy
    if privacy.part == "vocabulary":
        sides: tuple[Any, Any] = canary_terms(privacy)
        clean = partial(keyphrase_release.clean_vocabulary, size=2 * privacy.terms, noise=noise)
        draw = partial(keyphrase_release.noisy_vocabulary, size=2 * privacy.terms, noise=noise)
    else:
        features = canary_features(privacy)
        sides = features[:-1], features
        clean = partial(_of_one_class, keyphrase_release.clean_density, noise)
        draw = partial(_of_one_class, keyphrase_release.noisy_density, noise)
    return _case(f"whose document, by the {privacy.part}", noise, sides, clean, draw, laplace=not noise.gaussian)


def _of_one_class(release: Callable[..., Any], noise: KeyphraseNoise, features: Floats) -> Any:
    return release(features, [0] * len(features), 1, noise)


def canary_terms(privacy: PartPrivacy) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]:
    """Return the terms of some documents, and the same with the canary's S terms; ``paper`` counts repeated ones."""
    others = ((0, 1), (1,))
    return others, (*others, (0,) * privacy.terms if privacy.setting == "paper" else tuple(range(privacy.terms)))


def canary_features(privacy: PartPrivacy) -> Floats:
    """Return the features of some documents, the canary last, which has M keyphrases at one point.

    The point maximises the length of the features: at 45 degrees of every pair, or, for the printed features, at the
    maximum of every cosine.
    """
    dimension = max(8, privacy.width)
    rng = np.random.default_rng(0)
    paper = privacy.setting == "paper"
    weights = rng.standard_normal((privacy.frequencies * (2 if paper else 1), dimension))
    phases = rng.uniform(0, 2 * np.pi, len(weights)) if paper else None
    frequencies = keyphrase_release.Frequencies(weights, phases)
    angles = -phases if phases is not None else np.full(len(weights), np.pi / 4)
    point = np.linalg.lstsq(np.sqrt(2.0) * weights, angles, rcond=None)[0]
    others = [rng.standard_normal((privacy.keyphrases, dimension)) for _ in range(OTHERS)]
    documents = (*others, np.tile(point, (privacy.keyphrases, 1)))
    rows = [keyphrase_release.document_features(document, frequencies, privacy) for document in documents]
    return np.tile(np.array(rows), (1, privacy.members))


def few_queries(noise: PartNoise) -> PartNoise:
    """Return noise with the same ratio to a row's effect, for at most FEW queries."""
    if noise.privacy.part == "labels":
        return noise
    few = replace(noise.privacy, numbers=min(FEW, noise.privacy.numbers))
    ratio = part_sensitivity(few) / noise.sensitivity
    return replace(noise, privacy=few, scale=noise.scale * ratio, sensitivity=noise.sensitivity * ratio)


def teacher_case(noise: PartNoise) -> SumsCase:
    """Return the attack on label counts, answers or checks; the canary is a row, or the teacher that it changes."""
    privacy = noise.privacy
    if privacy.part == "labels":
        labels = CLASSES[:1] + CLASSES[1:] * (OTHERS - 1)
        sides: tuple[Any, Any] = labels, (*labels, CLASSES[0])
        clean: Any = partial(label_counts.clean_labels, classes=CLASSES, noise=noise)
        draw: Any = partial(label_counts.noisy_labels, classes=CLASSES, noise=noise)
    else:
        checks = privacy.part == "checks"
        # the highest sum moves only if the others agree already
        others = (np.full(privacy.numbers, 1.0 if checks else 0.5),) * OTHERS
        sides = (*others, np.zeros(privacy.numbers)), (*others, np.ones(privacy.numbers))
        clean = teachers.clean_checks if checks else teachers.clean_answers
        draw = partial(teachers.noisy_checks if checks else teachers.noisy_answers, noise=noise)
    what = f"who took part, by {privacy.part}"
    return _case(what, noise, sides, clean, draw, laplace=privacy.kind == "laplace")


def _case(
    what: str,
    noise: KeyphraseNoise | PartNoise,
    sides: tuple[Any, Any],
    clean: Callable[[Any], CleanSums],
    draw: Callable[[Any], NoisySums],
    laplace: bool,
) -> SumsCase:
    return SumsCase(
        what=what,
        sides=sides,
        clean=lambda side: clean(side).sums,
        draw=lambda side: [draw(side).sums],
        scale_int=noise.scale_int,
        claimed=noise.epsilon_exact if laplace else noise.sensitivity / noise.scale,
        delta=noise.delta,
        laplace=laplace,
    )
