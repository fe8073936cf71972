"""Configuration of DP-SGD + generation: the training steps and the model."""

from typing import ClassVar, Self

from pydantic import Field, model_validator

from flows.config.base import TrainingConfig
from flows.config.method import SingleRound
from flows.config.models import Plm
from flows.config.privacy import BatchRows, DpSteps, LearningRate, Steps


class DpSgdMethod(DpSteps, SingleRound):
    """Method settings of DP-SGD + generation."""

    first = ("samples", "declared_rows")

    batch_rows: BatchRows = 32
    steps: Steps = 200
    learning_rate: LearningRate = 1e-3
    rank: int = Field(
        8, ge=0, le=1024, description="Rank of the trained LoRA matrices (r); 0: train all weights."
    )
    tokens: int = Field(
        128, ge=8, le=4096, description="Maximum tokens of a row, including the control text."
    )


class DpSgdGenConfig(TrainingConfig):
    """Configuration of a DP-SGD + generation run."""

    flow_name: ClassVar[str] = "dp_sgd_gen"

    plms: list[Plm] = Field(
        min_length=1,
        max_length=1,
        description="The causal language model that is trained, then writes: connector hf with a hub id or folder, or "
        "model: embedded (a small GPT-2 that is included).",
    )
    method: DpSgdMethod

    @model_validator(mode="after")
    def _can_be_trained(self) -> Self:
        if self.plms[0].connector != "hf":
            raise ValueError(
                f"plms: {self.plms[0].name!r} uses the connector {self.plms[0].connector!r}, which does not support "
                "training. Set connector: hf with a hub id, a folder or model: embedded"
            )
        return self
