"""Number of texts per class: equal, or in proportion to noisy label counts.

The proportions are the tutor's. Song et al. 2024, Eq. 3: negative noisy counts become 0, the rest is divided by its
sum. All inputs are released values.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from connectors.interfaces.errors import ConfigError
from tasks.steps.allocation import per_class

Shares = tuple[float, ...]
"""Part of each class in all texts, in the order of the task's classes, with sum 1; empty: equal parts."""


def shares_of(counts: NDArray[np.int64]) -> Shares:
    """Return the tutor's shares from noisy counts (classes,).

    Shares are equal if no count is above 0.
    """
    positive = np.maximum(counts.astype(np.float64), 0.0)
    total = positive.sum()
    shares = np.full(len(positive), 1 / len(positive))
    if total > 0:
        shares = positive / total
    return tuple(float(share) for share in shares)


def texts_per_class(
    count: int, labels: Sequence[str], shares: Shares = (), offset: int = 0
) -> dict[str, int]:
    """Return how many of `count` texts each class gets.

    `offset` texts have been allocated before. With shares by the divisor method of Webster: a larger total never gives
    a class fewer texts. Allocations to rounds and models one after another therefore add up to the allocation of all
    texts together. Raises ConfigError for shares of other classes.
    """
    if not shares:
        return per_class(count, labels, offset)
    if len(shares) != len(labels):
        raise ConfigError(
            f"There are shares of {len(shares)} classes, but the task has {len(labels)}. Use this task's."
        )
    # The difference of two totals, not a split of `count`: rounding errors of rounds would add up.
    more = _webster(offset + count, shares) - _webster(offset, shares)
    return dict(zip(labels, more.tolist(), strict=True))


def _webster(total: int, shares: Shares) -> NDArray[np.int64]:
    """Split `total` into whole numbers.

    Each unit goes to the class with the highest quotient.
    """
    weights = np.array(shares, dtype=np.float64)
    # A start below the result in every class leaves a few units to assign one by one, whatever the total.
    counts = np.floor(np.maximum(total * weights - len(weights), 0.0)).astype(np.int64)
    for _ in range(total - int(counts.sum())):
        counts[int(np.argmax(weights / (2 * counts + 1)))] += 1
    return counts
