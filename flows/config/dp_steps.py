"""Typed parameters of a classifier that learns from private rows by DP-SGD."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from flows.config.form import Strict
from flows.config.privacy import Privacy
from tasks.accounting.dp_sgd import Clipping, Training
from tasks.students.recipe import Recipe

SEEDS = ("seed", "noise_seed", "generator", "noise_generator")


class TrainingPrivacy(Privacy):
    """What is promised: one added or removed row, by an accountant of Poisson sampling. Nothing else is accounted."""

    adjacency: Literal["add_remove"] = Field(
        "add_remove", description="What an attacker may not tell: that a row is there. No other is accounted here."
    )
    protects: Literal["record"] = Field(
        "record", description="One row. DP-SGD as it is here draws rows, so a person with several is not protected."
    )
    calibration: Literal["tight"] = Field("tight", description="The least noise that keeps epsilon.")


class DpSteps(Strict):
    """The steps of the training; all of them are one release."""

    declared_rows: int = Field(
        ge=2,
        description="Rounded number of private rows. It is PUBLIC: it stands in the plan, the budget book and the "
        "report, and the chance of a row to take part in a step is made of it. Round it, never count it.",
    )
    batch_rows: int = Field(256, ge=1, description="Rows that take part in a step on average.")
    steps: int = Field(100, ge=1, le=1_000_000, description="Steps in all; each adds noise and costs epsilon.")
    clip: float = Field(1.0, gt=0, le=1e6, description="Largest L2 norm of a row's gradient (C); longer ones are cut.")
    learning_rate: float = Field(0.05, gt=0, le=10, description="Step size of Adam.")
    clipping: Clipping = Field(
        "hooks", description="hooks: a gradient per row in memory; ghost: only its norm, far smaller for transformers."
    )
    rows_at_once: int = Field(256, ge=1, le=65_536, description="Most rows in memory at once; changes no result.")
    checkpoint_every: int = Field(20, ge=1, description="Steps between checkpoints: a crash loses at most so many.")

    @model_validator(mode="before")
    @classmethod
    def _no_seed(cls, values: Any) -> Any:
        given = [name for name in SEEDS if isinstance(values, dict) and name in values]
        if given:
            raise ValueError(f"{given[0]} is refused: noise and sampling come from the operating system alone")
        return values

    @property
    def tuning(self) -> Training:
        """The steps, in the accountant's terms."""
        return Training(self.steps, self.batch_rows, self.declared_rows, self.clip)

    def recipe(self, noise_multiplier: float) -> Recipe:
        """How they are carried out with so much noise."""
        return Recipe(
            training=self.tuning,
            noise_multiplier=noise_multiplier,
            learning_rate=self.learning_rate,
            clipping=self.clipping,
            rows_at_once=self.rows_at_once,
            checkpoint_every=self.checkpoint_every,
        )
