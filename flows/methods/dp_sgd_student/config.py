"""Configuration of a student that is trained on private records by DP-SGD."""

from typing import ClassVar, Literal

from pydantic import Field

from flows.config.base import DP_SGD_RULES, NoTexts, NoTextsMethod, TrainingConfig
from flows.config.execution import StudentChoice, Transformer
from flows.config.form import Rules
from flows.config.method import VotingScheme
from flows.config.privacy import DpSteps
from tasks.private.training.promise import Training


class DpStudentMethod(NoTextsMethod):
    """Method settings: the training of the student."""

    training: DpSteps
    voting: ClassVar[VotingScheme] = VotingScheme(0)
    """No votes of private records."""

    @property
    def tuning(self) -> Training:
        """Training steps in the terms of the accountant."""
        return self.training.tuning


class DpStudent(StudentChoice):
    """The student: a small task model (STM) that is trained on private records with noise."""

    kind: Literal["linear", "finetune"] = Field(
        "linear",
        description="A linear head on frozen embeddings, or a transformer for classification.",
    )
    model: Transformer = "bert-base-uncased"
    epochs: int = 1

    hidden: ClassVar[dict[str, str]] = {
        "epochs": "not used. Set method.training.steps",
        "learning_rate": "not used. Set method.training.learning_rate",
        "batch": "not used. Set method.training.batch_rows",
        "adaptation": "not used, because a DP-SGD student is not adapted. Remove the field",
    }


class DpSgdStudentConfig(NoTexts, TrainingConfig):
    """Configuration of a DP-SGD student run."""

    flow_name: ClassVar[str] = "dp_sgd_student"

    method: DpStudentMethod
    student: DpStudent = DpStudent()

    rules: ClassVar[Rules] = DP_SGD_RULES
    hidden: ClassVar[dict[str, str]] = TrainingConfig.hidden | NoTexts.hidden
