"""Configuration of KD discriminator + tutor: generation, selection, teachers and label counts."""

from __future__ import annotations

from functools import partial
from operator import is_
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from flows.config.base import RECORDS_ONLY, OwnRowsConfig
from flows.config.execution import Discriminator
from flows.config.form import SET, Rule, Rules
from flows.config.method import Asks, Samples, SingleRound
from flows.config.privacy import Calibration, DpSteps
from tasks.accounting.dp_sgd import Training

IS_IT = "this flow is already the filter. Remove the field"


class KdMethod(SingleRound):
    """Method settings: generation and selection of texts."""

    samples: Samples = 3750
    written: int = Field(7500, ge=1, le=10_000_000, description="Generated texts to select from.")
    select: Literal["discriminator", "dp_sgd", "chance"] = Field(
        "discriminator",
        description="Selection of texts. discriminator: texts that the student of the teachers classifies as private; "
        "dp_sgd: the same with a classifier trained on private rows by DP-SGD (`training`); chance: random texts.",
    )
    training: DpSteps | None = Field(
        None, exclude_if=partial(is_, None), description="Training steps of the classifier, for select: dp_sgd."
    )

    rules: ClassVar[Rules] = {
        Rule("select", ("dp_sgd",), "training", SET): "training: is missing. Set it for select: dp_sgd",
        Rule("training", SET, "select", ("dp_sgd",)): "training: is for select: dp_sgd only. Remove it",
    }

    @property
    def tuning(self) -> Training | None:
        """Training steps of the classifier in the terms of the accountant, if there is one."""
        return self.training.tuning if self.training is not None else None

    @property
    def starts(self) -> dict[str, int]:
        """Fields with the number of texts that all models and classes share."""
        return {"written": self.written}

    @model_validator(mode="after")
    def _some_are_left_over(self) -> Self:
        if self.written < self.samples:
            raise ValueError(f"written ({self.written}) must be at least samples ({self.samples}), which are selected")
        return self


class KdTutorConfig(OwnRowsConfig):
    """Configuration of a KD discriminator + tutor run."""

    flow_name: ClassVar[str] = "kd_tutor"
    teaches_alone: ClassVar[bool] = True

    method: KdMethod = KdMethod()
    discriminator: Discriminator = Discriminator()  # type: ignore[assignment]
    class_balance: Literal["tutor", "balanced", "exact"] = Field(  # type: ignore[assignment]
        "tutor",
        description="Class proportions. tutor: noisy label counts of the private rows; balanced: equal; exact: label "
        "counts without noise, NOT PRIVATE (ablation).",
    )
    filter: None = None  # type: ignore[assignment]

    rules: ClassVar[Rules] = RECORDS_ONLY | OwnRowsConfig.rules
    hidden: ClassVar[dict[str, str]] = OwnRowsConfig.hidden | {"filter": IS_IT}

    @property
    def epsilon(self) -> float:
        """Configured epsilon; infinite with exact label counts."""
        return float("inf") if self.class_balance == "exact" else self.privacy.epsilon

    @property
    def filtered_texts(self) -> int:
        """Number of texts that the discriminator selects from."""
        return self.method.written

    @property
    def filtering(self) -> Discriminator | None:  # type: ignore[override]
        """The discriminator if it selects the texts, else None."""
        return self.discriminator if self.method.select == "discriminator" else None

    @property
    def calibrations(self) -> tuple[Calibration, ...]:
        """Possible values of `privacy.calibration`; the paper's covers only Gaussian answers."""
        has_paper_noise = self.method.select != "dp_sgd" and self.discriminator.noise == "gaussian"
        return ("tight", "paper") if has_paper_noise and self.epsilon != float("inf") else ("tight",)

    @property
    def asks(self) -> list[Asks]:
        """Planned calls: all generated texts."""
        return [Asks(self.writers, self.method.written)]

    @model_validator(mode="after")
    def _privacy_fits(self) -> Self:
        exact = self.private.takes_exactly or self.privacy.adjacency == "replace_one"
        if self.method.tuning is not None and exact:
            raise ValueError(
                "method.select: dp_sgd supports adjacency add_remove only. Set privacy.adjacency: add_remove, and set "
                "private.of to the rounded size of the source or leave private.rows empty"
            )
        if self.method.tuning is not None and self.discriminator.kind == "mlp":
            raise ValueError("discriminator.kind: mlp does not support DP-SGD. Set linear or finetune")
        return self
