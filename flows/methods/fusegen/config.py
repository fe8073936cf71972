"""Typed parameters of FuseGen: it opens no private row, so that there is nothing to promise and nothing to spend."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from flows.config.base import AnyConfig
from flows.config.execution import Evaluation
from flows.config.method import Asks, RoundsMethod
from flows.config.privacy import Kept

NO_ROWS = "fusegen opens no private row; leave this group out"


class FuseGenMethod(RoundsMethod):
    """FuseGen's own settings. The defaults are the published ones, with WASP's number of texts."""

    iterations: int = Field(5, ge=1, le=100, description="Rounds of writing (J); all but the first show examples.")
    examples: int = Field(8, ge=2, le=64, description="Examples in a prompt (S).")
    pool: int = Field(5, ge=1, le=100, description="Candidates per example (R = S times this).")
    ambiguous: float = Field(
        0.5, ge=0, le=1, description="Share of candidates on which the students differ most; the others are agreed on."
    )
    examples_of: Literal["all", "class"] = Field(
        "all",
        description="Choose examples once among all texts for every prompt (published), or for each class its own.",
    )
    own_judge: bool = Field(
        True, description="Let the student that was trained on a text judge it as well, as is published."
    )
    judge: Literal["finetune", "linear", "mlp"] = Field(
        "finetune", description="Kind of the students that judge, one for each model; linear is much faster."
    )
    boosts: int = Field(
        30,
        ge=0,
        le=1000,
        description="Passes of every student, after each of which texts that it mistakes weigh less (E1); 0: all texts "
        "weigh the same, and student.epochs counts.",
    )


class NoPromise(Kept):
    """What happens to what the run has made; nothing private is used, so that nothing has to be promised."""

    @model_validator(mode="before")
    @classmethod
    def _nothing_promised(cls, values: Any) -> Any:
        given = sorted(set(values) - set(cls.model_fields)) if isinstance(values, dict) else []
        if given:
            raise ValueError(
                f"{given[0]}: fusegen opens no private row, its epsilon is 0 whatever stands here; leave it out"
            )
        return values


class PublicEvaluation(Evaluation):
    """What is measured against."""

    fid_reference: Literal["test", "public", "none"] = Field(
        "test", description="Rows that FID compares with; there are no private ones."
    )


class FuseGenConfig(AnyConfig):
    """Everything that one run of FuseGen needs."""

    flow_name: ClassVar[str] = "fusegen"

    privacy: NoPromise = Field(NoPromise(), description="What happens to what the run has made.")
    method: FuseGenMethod = Field(FuseGenMethod(), description="FuseGen's own settings.")
    evaluation: PublicEvaluation = Field(PublicEvaluation(), description="What is measured against.")

    hidden: ClassVar[dict[str, str]] = {"private": NO_ROWS}

    @property
    def students(self) -> list[tuple[str, str, str]]:
        """The student of the result, and the students that judge."""
        return [*super().students, ("student", self.method.judge, self.student.model)]

    @property
    def asks(self) -> list[Asks]:
        """The first round without examples, the others with S of them."""
        return self.method.asks_of(self.writers, self.method.examples)
