"""Domain adaptation of a student to unlabelled texts by Deep CORAL.

Sun and Saenko 2016. The student's scores should have the same covariance on synthetic texts and on texts of the target
domain. The loss gets a penalty in addition to the task's: |C_A - C_B|_F^2 / (4 d^2), where C are the covariances of
both within a batch and d is the number of scores. (Nagesh et al. 2025, B.1.2, print 1 / (4 d^2 |C_A - C_B|_F^2), which
would reward distance; we take it for a slip.) Unlabelled texts are public rows: a student that learned from private
ones without noise would not be private.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tasks.students.loop import import_torch

if TYPE_CHECKING:
    from torch import Tensor

SHARE = 0.5
"""Largest ratio of unlabelled to synthetic texts, as in DP-KPS (Nagesh et al. 2025)."""

Penalty = Callable[["Tensor"], "Tensor"]
"""Maps the scores of a batch of synthetic texts to the penalty of the loss."""


def penalty(rows: int, scores: Callable[[Tensor], Tensor]) -> Penalty:
    """Return the penalty for the distance to `rows` unlabelled texts, resampled for each batch.

    scores: row numbers of unlabelled texts -> the student's scores, (rows, classes), with gradient. The penalty is 0
    for fewer than two rows.
    """

    def loss(synthetic: Tensor) -> Tensor:
        # One row has no covariance.
        if len(synthetic) < 2 or rows < 2:
            return synthetic.sum() * 0.0
        sampled = import_torch().randint(rows, (max(2, round(len(synthetic) * SHARE)),))
        return coral(synthetic, scores(sampled))

    return loss


def coral(first: Tensor, second: Tensor) -> Tensor:
    """Return |C_A - C_B|_F^2 / (4 d^2) of two batches (rows, d) of at least two rows."""
    difference = _covariance(first.float()) - _covariance(second.float())
    return (difference**2).sum() / (4 * first.shape[1] ** 2)


def choose_unlabelled(unlabelled: int, synthetic: int, seed: int) -> NDArray[np.int64]:
    """Return the rows of unlabelled texts to use: at most half as many as there are synthetic texts."""
    most = min(unlabelled, max(2, int(synthetic * SHARE)))
    return np.sort(np.random.default_rng(seed).permutation(unlabelled)[:most])


def _covariance(rows: Tensor) -> Tensor:
    centred = rows - rows.mean(dim=0, keepdim=True)
    return centred.T @ centred / (len(rows) - 1)
