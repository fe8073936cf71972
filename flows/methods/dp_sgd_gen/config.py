"""Typed parameters of DP-SGD + generation: the steps in which the private rows are learned, what learns."""

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
    """The settings of DP-SGD + generation."""

    iterations: Literal[1] = Field(1, description="One training, one release; nothing is repeated.")
    samples: int = Field(6000, ge=1, le=10_000_000, description="Synthetic texts in all (N).")
    declared_rows: int = Field(
        ge=2,
        description="Rounded number of private rows. It is PUBLIC: it stands in the plan, the budget book and the "
        "report, and the chance of a row to take part in a step is made of it. Round it, never count it.",
    )
    batch_rows: int = Field(
        32, ge=1, description="Rows that take part in a step on average; each by a draw of its own."
    )
    steps: int = Field(200, ge=1, le=1_000_000, description="Steps in all; each adds noise and costs epsilon.")
    clip: float = Field(1.0, gt=0, le=1e6, description="Largest L2 norm of a row's gradient (C); longer ones are cut.")
    learning_rate: float = Field(1e-3, gt=0, le=10, description="Step size of Adam.")
    rank: int = Field(8, ge=0, le=1024, description="Rank of the LoRA matrices that learn (r); 0: every weight learns.")
    alpha: int = Field(8, ge=1, le=4096, description="Scale of the LoRA matrices (alpha).")
    tokens: int = Field(128, ge=8, le=4096, description="Longest row in tokens, control text included.")
    clipping: Clipping = Field(
        "hooks", description="hooks: a gradient per row in memory; ghost: only its norm, slower and far smaller."
    )
    rows_at_once: int = Field(32, ge=1, le=4096, description="Most rows in memory at once; changes no result.")
    checkpoint_every: int = Field(10, ge=1, description="Steps between checkpoints: a crash loses at most so many.")

    @model_validator(mode="before")
    @classmethod
    def _no_seed(cls, values: Any) -> Any:
        given = [name for name in SEEDS if isinstance(values, dict) and name in values]
        if given:
            raise ValueError(
                f"{given[0]} is refused: noise and sampling come from the operating system alone, as whoever knew "
                "a seed could take the noise off. execution.seed rules everything else"
            )
        return values

    @model_validator(mode="after")
    def _batch_fits(self) -> Self:
        if self.batch_rows > self.declared_rows:
            raise ValueError(f"batch_rows ({self.batch_rows}) cannot be more than declared_rows ({self.declared_rows})")
        return self

    @property
    def casting(self) -> Casting:
        """Private rows do not vote."""
        return Casting(0)

    @property
    def tuning(self) -> Training:
        """The steps, in the accountant's terms."""
        return Training(self.steps, self.batch_rows, self.declared_rows, self.clip)


class DpSgdGenConfig(OwnRowsConfig):
    """Everything that one run of DP-SGD + generation needs."""

    flow_name: ClassVar[str] = "dp_sgd_gen"

    plms: list[Plm] = Field(
        min_length=1,
        max_length=1,
        description="The one causal language model that learns and then writes: connector hf, by hub id or folder, or "
        "model: embedded (a small GPT-2 that ships).",
    )
    privacy: TrainingPrivacy = Field(TrainingPrivacy(), description="What is promised about the private rows.")
    method: DpSgdMethod = Field(description="The settings of DP-SGD + generation.")

    @property
    def calibrations(self) -> tuple[Calibration, ...]:
        """No paper has a formula of its own for these steps."""
        return ("tight",)

    @model_validator(mode="after")
    def _can_be_accounted(self) -> Self:
        rows = self.method.declared_rows
        if self.private.takes_exactly:
            raise ValueError(
                "private.rows takes a fixed number of rows, so that removing one lets another in, which is not "
                "accounted here; set private.of to the rounded size of the source, or leave private.rows empty"
            )
        if self.privacy.delta >= 1 / rows:
            raise ValueError(
                f"privacy.delta ({self.privacy.delta:g}) must be below 1/method.declared_rows ({1 / rows:g}): a "
                f"promise that may fail that often lets one row in {rows} leak"
            )
        if self.plms[0].connector != "hf":
            raise ValueError(
                f"plms: {self.plms[0].name!r} is asked by the connector {self.plms[0].connector!r} and cannot be "
                "trained here; write connector: hf with a hub id, a folder or model: embedded"
            )
        return self
