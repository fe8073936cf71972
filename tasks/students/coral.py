"""Domain adaptation of a student to unlabelled texts: Deep CORAL (Sun and Saenko 2016).

The student's scores on synthetic texts and on texts like those it will see should vary alike: beside the task's loss it
pays |C_A - C_B|_F^2 / (4 d^2), C the covariances of both within a batch, d the number of scores. Unlabelled texts are
public rows: a student that learned from private ones without noise would not be private.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tasks.students.loop import import_torch

SHARE = 0.5
"""Unlabelled texts used per synthetic one at most, as DP-KPS has it (Nagesh et al. 2025)."""


@dataclass(frozen=True, slots=True)
class Adaptation:
    """What a pass adds to the loss: `weight` times the distance to `rows` unlabelled texts, drawn anew for each batch.

    `scores`: row numbers of unlabelled texts -> the student's scores, (rows, classes), with gradient.
    """

    rows: int
    weight: float
    scores: Callable[[Any], Any]

    def loss(self, synthetic: Any) -> Any:
        """Return what a batch of scores on synthetic texts pays; 0 for fewer than two rows."""
        wanted = max(2, round(len(synthetic) * SHARE))
        if len(synthetic) < 2 or self.rows < 2:
            return synthetic.sum() * 0.0
        drawn = import_torch().randint(self.rows, (wanted,))
        return self.weight * coral(synthetic, self.scores(drawn))


def coral(first: Any, second: Any) -> Any:
    """Return |C_A - C_B|_F^2 / (4 d^2) of two batches (rows, d); rows may differ, there are two at least."""
    apart = _covariance(first.float()) - _covariance(second.float())
    return (apart**2).sum() / (4 * first.shape[1] ** 2)


def used(unlabelled: int, synthetic: int, seed: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return which unlabelled texts are used: no more than half as many as there are synthetic ones."""
    most = min(unlabelled, max(2, int(synthetic * SHARE)))
    return np.sort(np.random.default_rng(seed).permutation(unlabelled)[:most])


def _covariance(rows: Any) -> Any:
    centred = rows - rows.mean(dim=0, keepdim=True)
    return centred.T @ centred / (len(rows) - 1)
