"""Computes the two releases of DP-KPS: the contribution of each document, clean sums and noisy sums.

The vocabulary histogram counts the documents that contain each public term. The density contains, per class, sums of
random Fourier features of keyphrase vectors (Wagner et al. 2023). They are sums, never means: a sequence is drawn with
probability proportional to <sums, features>, so the private number of documents is not needed.
tasks/accounting/keyphrases.py bounds the contribution of one document; every function here respects that bound for any
input.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from connectors.interfaces.errors import ConfigError
from tasks.private.noise.discrete import add_discrete_gaussian, add_discrete_laplace
from tasks.private.noise.packed import pack, unpack
from tasks.private.voting.ballot import Unprintable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tasks.accounting.keyphrases import KeyphraseNoise, PartPrivacy

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

MAGIC: Final = b"KPS-SUMS"

WIDTH: Final = (
    "The density needs noise calibrated for it and {width} features of each document; calibrate with the same "
    "frequencies and members."
)

LONGEST: Final = 1e9
"""Features are clipped to this value to prevent overflow of squares; a clipped document is still too long to count."""


@dataclass(frozen=True, slots=True, eq=False)
class NoisySums:
    """The output of a release: noisy integers `sums` (rows, width); one count, or a feature of 1, is `steps` steps.

    Vocabulary: one row, a number per term. Density: a row per class. `scale_int`: scale of the noise in steps.
    """

    sums: Ints
    steps: int
    scale_int: float

    def to_bytes(self) -> bytes:
        """Serialise the sums; equal sums give the same bytes on every machine."""
        return pack(MAGIC, (self.steps, self.scale_int, len(self.sums)), (self.sums.ravel(),))

    def columns(self) -> dict[str, Ints]:
        """Return table columns: row, position (of a term or a feature), sum."""
        rows, width = self.sums.shape
        return {
            "row": np.repeat(np.arange(rows), width),
            "position": np.tile(np.arange(width), rows),
            "sum": self.sums.ravel(),
        }

    @classmethod
    def from_bytes(cls, stored: bytes) -> NoisySums:
        """Return the sums of `to_bytes`; ArtifactError if damaged or another type."""
        (steps, scale_int, rows), (flat,) = unpack(MAGIC, stored)
        return cls(flat.reshape(int(rows), -1), int(steps), scale_int)


class CleanSums(Unprintable):
    """Sums without noise: `sums` (rows, width) int64. As private as the documents; cannot be stored."""

    __slots__ = ("sums",)

    def __init__(self, sums: Ints) -> None:
        self.sums = sums


@dataclass(frozen=True, slots=True, eq=False)
class Frequencies:
    """Public random frequencies: `weights` (F, d), and `phases` (F,) for the paper's unpaired features."""

    weights: Floats
    phases: Floats | None = None

    def features(self, vectors: Floats) -> Floats:
        """Return the features of vectors (n, d), shape (n, 2 D).

        Pairs (cos, sin), or sqrt(2) cos(. + phase).
        """
        # A vector that is not finite must cause no warning: its features are not finite either, and add nothing.
        with np.errstate(all="ignore"):
            return features_at(np.sqrt(2.0) * (np.asarray(vectors, dtype=np.float64) @ self.weights.T), self.phases)


def features_at(angles: Floats, phases: Floats | None) -> Floats:
    """Return the features of points by their angles (n, F), shape (n, 2 D).

    Pairs (cos, sin), or sqrt(2) cos(. + phase) if `phases` are given.
    """
    if phases is None:
        return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    return np.asarray(np.sqrt(2.0) * np.cos(angles + phases))


def document_features(vectors: Floats, frequencies: Frequencies, privacy: PartPrivacy) -> Floats:
    """Return a document's contribution: average features of its first M keyphrases.

    `vectors` (k, d), divided by the bandwidth. A document without keyphrases adds nothing. ``paper``: the sum instead
    of the average.
    """
    return contribution(frequencies.features(np.asarray(vectors, dtype=np.float64)[: privacy.keyphrases]), privacy)


