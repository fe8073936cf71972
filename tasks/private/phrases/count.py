"""Releases the two parts of DP-KPS: document counts of public terms, densities of documents near term sequences.

The vocabulary histogram counts the documents that contain each public term. The density contains, per class, sums of
random Fourier features of keyphrase vectors (Wagner et al. 2023; Nagesh et al. 2025). They are sums, never means: a
sequence is drawn with probability proportional to <sums, features>, so the private number of documents is not needed.
A document's contribution depends on that document, on public terms and on public frequencies only. `PartPrivacy` of
tasks/private/phrases/promise.py bounds it; every function here respects that bound for any input.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.errors import ConfigError
from tasks.accounting.integer_noise import SumNoise
from tasks.private.phrases.features import DensityMember, windows
from tasks.private.phrases.promise import PartPrivacy
from tasks.private.rows.rows import open_rows
from tasks.private.sums import OTHERS, AttackInputs, CleanSums, SumJob, require_part, write_sums
from tasks.steps.tools import Tools
from tasks.writing.vocabulary import Matcher, Vocabulary

Floats = NDArray[np.float64]

MAX_FEATURE: Final = 1e9
"""Features are clipped to this value to prevent overflow of squares; a clipped document is still too long to count."""


def release_vocabulary(
    tools: Tools, job: SumJob[PartPrivacy], vocabulary: Vocabulary
) -> tuple[ArtifactRef, str]:
    """Write noisy document counts of each term, drawn now or read from the ledger.

    A document counts for its first S distinct terms.
    """
    matcher = vocabulary.matcher

    def clean() -> CleanSums:
        rows = open_rows(tools.zone, tools.private, job.payer.fingerprint)
        documents = [matcher.find(text) for text in rows.texts]
        return clean_vocabulary(documents, len(vocabulary.terms), job.noise)

    return write_sums(tools, job, clean)


def release_density(
    tools: Tools,
    job: SumJob[PartPrivacy],
    vocabulary: Vocabulary,
    members: Sequence[DensityMember],
    labels: Sequence[str],
) -> tuple[ArtifactRef, str]:
    """Write noisy feature sums per class and density, drawn now or read from the ledger.

    `vocabulary`: the private vocabulary, released before. A document adds the average over the sequences of its first M
    distinct phrases from it.
    """
    matcher = vocabulary.matcher
    codes = {label: code for code, label in enumerate(labels)}

    def clean() -> CleanSums:
        rows = open_rows(tools.zone, tools.private, job.payer.fingerprint)
        features = _features(rows.texts, matcher, members, job.noise.privacy)
        return clean_density(
            features, [codes.get(label, -1) for label in rows.labels], len(labels), job.noise
        )

    return write_sums(tools, job, clean)


def features_at(angles: Floats, phases: Floats | None) -> Floats:
    """Return the features of points by their angles (n, F), shape (n, 2 D).

    Pairs (cos, sin), or sqrt(2) cos(. + phase) if `phases` are given.
    """
    if phases is None:
        return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    return np.asarray(np.sqrt(2.0) * np.cos(angles + phases))


def contribution(features: Floats, privacy: PartPrivacy) -> Floats:
    """Return a document's contribution from the features of its points (k, width).

    It is the average of at most M points, zero without points. ``paper``: their sum.
    """
    points = features[: privacy.keyphrases]
    if not len(points):
        return np.zeros(features.shape[1])
    if privacy.setting == "paper":
        return np.asarray(points.sum(axis=0))
    # An average is no longer than its longest point, so the number of phrases does not enter the sensitivity.
    return np.asarray(points.mean(axis=0))


def clean_vocabulary(
    documents: Sequence[Sequence[int]], size: int, noise: SumNoise[PartPrivacy]
) -> CleanSums:
    """Return the histogram without noise, (1, size).

    Each document counts for its first S distinct terms. Terms outside the vocabulary are ignored. ``paper``: the first
    S terms, including repeated ones.
    """
    require_part(noise, "vocabulary")
    counts = np.zeros((1, size), dtype=np.int64)
    for terms in documents:
        counted = [term for term in terms if 0 <= term < size]
        if noise.privacy.setting != "paper":
            # sqrt(S) bounds S distinct terms; one term counted S times would move the counts by S.
            counted = list(dict.fromkeys(counted))
        # add.at, because a plain += counts a repeated index once.
        np.add.at(counts[0], counted[: noise.privacy.terms], noise.privacy.steps)
    return CleanSums(counts)


def clean_density(
    features: Iterable[Floats], classes: Sequence[int], number: int, noise: SumNoise[PartPrivacy]
) -> CleanSums:
    """Return the sums of features without noise, a row for each of `number` classes.

    `features`: (width,) per document, the concatenated contributions to all ensemble members. They are rounded to
    integer steps. A document adds nothing if its features are longer than the sensitivity allows or not finite, or if
    it has no class. Raises ConfigError for features of another width, which no document can cause.
    """
    require_part(noise, "density")
    sums = np.zeros((number, noise.privacy.width), dtype=np.int64)
    for row, label in zip(features, classes, strict=True):
        if row.shape != (noise.privacy.width,):
            raise ConfigError(
                f"The noise of the density covers {noise.privacy.width} features of each document, but it has "
                f"{row.size}; calibrate with the same frequencies and members."
            )
        rounded = np.rint(np.clip(row, -MAX_FEATURE, MAX_FEATURE) * noise.privacy.steps)
        if 0 <= label < number and _allowed(rounded, noise):
            sums[label] += rounded.astype(np.int64)
    return CleanSums(sums)


def _allowed(rounded: Floats, noise: SumNoise[PartPrivacy]) -> bool:
    """Return whether a contribution is within the sensitivity.

    Replacing a document changes the sums by up to twice as much as adding one.
    """
    most = noise.sensitivity * noise.privacy.steps
    if noise.privacy.adjacency == "replace_one":
        most /= 2
    length = np.abs(rounded).sum()
    if noise.kind == "gaussian":
        length = np.sqrt((rounded**2).sum())
    # False for NaN, so a document whose features are not finite adds nothing.
    return bool(length <= most)


def _features(
    texts: Sequence[str], matcher: Matcher, members: Sequence[DensityMember], privacy: PartPrivacy
) -> Iterator[Floats]:
    for text in texts:
        phrases = matcher.distinct(text, privacy.keyphrases)
        points = [
            features_at(member.of(windows(phrases, member.places)), member.phases)
            for member in members
        ]
        yield np.concatenate([contribution(of_member, privacy) for of_member in points])


def vocabulary_canary(noise: SumNoise[PartPrivacy]) -> AttackInputs:
    """Return the attack: the canary is a document with S terms; ``paper`` counts repeated ones."""
    terms = noise.privacy.terms
    others = ((0, 1), (1,))
    canary = tuple(range(terms))
    if noise.privacy.setting == "paper":
        canary = (0,) * terms
    return AttackInputs(
        others, (*others, canary), lambda documents: clean_vocabulary(documents, 2 * terms, noise)
    )


def density_canary(noise: SumNoise[PartPrivacy]) -> AttackInputs:
    """Return the attack: the canary is a document with M keyphrases at one point of the longest features.

    The point is at 45 degrees of every pair, or, for the printed features, at the maximum of every cosine.
    """
    privacy = noise.privacy
    if privacy.setting == "paper":
        shape = privacy.keyphrases, 2 * privacy.frequencies
        phases = np.zeros(shape[1])
        highest = 0.0
    else:
        shape = privacy.keyphrases, privacy.frequencies
        phases = None
        # The L1 norm of (cos, sin) is largest here; the L2 norm is 1 everywhere.
        highest = np.pi / 4
    circle = np.linspace(0, 2 * np.pi, OTHERS * shape[0] * shape[1], endpoint=False).reshape(
        OTHERS, *shape
    )
    points = [
        contribution(features_at(angles, phases), privacy)
        for angles in (*circle, np.full(shape, highest))
    ]
    documents = np.tile(np.array(points), (1, privacy.members))
    return AttackInputs(
        documents[:-1], documents, lambda rows: clean_density(rows, [0] * len(rows), 1, noise)
    )
