"""Configuration of a student that is trained on private records by DP-SGD."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from flows.config.base import TrainingConfig
from flows.config.execution import Evaluation, Export, Limits, StudentChoice
from flows.config.form import Rules
from flows.config.method import AnyMethod, Asks, Casting
from flows.config.models import Plm
from flows.config.privacy import DpSteps
from flows.config.rows import Rows
from tasks.accounting.dp_sgd import Training

NO_TEXTS = "dp_sgd_student writes no texts and calls no language model. Remove the field"


class DpStudentMethod(AnyMethod):
    """Method settings: the training of the student."""

    training: DpSteps = Field(description="Training steps on the private rows.")
    iterations: int = Field(1, exclude=True)
    samples: int = Field(0, exclude=True)

    hidden: ClassVar[dict[str, str]] = {"iterations": NO_TEXTS, "samples": NO_TEXTS}

    @property
    def casting(self) -> Casting:
        """No votes of private records."""
        return Casting(0)

    @property
    def tuning(self) -> Training:
        """Training steps in the terms of the accountant."""
        return self.training.tuning


class DpStudent(StudentChoice):
    """The student: a small task model (STM) that is trained on private records with noise."""

    kind: Literal["linear", "finetune"] = Field(
        "linear", description="A linear head on frozen embeddings, or a transformer for classification."
    )
    model: str = Field("bert-base-uncased", description="Hub id or folder of the transformer, for kind finetune.")
    epochs: int = Field(1, exclude=True)

    hidden: ClassVar[dict[str, str]] = {
        "epochs": "not used. Set method.training.steps",
        "learning_rate": "not used. Set method.training.learning_rate",
        "batch": "not used. Set method.training.batch_rows",
        "adaptation": "not used, because a DP-SGD student is not adapted. Remove the field",
    }


class DpSgdStudentConfig(TrainingConfig):
    """Configuration of a DP-SGD student run."""

    flow_name: ClassVar[str] = "dp_sgd_student"

    public: Rows | None = Field(None, exclude=True)
    plms: list[Plm] = Field([], exclude=True)
    plms_used: list[str] | None = Field(None, exclude=True)
    method: DpStudentMethod = Field(description="Training of the student.")
    student: DpStudent = Field(DpStudent(), description="The student (small task model, STM).")
    evaluation: Evaluation = Field(Evaluation(), exclude=True)
    limits: Limits = Field(Limits(), exclude=True)
    export: Export = Field(Export(), exclude=True)

    hidden: ClassVar[dict[str, str]] = TrainingConfig.hidden | dict.fromkeys(
        (
            *("public", "plms", "plms_used", "evaluation", "limits", "export"),
            *("class_balance", "filter", "discriminator"),
        ),
        NO_TEXTS,
    )
    rules: ClassVar[Rules] = {}

    @property
    def asks(self) -> list[Asks]:
        """No planned calls."""
        return []
