"""Decides by public numbers whether a run opens its private rows for guidance.

The index I = rows / (classes sigma) compares the number of rows of a class with the noise of its released sum. Below
`CLOSED` no release that was measured improves the student by more than it costs; from there on the density of whole
vectors does. Rows are declared, never counted: the decision is public and costs no budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

CLOSED: Final = 8.0
"""Index below which the rows stay closed: gains of -0.03 to +0.04, with intervals that mostly include 0."""

Opening = Literal["none", "cosine"]
"""Result of the rule: rows stay closed, or the name of the feature map of the release."""


@dataclass(frozen=True, slots=True)
class Remedies:
    """Single changes that would open the rows; None if that number alone cannot.

    `rows`: least number of rows. `classes`: largest number of classes. `sigma`: largest noise.
    """

    rows: int
    classes: int | None
    sigma: float


def opening_index(rows: int, classes: int, sigma: float) -> float:
    """Return I = rows / (classes sigma); infinite without noise.

    Args:
        rows: declared number of private rows.
        classes: number of classes of the task.
        sigma: noise of each feature sum, for features of length at most 1.
    """
    return math.inf if sigma <= 0 else rows / (classes * sigma)


def choose_opening(rows: int, classes: int, sigma: float) -> Opening:
    """Return the feature map to release, or "none" if the rows stay closed."""
    return "none" if opening_index(rows, classes, sigma) < CLOSED else "cosine"


def remedies(rows: int, classes: int, sigma: float) -> Remedies:
    """Return the changes of one number that raise the index to `CLOSED`."""
    most = math.floor(rows / (CLOSED * sigma)) if sigma > 0 else classes
    return Remedies(math.ceil(CLOSED * classes * sigma), most if most >= 2 else None, rows / (CLOSED * classes))
