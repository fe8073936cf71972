"""Exact distances, and the error bound of the rounded ones that propose candidates for them."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Vectors = NDArray[np.float32]

PAIR_BLOCK: Final = 128


def margins(squares: Floats, longest: float, dimension: int) -> Floats:
    """Bound the error of a rounded or float64 distance, for any order of summation.

    squares: the rows' squared lengths; longest: the length of the longest candidate. The float32 product of
    (-2x, 1) and (y, |y|^2) errs by at most (d + 1) * 2^-24 * (2|x||y| + |y|^2), and the square in it by
    d * 2^-24 * |y|^2 (Higham 2002, section 3.1); the bound is at least their sum. The last term covers values too small
    for float32.
    """
    lengths = np.sqrt(squares)
    product = (dimension + 8) * (2.0**-22 * lengths * longest + 2.0**-23 * longest**2)
    measured = (dimension + 8) * 2.0**-50 * (lengths + longest) ** 2
    return np.asarray(product + measured + (dimension + 8) * 2.0**-124)


def distances(mine: Vectors, theirs: Vectors, rows: Ints, columns: Ints) -> Floats:
    """Return squared distances of pairs, float64, summed in order of components."""
    result = np.empty(len(rows))
    for start in range(0, len(rows), PAIR_BLOCK):
        part = slice(start, start + PAIR_BLOCK)
        gap = np.subtract(mine[rows[part]], theirs[columns[part]], dtype=np.float64)
        # A running sum has one order by definition; a plain sum may choose its order by the shape of the block.
        result[part] = np.add.accumulate(gap * gap, axis=1)[:, -1] if gap.shape[1] else 0.0
    return result


def round_up(limit: Floats) -> Vectors:
    """Return limits as float32, rounded up: a value at the limit is strictly below it."""
    return np.nextafter(limit.astype(np.float32), np.float32(np.inf))
