"""Draws from the operating system's randomness for training: who takes part in a step, and its Gaussian noise.

Nothing here can be seeded: a seed would let whoever knows it take the noise off again. The generators of torch and
numpy are not used, as their state can be set from outside and guessed from their output.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHUNK = 1 << 20
"""Numbers drawn at once: what a large model needs is not held in memory as a whole."""


def uniform(count: int) -> NDArray[np.float64]:
    """Return `count` numbers strictly between 0 and 1, each the middle of one of 2^53 equal parts."""
    drawn = np.frombuffer(os.urandom(8 * count), dtype=np.uint64) >> np.uint64(11)
    return (drawn.astype(np.float64) + 0.5) * 2.0**-53


def poisson_sample(rows: int, rate: float) -> NDArray[np.int64]:
    """Return the positions of the rows that take part, each by a draw of its own; often none, seldom all."""
    return np.flatnonzero(uniform(rows) < rate)


def gaussian(count: int, sigma: float) -> NDArray[np.float64]:
    """Return `count` Gaussian draws of standard deviation `sigma`, by the inverse of the distribution function.

    Floating-point numbers of double precision, no integers: the tails end at 8.2 sigma, and the last digits of a sum
    with them are not covered by a proof (Mironov 2012).
    """
    from scipy.special import ndtri

    drawn = np.empty(count)
    for start in range(0, count, CHUNK):
        part = drawn[start : start + CHUNK]
        part[:] = ndtri(uniform(len(part)))
    drawn *= sigma
    return drawn
