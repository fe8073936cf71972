"""Typed parameters of a classifier trained on private data with DP-SGD."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from flows.config.form import Strict
from flows.config.privacy import Privacy
from tasks.accounting.dp_sgd import Clipping, Training
from tasks.students.recipe import Recipe

SEEDS = ("seed", "noise_seed", "generator", "noise_generator")


class TrainingPrivacy(Privacy):
    """Guarantee for one added or removed row, by an accountant of Poisson sampling. Nothing else is accounted."""

    adjacency: Literal["add_remove"] = Field(
        "add_remove", description="What an attacker may not tell: that a row is there. No other is accounted here."
    )
    protects: Literal["record"] = Field(
        "record", description="One row. DP-SGD as it is here draws rows, so a person with several is not protected."
    )
    calibration: Literal["tight"] = Field("tight", description="The least noise that keeps epsilon.")


class DpSteps(Strict):
    """DP-SGD training settings; all steps together are one release."""

    declared_rows: int = Field(
        ge=2,
        description="Rounded number of private rows. It is PUBLIC (plan, privacy ledger, report) and sets the sampling "
        "probability. Declare a rounded number, never a count.",
    )
    batch_rows: int = Field(256, ge=1, description="Average number of rows per step.")
    steps: int = Field(100, ge=1, le=1_000_000, description="Number of steps; each adds noise and costs epsilon.")
    clip: float = Field(
        1.0, gt=0, le=1e6, description="Maximum L2 norm of a row's gradient (C); larger ones are clipped."
    )
    learning_rate: float = Field(0.05, gt=0, le=10, description="Learning rate of Adam.")
    clipping: Clipping = Field(
        "hooks", description="hooks: stores a gradient per row. ghost: only its norm; far less memory for transformers."
    )
    rows_at_once: int = Field(256, ge=1, le=65_536, description="Maximum rows in memory; does not change the result.")

    @model_validator(mode="before")
    @classmethod
    def _refuse_seeds(cls, values: Any) -> Any:
        seeds = [name for name in SEEDS if isinstance(values, dict) and name in values]
        if seeds:
            raise ValueError(
                f"{seeds[0]} is not allowed: noise and sampling use randomness of the operating system, because a "
                "known seed would allow removing the noise. Remove it; execution.seed sets everything else"
            )
        return values

    @property
    def tuning(self) -> Training:
        """The training, as input for the accountant."""
        return Training(self.steps, self.batch_rows, self.declared_rows, self.clip)

    def recipe(self, noise_multiplier: float) -> Recipe:
        """Return the training recipe for a noise multiplier."""
        names = {"learning_rate", "clipping", "rows_at_once"}
        return Recipe(training=self.tuning, noise_multiplier=noise_multiplier, **self.model_dump(include=names))
