"""The public settings of a training by DP-SGD."""

from __future__ import annotations

from dataclasses import dataclass

from tasks.accounting.dp_sgd import Clipping, Training


@dataclass(frozen=True, slots=True)
class Recipe:
    """Parameters of a training by DP-SGD.

    `noise_multiplier`: sigma, noise per unit of the clipping norm; 0 only for a run that is marked not private.
    `rows_at_once`: most rows in memory together; a larger sample is processed in parts, with the same result.
    `checkpoint_every`: steps between two checkpoints; a crash loses the steps after the last one.
    """

    training: Training
    noise_multiplier: float
    learning_rate: float
    clipping: Clipping = "hooks"
    rows_at_once: int = 32
    checkpoint_every: int = 10


@dataclass(frozen=True, slots=True)
class Adapter:
    """Trained parameters: LoRA matrices (Hu et al. 2022), or all weights at rank 0."""

    rank: int
    alpha: int
