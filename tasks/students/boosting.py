"""Self-boosting weight adjustment (SWA) of FuseGen.

The weight of a text falls with every pass that misclassifies it. FuseGen (Zou et al. 2024). Its published code limits
the logarithm of beta to at least 1, as this module does: for all data sets of up to 1.65 texts per round beta is 2.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def beta_of(rows: int, rounds: int) -> float:
    """Return beta, the base of the decay of weights.

    beta = 1 + sqrt(max(1, 2 ln(rows / rounds))).
    """
    return 1.0 + math.sqrt(max(1.0, 2.0 * math.log(max(rows, 1) / rounds)))


def adjust_weights(weights: Floats, probabilities: Floats, targets: NDArray[np.int64], beta: float) -> Floats:
    """Return the weights after one round, with the sum they had.

    probabilities: (rows, classes). The weight of a misclassified row is multiplied by beta^-(1 - p), where p is the
    probability of its own class; the others keep their weight before all are scaled to the old sum.
    """
    own = probabilities[np.arange(len(targets)), targets]
    wrong = probabilities.argmax(axis=1) != targets
    lowered = np.where(wrong, weights * beta ** -(1.0 - own), weights)
    return np.asarray(lowered * (weights.sum() / lowered.sum()), dtype=np.float64)
