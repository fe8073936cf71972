"""Posterior means of the shifts from synthetic texts to private rows in a few directions.

A class's shift is the sum of a shift common to all classes and a shift of its own. Both are observed with noise whose
variance is public. Each part is set to zero if its squared length is within two standard errors of pure noise, else it
is shrunk by the factor of James and Stein (1961). Without the gate, small releases are worse than none.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

GATE: Final = 2.0
"""Standard errors by which a squared length must exceed its expectation under pure noise."""

TINY: Final = 1e-12


def shrink_shifts(shifts: Floats, variances: Floats) -> Floats:
    """Return posterior means (classes, directions) of observed shifts.

    Args:
        shifts: observed mean of private rows minus mean of texts, (classes, directions).
        variances: variance of each observation, of the same shape; zero without noise.
    """
    precisions = 1 / np.maximum(variances, TINY)
    weights = precisions / precisions.sum(axis=0)
    common, of_common = (weights * shifts).sum(axis=0), 1 / precisions.sum(axis=0)
    shared = common * kept_part(common / np.sqrt(of_common), len(common))
    classes = len(shifts)
    if classes < 2:
        return np.asarray(np.broadcast_to(shared, shifts.shape).copy())
    own = shifts - common
    factor = kept_part(own / np.sqrt(np.maximum(variances, TINY)), (classes - 1) * shifts.shape[1])
    return np.asarray(shared + own * factor)


def kept_part(scores: Floats, freedom: int) -> float:
    """Return the factor from 0 to 1 by which standardised observations are kept.

    Under pure noise the sum of squares of `scores` has expectation `freedom` and standard error sqrt(2 freedom). Zero
    below `freedom` + `GATE` standard errors, else the positive part of 1 - (freedom - 2) / sum of squares.
    """
    total = float((scores**2).sum())
    if total < freedom + GATE * math.sqrt(2 * freedom):
        return 0.0
    return max(0.0, 1 - max(freedom - 2, 0) / max(total, TINY))
