"""Random draws for training from the operating system: the rows of each step and its Gaussian noise.

Nothing here can be seeded: anybody who knows the seed could subtract the noise. The generators of torch and numpy are
not used, because their state can be set from outside and inferred from their output.
"""

import os

import numpy as np
from numpy.typing import NDArray

CHUNK = 1 << 20
"""Numbers drawn at once; limits the memory that a large model needs."""


def uniform(count: int) -> NDArray[np.float64]:
    """Return `count` numbers strictly between 0 and 1.

    Each is the midpoint of one of 2^52 equal intervals.
    """
    # 64 bits less 12: a midpoint needs one bit more than its interval, and a float has 53. With one bit less to drop,
    # midpoints above 1/2 would be rounded, the last one to 1.
    bits = np.frombuffer(os.urandom(8 * count), dtype=np.uint64) >> np.uint64(12)
    return (bits.astype(np.float64) + 0.5) * 2.0**-52


def poisson_sample(rows: int, rate: float) -> NDArray[np.int64]:
    """Return the indices of the sampled rows; each row is drawn independently."""
    return np.flatnonzero(uniform(rows) < rate)


def gaussian(count: int, sigma: float) -> NDArray[np.float64]:
    """Return `count` Gaussian draws of standard deviation `sigma`, by inversion.

    The draws are double-precision numbers, not integers: the tails end at 8.2 sigma, and no proof covers the last
    digits of a sum with them (Mironov 2012).
    """
    from scipy.special import ndtri

    noise = np.empty(count)
    for start in range(0, count, CHUNK):
        # The midpoints of `uniform` are never 0 or 1, for which the inverse would be infinite.
        part = noise[start : start + CHUNK]
        part[:] = ndtri(uniform(len(part)))
    noise *= sigma
    return noise
