"""Kernel herding: a subset of texts whose mean embedding is close to a target (Chen, Welling and Smola 2010)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

TEMPTING: Final = 0.1
"""Part of a class that is good enough, or bad enough, for an example."""


def herd(points: Floats, target: Floats, count: int) -> Ints:
    """Return positions of `count` points whose mean embedding is close to `target`.

    Greedy, each position once. Kernel herding (Chen, Welling and Smola 2010): the next point is similar to the target
    and dissimilar to earlier ones.
    """
    similarity, taken = points @ target, np.zeros(len(points))
    free, order = np.ones(len(points), dtype=bool), np.empty(min(count, len(points)), dtype=np.int64)
    for turn in range(len(order)):
        best = int(np.argmax(np.where(free, similarity - taken / (turn + 1), -np.inf)))
        order[turn], free[best] = best, False
        taken += points @ points[best]
    return order
