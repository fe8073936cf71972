"""How many texts each class gets: equally many, or in the proportions of noisy label counts (the tutor's).

Song et al. 2024, Eq. 3: noisy counts below 0 are cut, the rest is divided by its sum. All of it is computed from what
was released.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from connectors.interfaces.errors import ConfigError
from tasks.selection.weights import per_class

if TYPE_CHECKING:
    from numpy.typing import NDArray

Shares = tuple[float, ...]
"""Part of each class in all texts, in the order of the task's classes, adding up to 1; empty: equal parts."""


def shares_of(counts: NDArray[np.int64]) -> Shares:
    """Return the tutor's shares of noisy counts, shape (classes,); equal ones where no count is above 0."""
    kept = np.maximum(counts.astype(np.float64), 0.0)
    total = kept.sum()
    found = kept / total if total > 0 else np.full(len(kept), 1 / len(kept))
    return tuple(float(share) for share in found)


def dealt(count: int, labels: Sequence[str], offset: int = 0, shares: Shares = ()) -> dict[str, int]:
    """Return how many of `count` texts each class gets when `offset` were dealt before.

    With shares by the divisor method of Webster: who holds more texts never has fewer of a class, so that rounds and
    models that are dealt to one after another add up to what all texts together should be. Raises ConfigError for
    shares of other classes.
    """
    if not shares:
        return per_class(count, labels, offset)
    if len(shares) != len(labels):
        raise ConfigError(f"There are shares of {len(shares)} classes, but the task has {len(labels)}.")
    more = _webster(offset + count, shares) - _webster(offset, shares)
    return dict(zip(labels, more.tolist(), strict=True))


def _webster(total: int, shares: Shares) -> NDArray[np.int64]:
    """Return whole numbers that add up to `total`: one after another goes to the class with the highest quotient."""
    weights = np.array(shares, dtype=np.float64)
    counts = np.floor(np.maximum(total * weights - len(weights), 0.0)).astype(np.int64)
    for _ in range(total - int(counts.sum())):
        counts[int(np.argmax(weights / (2 * counts + 1)))] += 1
    return counts
