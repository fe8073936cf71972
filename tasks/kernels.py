"""Kernels of texts' vectors and their features: how a text adds to a mean embedding, never longer than 1.

The mean embedding of a set of texts is the average of its features; with the features of the cosine kernel it holds
the average of their vectors, with random Fourier features (Rahimi and Recht 2007) that of a Gaussian kernel. One
feature is constant, so that a sum of features also tells of how many texts it is the sum. Everything here is public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

KernelName = Literal["cosine", "gaussian"]

COUNTING: Final = 0.1
"""Part of a text's squared length that its constant feature has."""

FREQUENCIES: Final = 300
"""Random frequencies of the Gaussian kernel, a pair of features each."""

BANDWIDTH: Final = 0.8
"""Of exp(-|x - y|^2 / (2 BANDWIDTH^2)) on vectors of length 1."""

DRAWN_BY: Final = 20260101
"""Seed of the frequencies: public, and the same in every run, so that one release serves all of them."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel: its name says all, so that it stands in keys and in files of releases."""

    name: KernelName = "cosine"

    def features(self, vectors: NDArray[np.floating]) -> Floats:
        """Return the features of vectors (n, d), shape (n, width): rows of length 1, the constant first.

        A vector that is zero or not finite has no features: its row is zero, and it counts for nothing.
        """
        rows = np.asarray(vectors, dtype=np.float64)
        with np.errstate(all="ignore"):
            lengths = np.sqrt((rows**2).sum(axis=1))
            units = rows / lengths[:, None]
        known = np.isfinite(units).all(axis=1) & np.isfinite(lengths) & (lengths > 0)
        units = np.where(known[:, None], units, 0.0)
        body = units if self.name == "cosine" else self._waves(units)
        found = np.concatenate([np.full((len(rows), 1), math.sqrt(COUNTING)), math.sqrt(1 - COUNTING) * body], axis=1)
        return np.asarray(found * known[:, None])

    def width(self, dimension: int) -> int:
        """How many features vectors of `dimension` have."""
        return 1 + (dimension if self.name == "cosine" else 2 * FREQUENCIES)

    def _waves(self, units: Floats) -> Floats:
        angles = units @ _frequencies(units.shape[1]).T
        return np.concatenate([np.cos(angles), np.sin(angles)], axis=1) / math.sqrt(FREQUENCIES)


def body(features: Floats) -> Floats:
    """Return features without the constant, at length 1: what texts are compared by."""
    return np.asarray(features[..., 1:] / math.sqrt(1 - COUNTING))


def counted(features: Floats) -> Floats:
    """Return of how many texts a sum of features is the sum."""
    return np.asarray(features[..., 0] / math.sqrt(COUNTING))


@cache
def _frequencies(dimension: int) -> Floats:
    return np.random.default_rng([DRAWN_BY, dimension]).standard_normal((FREQUENCIES, dimension)) / BANDWIDTH
