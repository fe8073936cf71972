"""Features of text vectors under the cosine kernel.

Features are the contribution of a text to a mean embedding, of length at most 1: its vector at length 1, with one
constant feature, hence a sum of features also contains the number of texts. Everything here is public.
"""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tasks.private.density.promise import COUNTING

Floats = NDArray[np.float64]

KERNEL: Final = "cosine"
"""Name of the kernel in keys of releases."""


def features_of(vectors: NDArray[np.floating]) -> Floats:
    """Return the features (n, d + 1) of vectors (n, d), the constant first.

    Rows have length at most 1. A vector that is zero or not finite has no features: its row is zero, and it counts for
    nothing.
    """
    rows = np.asarray(vectors, dtype=np.float64)
    # Vectors of private rows may be zero or infinite, and a warning would reveal that there is one.
    with np.errstate(all="ignore"):
        lengths = np.sqrt((rows**2).sum(axis=1))
        units = rows / lengths[:, None]
    valid = np.isfinite(units).all(axis=1) & np.isfinite(lengths) & (lengths > 0)
    units = np.where(valid[:, None], units, 0.0)
    constant = np.full((len(units), 1), math.sqrt(COUNTING))
    features = np.concatenate([constant, math.sqrt(1 - COUNTING) * units], axis=1)
    return np.asarray(features * valid[:, None])


def body(features: Floats) -> Floats:
    """Return features without the constant, at length 1, for comparing texts."""
    return np.asarray(features[..., 1:] / math.sqrt(1 - COUNTING))


def counted(features: Floats) -> Floats:
    """Return the number of texts in a sum of features."""
    return np.asarray(features[..., 0] / math.sqrt(COUNTING))
