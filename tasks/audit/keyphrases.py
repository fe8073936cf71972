"""Attacks on the two releases of DP-KPS with a synthetic document.

The document has the largest allowed contribution. Under Gaussian noise the attacker projects on the document's
contribution, as in tasks/audit/attacks.py. Under Laplace noise the likelihood ratio is summed over all numbers and
compared with a threshold that was fixed beforehand, on noise of the claimed scale; the bound is on epsilon itself.
Small `terms` and `frequencies` of the promise are best here: the promise holds for any number of them, and with fewer
of them an attack can prove more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from connectors.interfaces.progress import Advance
from tasks.accounting.composition import gaussian_epsilon
from tasks.accounting.keyphrases import KeyphraseNoise, PartPrivacy
from tasks.audit.attacks import Attack
from tasks.audit.bounds import (
    CONFIDENCE,
    Finding,
    check_noise,
    describe_errors,
    epsilon_bound,
    gaussian_finding,
    ignore_progress,
    likely_bound,
    run_sides,
)
from tasks.private.releases.keyphrase_release import (
    Frequencies,
    NoisySums,
    clean_density,
    clean_vocabulary,
    document_features,
    noisy_density,
    noisy_vocabulary,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

PILOT: Final = 20_000
"""Draws of the claimed noise that fix the threshold, before any release is used."""


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """Synthetic documents as one part reads them: terms of each, or features of each.

    All of one class.
    """

    terms: tuple[tuple[int, ...], ...] = ()
    features: Floats | None = None
    size: int = 0


Mechanism = Callable[[Corpus, KeyphraseNoise], list[NoisySums]]
"""All releases of one part in one run."""


def release_of_a_run(corpus: Corpus, noise: KeyphraseNoise) -> list[NoisySums]:
    """Return the releases of a run about some documents: one release of the part."""
    if corpus.features is None:
        return [noisy_vocabulary(corpus.terms, corpus.size, noise)]
    return [noisy_density(corpus.features, [0] * len(corpus.features), 1, noise)]


def audit_keyphrases(
    noise: KeyphraseNoise,
    trials: int = 1000,
    run: Mechanism = release_of_a_run,
    advance: Advance = ignore_progress,
    confidence: float = CONFIDENCE,
) -> list[Finding]:
    """Attack one part `2 * trials` times.

    Return findings on its strength, freshness and number of releases. All data is synthetic: no private document is
    opened and no budget spent.
    """
    others, both = canary_corpus(noise.privacy)
    baseline = _clean(others, noise)
    direction = (_clean(both, noise) - baseline).astype(np.float64)

    def release(corpus: Corpus) -> list[Ints]:
        return [sums.sums for sums in run(corpus, noise)]

    sides = run_sides(release, (others, both), baseline, trials, advance)
    what = f"whose document, by the {noise.privacy.part}"
    if noise.gaussian:
        strength = gaussian_finding(what, noise.sensitivity / noise.scale, sides, direction, 1, confidence)
    else:
        strength = laplace_finding(what, noise, sides, direction, confidence)
    return [strength, *check_noise(sides, 1, trials)]


def keyphrase_attack(name: str, noise: KeyphraseNoise, trials: int, confidence: float) -> Attack:
    """Return the attack on one part of DP-KPS."""

    def run(trials: int, confidence: float, advance: Advance) -> list[Finding]:
        return audit_keyphrases(noise, trials, advance=advance, confidence=confidence)

    return Attack(name, noise, trials, confidence, run=run, likely=partial(likely_epsilon, noise))


def likely_epsilon(noise: KeyphraseNoise, trials: int, confidence: float = CONFIDENCE) -> float:
    """Return the median epsilon that `trials` trials prove for a sound mechanism."""
    if noise.gaussian:
        reach = 0.5 if noise.privacy.adjacency == "replace_one" else 1.0
        mu = likely_bound(reach * noise.sensitivity / noise.scale, trials, confidence)
        return gaussian_epsilon(mu, noise.delta) if mu > 0 else 0.0
    others, both = canary_corpus(noise.privacy)
    direction = (_clean(both, noise) - _clean(others, noise)).astype(np.float64)
    return laplace_threshold(noise, direction, trials, confidence)[1]


def canary_corpus(privacy: PartPrivacy) -> tuple[Corpus, Corpus]:
    """Return some documents, and the same with the canary.

    The canary has S distinct terms, or M keyphrases at one point. The point maximises the length of the features: at 45
    degrees of every pair, or, for the printed features, at the maximum of every cosine. ``paper`` counts repeated
    terms, hence its canary repeats one.
    """
    if privacy.part == "vocabulary":
        distinct = tuple(range(privacy.terms))
        own = (0,) * privacy.terms if privacy.setting == "paper" else distinct
        other = ((0, 1), (1,))
        return Corpus(other, size=2 * privacy.terms), Corpus((*other, own), size=2 * privacy.terms)
    dimension = max(8, privacy.width)
    rng = np.random.default_rng(0)
    paper = privacy.setting == "paper"
    weights = rng.standard_normal((privacy.frequencies * (2 if paper else 1), dimension))
    phases = rng.uniform(0, 2 * np.pi, len(weights)) if paper else None
    frequencies = Frequencies(weights, phases)
    angles = -phases if phases is not None else np.full(len(weights), np.pi / 4)
    point = np.linalg.lstsq(np.sqrt(2.0) * weights, angles, rcond=None)[0]
    others = [rng.standard_normal((privacy.keyphrases, dimension)) for _ in range(3)]
    documents = (*others, np.tile(point, (privacy.keyphrases, 1)))
    rows = [document_features(document, frequencies, privacy) for document in documents]
    all_features = np.tile(np.array(rows), (1, privacy.members))
    return Corpus(features=all_features[:-1]), Corpus(features=all_features)


def _clean(corpus: Corpus, noise: KeyphraseNoise) -> Ints:
    if corpus.features is None:
        return clean_vocabulary(corpus.terms, corpus.size, noise).sums
    return clean_density(corpus.features, [0] * len(corpus.features), 1, noise).sums


class LaplaceNoise(Protocol):
    """The properties of Laplace noise that an attack needs."""

    @property
    def scale_int(self) -> float:
        """Scale in integer steps."""

    @property
    def epsilon_exact(self) -> float:
        """The claimed epsilon."""


def laplace_finding(
    what: str, noise: LaplaceNoise, sides: tuple[Floats, Floats], direction: Floats, confidence: float
) -> Finding:
    """Decide who took part by the likelihood ratio of outputs.

    `sides`: outputs without and with the canary.
    """
    without, with_canary = (_ratio(side, direction, noise) for side in sides)
    threshold, _ = laplace_threshold(noise, direction, len(without), confidence)
    errors = int((without >= threshold).sum()), int((with_canary < threshold).sum())
    bound = epsilon_bound(*errors, len(without), confidence)
    claimed = noise.epsilon_exact
    remark = describe_errors(errors, len(without))
    return Finding(what, claimed, bound, len(without), bound <= claimed, remark, unit="epsilon")


def _ratio(side: Floats, direction: Floats, noise: LaplaceNoise) -> Floats:
    """Return the log-likelihood ratio of each run, with to without canary, (runs,)."""
    per_number = (np.abs(side) - np.abs(side - direction)) / noise.scale_int
    return np.asarray(per_number.sum(axis=tuple(range(1, side.ndim))))


def laplace_threshold(noise: LaplaceNoise, direction: Floats, trials: int, confidence: float) -> tuple[float, float]:
    """Return the threshold that proves most about a sound mechanism, and its bound.

    No release is used.
    """
    moved = direction[direction != 0][None]
    rng = np.random.default_rng(0)
    chance = -np.expm1(-1 / noise.scale_int)
    shape = (max(1000, min(PILOT, 20_000_000 // max(moved.size, 1))), moved.size)
    drawn = (rng.geometric(chance, shape) - rng.geometric(chance, shape)).astype(np.float64)
    without, with_canary = _ratio(drawn, moved, noise), _ratio(drawn + moved, moved, noise)
    best = (0.0, 0.0)
    for threshold in np.quantile(with_canary, np.linspace(0.02, 0.98, 49)) - 1e-9:
        alarms, misses = (without >= threshold).mean(), (with_canary < threshold).mean()
        bound = epsilon_bound(round(alarms * trials), round(misses * trials), trials, confidence)
        best = max(best, (bound, float(threshold)))
    return best[1], best[0]
