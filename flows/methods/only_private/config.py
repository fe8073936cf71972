"""Typed parameters of the flow only_private: private rows, a student, and that nothing is promised."""

from __future__ import annotations

import math
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from flows.config.base import AnyConfig
from flows.config.execution import Evaluation, Export, Limits, StudentChoice
from flows.config.form import Schema
from flows.config.method import AnyMethod, Asks
from flows.config.models import Plm
from flows.config.privacy import Exposure
from flows.config.rows import PrivateRows, Rows

NO_TEXTS = "only_private writes no text and asks no language model; leave it out"


class OnlyPrivateMethod(AnyMethod):
    """How the student is trained on the private rows."""

    training: Literal["to_convergence", "as_published"] = Field(
        "to_convergence",
        description="to_convergence: until texts that are held back are answered no better; as_published: one pass of "
        "a transformer in batches of 16 at rate 2e-5, which leaves it under-trained (the papers' figures).",
    )
    passes: int = Field(100, ge=1, le=10_000, description="Most passes over the rows; as_published makes one.")
    iterations: int = Field(1, exclude=True)
    samples: int = Field(0, exclude=True)

    hidden: ClassVar[dict[str, str]] = {"iterations": NO_TEXTS, "samples": NO_TEXTS}


class PrivateStudent(StudentChoice):
    """The small task model (STM) that is trained on the private rows; it stays in the private zone."""

    epochs: int = Field(1, exclude=True)

    hidden: ClassVar[dict[str, str]] = {"epochs": "method.passes says how long only_private trains; leave it out"}


class OnlyPrivateConfig(AnyConfig):
    """Everything that one run of only_private needs. It is NOT PRIVATE, whatever its settings are."""

    flow_name: ClassVar[str] = "only_private"

    private: PrivateRows = Field(description="The private rows, on which the student is trained as they are.")
    public: Rows | None = Field(None, exclude=True)
    plms: list[Plm] = Field([], exclude=True)
    plms_used: list[str] | None = Field(None, exclude=True)
    privacy: Exposure = Field(Exposure(), description="That nothing is promised.")
    method: OnlyPrivateMethod = Field(OnlyPrivateMethod(), description="How the student is trained.")
    student: PrivateStudent = Field(PrivateStudent(), description="The small task model (STM) that is trained.")
    evaluation: Evaluation = Field(Evaluation(), exclude=True)
    limits: Limits = Field(Limits(), exclude=True)
    export: Export = Field(Export(), exclude=True)

    hidden: ClassVar[dict[str, str]] = dict.fromkeys(
        ("public", "plms", "plms_used", "evaluation", "limits", "export"), NO_TEXTS
    )
    rules: ClassVar[dict[str, Schema]] = {}

    @property
    def epsilon(self) -> float:
        """No number describes the loss."""
        return math.inf

    @property
    def asks(self) -> list[Asks]:
        """Nothing is asked."""
        return []

    @model_validator(mode="after")
    def _is_a_transformer(self) -> Self:
        if self.method.training == "as_published" and self.student.kind != "finetune":
            raise ValueError(
                "method.training as_published trains a transformer for one pass; "
                f"student.kind is '{self.student.kind}', write finetune"
            )
        return self
