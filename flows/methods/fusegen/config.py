"""Configuration of FuseGen, which uses no private data and therefore has no privacy budget."""

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from flows.config.base import AnyConfig
from flows.config.method import PlannedCalls, RoundsMethod, TextsPerPrompt
from flows.config.privacy import LossPolicy


class FuseGenMethod(RoundsMethod):
    """Method settings of FuseGen; the defaults are the published ones, with WASP's number of texts."""

    examples: int = Field(8, ge=2, le=64, description="Examples in a prompt (S).")
    texts_per_prompt: TextsPerPrompt = 1
    judge: Literal["finetune", "linear", "mlp"] = Field(
        "finetune",
        description="Kind of the judging students, one per model; linear is much faster.",
    )
    boosts: int = Field(
        30,
        ge=0,
        le=1000,
        description="Passes of every student, each followed by lower weights for misclassified texts (E1); 0: equal "
        "weights and student.epochs passes.",
    )


class NoPromise(LossPolicy):
    """Retention settings without a privacy guarantee, because no private data is used."""

    @model_validator(mode="before")
    @classmethod
    def _nothing_promised(cls, values: object) -> object:
        if not isinstance(values, dict):
            return values
        unused = sorted(set(values) - set(cls.model_fields))
        if unused:
            raise ValueError(
                f"{unused[0]}: not used, because fusegen uses no private data and its epsilon is 0. Remove the field"
            )
        return values


class FuseGenConfig(AnyConfig):
    """Configuration of a FuseGen run."""

    flow_name: ClassVar[str] = "fusegen"

    privacy: NoPromise = NoPromise()
    method: FuseGenMethod = FuseGenMethod()

    @property
    def students(self) -> list[tuple[str, str, str]]:
        """The student of the result and the judging students."""
        return [*super().students, ("student", self.method.judge, self.student.model)]

    @property
    def planned_calls(self) -> list[PlannedCalls]:
        """Planned calls: the first iteration without examples, later ones with S examples."""
        return self.method.calls_of(self.writers, self.method.examples)
