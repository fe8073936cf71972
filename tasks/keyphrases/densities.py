"""Densities of keyphrase sequences: kernels, their random Fourier features, and which density answers for which prefix.

DP-KPS (Nagesh et al. 2025) estimates, per class, how close documents come to a sequence of phrases:
k(x, y) = exp(-|x - y|^2) on the vectors of the phrases side by side, each of squared length `block` (u in the paper).
A prefix shorter than the density's sequences is padded with zeros: with equally long phrase vectors that multiplies
every kernel value by the same exp(-u * (phrases that are missing)), so that chances in proportion stay what they are
(Theorem A.1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from connectors.interfaces.errors import ConfigError
from tasks.text.prompts import seed_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

Sampling = Literal["independent", "iterative"]
Ensemble = Literal["linear", "logarithmic"]


@dataclass(frozen=True, slots=True)
class Shape:
    """Which densities there are; every number is public.

    `length`: phrases of a sequence (L). `frequencies`: D. `block`: squared length of a phrase's vector (u).
    `paired`: features are pairs (cos, sin); else sqrt(2) cos(. + phase), as printed.
    """

    sampling: Sampling
    ensemble: Ensemble
    length: int
    frequencies: int
    block: float
    paired: bool = True

    @property
    def members(self) -> tuple[int, ...]:
        """How many phrases the sequences of each density have, shortest first.

        Independent: 1. Linear: 1, 2, ..., L. Logarithmic: 2, 4, 8, ... and L at last, so that a prefix fills at least
        half of its density's sequences.
        """
        if self.sampling == "independent":
            return (1,)
        if self.ensemble == "linear":
            return tuple(range(1, self.length + 1))
        powers = range(1, max(1, math.ceil(math.log2(self.length))) + 1)
        return tuple(min(2**power, self.length) for power in powers)

    def member_for(self, phrases: int) -> int:
        """Return the place of the density that is asked about `phrases` phrases: the smallest that holds them."""
        for place, held in enumerate(self.members):
            if held >= phrases:
                return place
        raise ConfigError(f"No density holds {phrases} phrases; method.length is {self.length}.")

    @property
    def features(self) -> int:
        """How many numbers one density sums up."""
        return 2 * self.frequencies


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """The public side of one density: `angles` (places, terms, F), of each term at each place of a sequence.

    The angle of a sequence is the sum over its places; `phases` (F,) are added where features are not paired.
    """

    angles: Floats
    phases: Floats | None = None

    @property
    def places(self) -> int:
        """How many phrases its sequences have."""
        return len(self.angles)

    def of(self, sequences: Ints) -> Floats:
        """Return the angles of sequences (n, up to `places`), shape (n, F); missing phrases are zeros."""
        found = np.zeros((len(sequences), self.angles.shape[2]))
        for place in range(sequences.shape[1]):
            found += self.angles[place, sequences[:, place]]
        return found


def members_of(shape: Shape, vectors: Floats, seed: int) -> list[Member]:
    """Draw the public frequencies of every density and return the angles of the terms; `vectors` (terms, dimension).

    Raises ConfigError for a term without a vector: equal lengths are what padding stands on.
    """
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not (np.isfinite(lengths).all() and (lengths > 0).all()):
        raise ConfigError("A term of the vocabulary has no vector of its own; take another vocabulary.embedder.")
    scaled = np.asarray(vectors / lengths, dtype=np.float64) * math.sqrt(2 * shape.block)
    return [_member(shape, scaled, held, seed) for held in shape.members]


def _member(shape: Shape, scaled: Floats, held: int, seed: int) -> Member:
    rng = np.random.default_rng(seed_of("frequencies", seed, held))
    wide = shape.frequencies if shape.paired else shape.features
    angles = np.stack([scaled @ rng.standard_normal((wide, scaled.shape[1])).T for _ in range(held)])
    return Member(angles, None if shape.paired else rng.uniform(0, 2 * np.pi, wide))


def windows(phrases: Sequence[int], held: int) -> Ints:
    """Return a document's sequences of `held` phrases, (phrases, held): one begins at each phrase, going round."""
    first = np.arange(len(phrases))[:, None] + np.arange(held)[None, :]
    found = np.asarray(phrases, dtype=np.int64)[first % max(len(phrases), 1)]
    return np.asarray(found.reshape(len(phrases), held), dtype=np.int64)
