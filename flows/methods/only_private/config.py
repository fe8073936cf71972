"""Configuration of only_private: private rows and a student, without a privacy guarantee."""

import math
from typing import ClassVar, Literal

from pydantic import Field

from flows.config.base import AnyConfig, NoTexts, NoTextsMethod, OwnRowsConfig
from flows.config.execution import StudentChoice
from flows.config.form import Rule, Rules
from flows.config.privacy import Exposure
from flows.config.rows import PrivateRows


class OnlyPrivateMethod(NoTextsMethod):
    """Method settings: the training of the student on private records."""

    training: Literal["to_convergence", "as_published"] = Field(
        "to_convergence",
        description="to_convergence: early stopping on held-out texts; as_published: one pass of a transformer with "
        "batches of 16 and learning rate 2e-5, which under-trains it (figures of the papers).",
    )
    passes: int = Field(
        100, ge=1, le=10_000, description="Maximum passes over the rows; as_published makes one."
    )


class PrivateStudent(StudentChoice):
    """The student (small task model, STM), trained on private records and stored in the private zone."""

    epochs: int = 1

    hidden: ClassVar[dict[str, str]] = {"epochs": "not used. Set method.passes"}


class OnlyPrivateConfig(NoTexts, AnyConfig):
    """Configuration of an only_private run, which is NOT PRIVATE with any settings."""

    flow_name: ClassVar[str] = "only_private"

    private: PrivateRows
    privacy: Exposure = Exposure()
    method: OnlyPrivateMethod = OnlyPrivateMethod()
    student: PrivateStudent = PrivateStudent()

    hidden: ClassVar[dict[str, str]] = NoTexts.hidden | OwnRowsConfig.hidden
    rules: ClassVar[Rules] = {
        Rule("method.training", ("as_published",), "student.kind", ("finetune",)): (
            "method.training: as_published needs a transformer, but student.kind is '{0.student.kind}'. Set "
            "student.kind: finetune"
        ),
    }

    @property
    def epsilon(self) -> float:
        """Infinite: the privacy loss has no bound."""
        return math.inf
