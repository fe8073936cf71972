"""Kernels of keyphrase sequences, and the random Fourier features that approximate them.

DP-KPS (Nagesh et al. 2025) estimates, per class, the similarity of documents to a sequence of phrases: k(x, y) =
exp(-|x - y|^2) on the concatenated vectors of the phrases, each of squared length u. A prefix shorter than the
density's sequences is padded with zeros. With phrase vectors of equal length this multiplies every kernel value by the
same exp(-u * (number of missing phrases)). Probabilities proportional to kernel values are therefore unchanged
(Theorem A.1). Appendix A.2 ("Bandwidth selection") sets u by density: 1 for single phrases, 2/L' for sequences of L'
phrases, up to half of which may be missing.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from connectors.interfaces.errors import ConfigError
from tasks.writing.prompts import seed_of

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

Sampling = Literal["independent", "iterative"]
Ensemble = Literal["logarithmic", "linear"]
FREQUENCIES = 500
"""Random Fourier frequencies of a density (D); the paper states no number."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Number and size of the densities; every number is public.

    `length`: phrases of a sequence (L). `frequencies`: D. `block`: squared length of a phrase's vector (u) in all
    densities; None: as in the paper, by density. `paired`: features are pairs (cos, sin); else sqrt(2) cos(. + phase),
    as printed. `ensemble`: which densities iterative sampling has (appendix A.2).
    """

    sampling: Sampling
    length: int
    frequencies: int = FREQUENCIES
    block: float | None = None
    paired: bool = True
    ensemble: Ensemble = "logarithmic"

    @property
    def members(self) -> tuple[int, ...]:
        """Number of phrases in the sequences of each density, shortest first.

        Independent: 1. Iterative, the logarithmic ensemble: 2, 4, 8, ..., and finally L, where the paper has the next
        power of 2: a prefix fills at least half of its density's sequences. The linear one: 1, 2, 3, ..., L.
        """
        if self.sampling == "independent":
            return (1,)
        if self.ensemble == "linear":
            return tuple(range(1, self.length + 1))
        powers = range(1, max(1, math.ceil(math.log2(self.length))) + 1)
        return tuple(min(2**power, self.length) for power in powers)

    def member_for(self, phrases: int) -> int:
        """Return the index of the smallest density that covers `phrases` phrases, at most `length`."""
        return next(index for index, covered in enumerate(self.members) if covered >= phrases)

    def block_of(self, phrases: int) -> float:
        """Return the squared length of a phrase's vector (u) in the density of sequences of `phrases` phrases."""
        if self.block is not None:
            return self.block
        # Appendix A.2: 2/L' in the logarithmic ensemble, where half of a sequence may be missing.
        if self.sampling == "iterative" and self.ensemble == "logarithmic" and phrases > 1:
            return 2.0 / phrases
        return 1.0 / phrases

    @property
    def parameters(self) -> dict[str, object]:
        """Parameters of step keys."""
        return asdict(self)

    @property
    def features(self) -> int:
        """Number of values that one density sums up."""
        return 2 * self.frequencies


@dataclass(frozen=True, slots=True, eq=False)
class DensityMember:
    """Public data of one density.

    `angles` (places, terms, F): the angle of each term at each position of a sequence. The angle of a sequence is the
    sum over its places. `phases` (F,) are added to features that are not paired.
    """

    angles: Floats
    phases: Floats | None = None

    @property
    def places(self) -> int:
        """Number of phrases in a sequence."""
        return len(self.angles)

    def of(self, sequences: Ints) -> Floats:
        """Return the angles of sequences (n, up to `places`), shape (n, F).

        Missing phrases are zeros.
        """
        total = np.zeros((len(sequences), self.angles.shape[2]))
        for position in range(sequences.shape[1]):
            total += self.angles[position, sequences[:, position]]
        return total


def members_of(shape: Shape, vectors: Floats, seed: int) -> list[DensityMember]:
    """Draw the public frequencies of every density and return the angles of the terms.

    `vectors` (terms, dimension). Raises ConfigError for a term without a vector: padding requires equal lengths.
    """
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not (np.isfinite(lengths).all() and (lengths > 0).all()):
        raise ConfigError(
            "vocabulary.embedder: a term of the vocabulary has no vector. Use another embedder."
        )
    unit = np.asarray(vectors / lengths, dtype=np.float64)
    return [_member(shape, unit, length, seed) for length in shape.members]


def _member(shape: Shape, unit: Floats, length: int, seed: int) -> DensityMember:
    # exp(-|x - y|^2) is the Fourier transform of a normal density of variance 2 (Rahimi and Recht 2007).
    scaled = unit * math.sqrt(2 * shape.block_of(length))
    rng = np.random.default_rng(seed_of("frequencies", seed, length))
    # A pair (cos, sin) needs one frequency for two features.
    wide = shape.features
    if shape.paired:
        wide = shape.frequencies
    # Keys contain the seed, not the frequencies, so the order of these draws is fixed.
    angles = np.stack(
        [scaled @ rng.standard_normal((wide, scaled.shape[1])).T for _ in range(length)]
    )
    phases = None
    if not shape.paired:
        phases = rng.uniform(0, 2 * np.pi, wide)
    return DensityMember(angles, phases)


def windows(phrases: Sequence[int], length: int) -> Ints:
    """Return a document's cyclic sequences of `length` phrases, one from each phrase.

    Shape (phrases, length).
    """
    positions = np.arange(len(phrases))[:, None] + np.arange(length)[None, :]
    chosen = np.asarray(phrases, dtype=np.int64)[positions % max(len(phrases), 1)]
    return np.asarray(chosen.reshape(len(phrases), length), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class SequenceChoice:
    """Sampling rule of a phrase.

    Among the `top` best by estimate (0: all), with probability proportional to estimate^`sharpness`. `repeats`: a
    phrase may occur again in its sequence.
    """

    top: int = 0
    sharpness: float = 1.0
    repeats: bool = False