def contribution(features: Floats, privacy: PartPrivacy) -> Floats:
    """Return a document's contribution from the features of its points (k, width).

    It is the average of at most M points, zero without points. ``paper``: their sum.
    """
    points = features[: privacy.keyphrases]
    if not len(points):
        return np.zeros(features.shape[1])
    return np.asarray(points.sum(axis=0) if privacy.setting == "paper" else points.mean(axis=0))


def clean_vocabulary(documents: Sequence[Sequence[int]], size: int, noise: KeyphraseNoise) -> CleanSums:
    """Return the histogram without noise, (1, size).

    Each document counts for its first S distinct terms. Terms outside the vocabulary are ignored. ``paper``: the first
    S terms, including repeated ones.
    """
    counts = np.zeros((1, size), dtype=np.int64)
    for terms in documents:
        in_vocabulary = [term for term in terms if 0 <= term < size]
        counted = in_vocabulary if noise.privacy.setting == "paper" else list(dict.fromkeys(in_vocabulary))
        np.add.at(counts[0], counted[: noise.privacy.terms], noise.steps)
    return CleanSums(counts)


def noisy_vocabulary(documents: Sequence[Sequence[int]], size: int, noise: KeyphraseNoise) -> NoisySums:
    """Return the noisy histogram of vocabulary terms over documents, (1, size).

    `documents`: term ids in order. Raises ConfigError if the noise was calibrated for the other part.
    """
    if noise.privacy.part != "vocabulary":
        raise ConfigError("The vocabulary needs noise calibrated for it, not for the density.")
    return _noisy(clean_vocabulary(documents, size, noise), noise)


def clean_density(features: Iterable[Floats], classes: Sequence[int], number: int, noise: KeyphraseNoise) -> CleanSums:
    """Return the sums of features without noise, a row for each of `number` classes.

    `features`: (width,) per document, the concatenated contributions to all ensemble members. They are rounded to
    integer steps. A document adds nothing if its features are longer than the sensitivity allows or not finite, or if
    it has no class. Raises ConfigError for features of another width, which no document can cause.
    """
    sums = np.zeros((number, noise.privacy.width), dtype=np.int64)
    for row, label in zip(features, classes, strict=True):
        if row.shape != (noise.privacy.width,):
            raise ConfigError(WIDTH.format(width=noise.privacy.width))
        rounded = np.rint(np.clip(row, -LONGEST, LONGEST) * noise.steps)
        if 0 <= label < number and _allowed(rounded, noise):
            sums[label] += rounded.astype(np.int64)
    return CleanSums(sums)


def noisy_density(features: Iterable[Floats], classes: Sequence[int], number: int, noise: KeyphraseNoise) -> NoisySums:
    """Return the noisy sums of features per class, (number, width).

    A document belongs to one class, so all classes are one release. Raises ConfigError if the noise was calibrated for
    the other part or another width.
    """
    if noise.privacy.part != "density":
        raise ConfigError(WIDTH.format(width=noise.privacy.width))
    return _noisy(clean_density(features, classes, number, noise), noise)


def _allowed(rounded: Floats, noise: KeyphraseNoise) -> bool:
    """Return whether a contribution is within the sensitivity.

    Replacing a document changes the sums by up to twice as much as adding one.
    """
    privacy = noise.privacy
    most = noise.sensitivity * noise.steps / (2.0 if privacy.adjacency == "replace_one" else 1.0)
    length = np.sqrt((rounded**2).sum()) if noise.gaussian else np.abs(rounded).sum()
    return bool(length <= most)


def _noisy(clean: CleanSums, noise: KeyphraseNoise) -> NoisySums:
    add = add_discrete_gaussian if noise.gaussian else add_discrete_laplace
    return NoisySums(add(clean.sums, noise.scale_int), noise.steps, noise.scale_int)
