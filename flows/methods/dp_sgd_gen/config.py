"""Configuration of DP-SGD + generation: the training steps and the model."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from flows.config.base import OwnRowsConfig
from flows.config.dp_steps import SEEDS, TrainingPrivacy
from flows.config.method import AnyMethod, Casting
from flows.config.models import Plm
from flows.config.privacy import Calibration
from tasks.accounting.dp_sgd import Clipping, Training


class DpSgdMethod(AnyMethod):
    """Method settings of DP-SGD + generation."""

    iterations: Literal[1] = Field(1, description="Fixed: one training, one release.")
    samples: int = Field(6000, ge=1, le=10_000_000, description="Total number of synthetic texts (N).")
    declared_rows: int = Field(
        ge=2,
        description="Rounded number of private rows. It is PUBLIC: plan, ledger and report show it, and it sets the "
        "sampling probability of a row. Use a rounded number, never the exact count.",
    )
    batch_rows: int = Field(
        32, ge=1, description="Average number of rows in a step; each row is sampled independently."
    )
    steps: int = Field(200, ge=1, le=1_000_000, description="Number of steps; each adds noise and costs epsilon.")
    clip: float = Field(
        1.0, gt=0, le=1e6, description="Maximum L2 norm of a row's gradient (C); larger ones are clipped."
    )
    learning_rate: float = Field(1e-3, gt=0, le=10, description="Step size of Adam.")
    rank: int = Field(8, ge=0, le=1024, description="Rank of the trained LoRA matrices (r); 0: train all weights.")
    alpha: int = Field(8, ge=1, le=4096, description="Scale of the LoRA matrices (alpha).")
    tokens: int = Field(128, ge=8, le=4096, description="Maximum tokens of a row, including the control text.")
    clipping: Clipping = Field(
        "hooks", description="hooks: one gradient per row in memory; ghost: only its norm, slower, much less memory."
    )
    rows_at_once: int = Field(32, ge=1, le=4096, description="Rows in memory at once at most; does not affect results.")
    checkpoint_every: int = Field(10, ge=1, description="Steps between checkpoints, which a crash can lose.")

    @model_validator(mode="before")
    @classmethod
    def _no_seed(cls, values: Any) -> Any:
        seeds = [name for name in SEEDS if isinstance(values, dict) and name in values]
        if seeds:
            raise ValueError(
                f"{seeds[0]}: not allowed, because a known seed would allow removing the noise. Noise and sampling use "
                "the operating system's random numbers. Set execution.seed for everything else"
            )
        return values

    @model_validator(mode="after")
    def _batch_fits(self) -> Self:
        if self.batch_rows > self.declared_rows:
            raise ValueError(f"batch_rows ({self.batch_rows}) cannot be more than declared_rows ({self.declared_rows})")
        return self

    @property
    def casting(self) -> Casting:
        """No votes of private records."""
        return Casting(0)

    @property
    def tuning(self) -> Training:
        """Training steps in the terms of the accountant."""
        return Training(self.steps, self.batch_rows, self.declared_rows, self.clip)


class DpSgdGenConfig(OwnRowsConfig):
    """Configuration of a DP-SGD + generation run."""

    flow_name: ClassVar[str] = "dp_sgd_gen"

    plms: list[Plm] = Field(
        min_length=1,
        max_length=1,
        description="The causal language model that is trained, then writes: connector hf with a hub id or folder, or "
        "model: embedded (a small GPT-2 that is included).",
    )
    privacy: TrainingPrivacy = Field(TrainingPrivacy(), description="Privacy guarantee for the private records.")
    method: DpSgdMethod = Field(description="Settings of DP-SGD + generation.")

    @property
    def calibrations(self) -> tuple[Calibration, ...]:
        """Possible values of `privacy.calibration`."""
        return ("tight",)

    @model_validator(mode="after")
    def _can_be_accounted(self) -> Self:
        rows = self.method.declared_rows
        if self.private.takes_exactly:
            raise ValueError(
                "private.rows: a fixed number of rows makes a removal a replacement, which is not supported here. Set "
                "private.of to the rounded size of the source, or leave private.rows empty"
            )
        if self.privacy.delta >= 1 / rows:
            raise ValueError(
                f"privacy.delta ({self.privacy.delta:g}) must be below 1/method.declared_rows ({1 / rows:g}), "
                f"because it allows publishing one row in {rows}. Lower privacy.delta"
            )
        if self.plms[0].connector != "hf":
            raise ValueError(
                f"plms: {self.plms[0].name!r} uses the connector {self.plms[0].connector!r}, which does not support "
                "training. Set connector: hf with a hub id, a folder or model: embedded"
            )
        return self
