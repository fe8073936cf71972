"""Typed parameters of a student that learns from the private rows by DP-SGD."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from flows.config.base import OwnRowsConfig
from flows.config.dp_steps import DpSteps, TrainingPrivacy
from flows.config.execution import Evaluation, Export, Limits, StudentChoice
from flows.config.form import Schema
from flows.config.method import AnyMethod, Asks, Casting
from flows.config.models import Plm
from flows.config.privacy import Calibration
from flows.config.rows import Rows
from tasks.accounting.dp_sgd import Training

ADAPTED = ("adaptation", "adaptation_from", "adaptation_weight", "adaptation_epsilon", "adaptation_directions")
NO_TEXTS = "dp_sgd_student writes no text and asks no language model; leave it out"


class DpStudentMethod(AnyMethod):
    """How the student learns."""

    training: DpSteps = Field(description="The steps in which the private rows are learned.")
    iterations: int = Field(1, exclude=True)
    samples: int = Field(0, exclude=True)

    hidden: ClassVar[dict[str, str]] = {"iterations": NO_TEXTS, "samples": NO_TEXTS}

    @property
    def casting(self) -> Casting:
        """Private rows do not vote."""
        return Casting(0)

    @property
    def tuning(self) -> Training:
        """The steps, in the accountant's terms."""
        return self.training.tuning


class DpStudent(StudentChoice):
    """The small task model (STM) that learns from the private rows under noise."""

    kind: Literal["linear", "finetune"] = Field(
        "linear", description="A linear head on frozen embeddings, or a transformer for classification."
    )
    model: str = Field("bert-base-uncased", description="Hub id or folder of the transformer; for kind finetune.")
    epochs: int = Field(1, exclude=True)

    hidden: ClassVar[dict[str, str]] = {
        "epochs": "method.training.steps says how long it learns; leave it out",
        "learning_rate": "method.training.learning_rate says how fast it learns; leave it out",
        "batch": "method.training.batch_rows says how many rows take part in a step; leave it out",
    } | dict.fromkeys(ADAPTED, "a student that learns by DP-SGD is not adapted; leave it out")


class DpSgdStudentConfig(OwnRowsConfig):
    """Everything that one run of a student that learns by DP-SGD needs."""

    flow_name: ClassVar[str] = "dp_sgd_student"

    public: Rows | None = Field(None, exclude=True)
    plms: list[Plm] = Field([], exclude=True)
    plms_used: list[str] | None = Field(None, exclude=True)
    privacy: TrainingPrivacy = Field(TrainingPrivacy(), description="What is promised about the private rows.")
    method: DpStudentMethod = Field(description="How the student learns.")
    student: DpStudent = Field(DpStudent(), description="The small task model (STM) that learns.")
    evaluation: Evaluation = Field(Evaluation(), exclude=True)
    limits: Limits = Field(Limits(), exclude=True)
    export: Export = Field(Export(), exclude=True)

    hidden: ClassVar[dict[str, str]] = OwnRowsConfig.hidden | dict.fromkeys(
        (
            *("public", "plms", "plms_used", "evaluation", "limits", "export"),
            *("class_balance", "filter", "discriminator"),
        ),
        NO_TEXTS,
    )
    rules: ClassVar[dict[str, Schema]] = {}

    @property
    def calibrations(self) -> tuple[Calibration, ...]:
        """No paper has a formula of its own for these steps."""
        return ("tight",)

    @property
    def asks(self) -> list[Asks]:
        """Nothing is asked."""
        return []

    @model_validator(mode="after")
    def _can_be_accounted(self) -> Self:
        if self.private.takes_exactly:
            raise ValueError(
                "private.rows takes a fixed number of rows, so that removing one lets another in, which is not "
                "accounted here; set private.of to the rounded size of the source, or leave private.rows empty"
            )
        return self
