"""Configuration of KD discriminator + tutor: generation, selection, teachers and label counts."""

from functools import partial
from operator import is_
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from flows.config.base import RECORDS_ONLY, OwnRowsConfig
from flows.config.execution import Recipe, Transformer
from flows.config.form import SET, UNSET, Rule, Rules
from flows.config.method import PlannedCalls, Samples, SingleRound
from flows.config.privacy import Calibration, DpSteps, Privacy, check_part
from tasks.metrics.usefulness import MIN_HELD_OUT
from tasks.private.teachers.promise import public_part
from tasks.private.training.promise import Training
from tasks.students.spec import StudentSpec

NEGATIVES = 500
"""Generated texts in the training set of a teacher at most; fewer where all teachers would learn from every text."""


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
        None,
        exclude_if=partial(is_, None),
        description="Training steps of the classifier, for select: dp_sgd.",
    )

    rules: ClassVar[Rules] = {
        Rule(
            "select", ("dp_sgd",), "training", SET
        ): "training: is missing. Set it for select: dp_sgd",
        Rule(
            "training", SET, "select", ("dp_sgd",)
        ): "training: is for select: dp_sgd only. Remove it",
    }

    @property
    def tuning(self) -> Training | None:
        """Training steps of the classifier in the terms of the accountant, if there is one."""
        if self.training is None:
            return None
        return self.training.tuning

    @property
    def starts(self) -> dict[str, int]:
        """Fields with the number of texts that all models and classes share."""
        return {"written": self.written}

    @model_validator(mode="after")
    def _some_are_left_over(self) -> Self:
        if self.written < self.samples:
            raise ValueError(
                f"written ({self.written}) must be at least samples ({self.samples}), which are selected"
            )
        return self


class Discriminator(Recipe):
    """Settings of the classifier that selects private-looking texts."""

    teachers: int = Field(
        15,
        ge=1,
        le=1000,
        description="Number of teachers, each trained on its own shard of the private data (M).",
    )
    queries: int = Field(
        1000,
        ge=2,
        le=400_000,
        description="Texts that the teachers label: generated ones, and as many rows of `public` if it is set. Noise "
        "grows with the square root of their number.",
    )
    noise: Literal["gaussian", "laplace"] = Field(
        "gaussian",
        description="gaussian: least noise, needs delta; laplace: delta 0, far more noise (ablation).",
    )
    kind: Literal["linear", "mlp", "finetune"] = Field(
        "linear",
        description="Teachers and student: a head on frozen embeddings, or a fine-tuned transformer.",
    )
    model: Transformer = "embedded"
    epochs: int = Field(
        3, ge=1, le=1000, description="Epochs, without a validation split. Not for linear."
    )

    def negatives(self, written: int) -> int:
        """Return the number of generated texts that each teacher learns from, of `written`."""
        # Texts that the teachers label must not be among those that they learn from.
        others = written - self.queries
        return max(1, min(NEGATIVES, others // self.teachers))

    def student(self, seed: int) -> StudentSpec:
        """Return the training settings of teachers and student, without validation."""
        return StudentSpec(
            self.kind,
            self.model,
            epochs=self.epochs,
            validation_share=0.0,
            seed=seed,
            **self.recipe,
        )


class KdPrivacy(Privacy):
    """Privacy guarantee of a KD discriminator + tutor run."""

    tutor_epsilon: float | None = Field(
        None,
        gt=0,
        exclude_if=partial(is_, None),
        description="Part of epsilon for the label counts of class_balance: tutor. Empty: 0.4 or a tenth of epsilon, "
        "the smaller of both.",
    )

    @model_validator(mode="after")
    def _is_a_part(self) -> Self:
        return check_part(self, "tutor_epsilon")


class KdTutorConfig(OwnRowsConfig):
    """Configuration of a KD discriminator + tutor run."""

    first = (*OwnRowsConfig.first, "public")

    flow_name: ClassVar[str] = "kd_tutor"

    method: KdMethod = KdMethod()
    privacy: KdPrivacy = KdPrivacy()
    discriminator: Discriminator = Discriminator()
    class_balance: Literal["tutor", "balanced", "exact"] = Field(
        "tutor",
        description="Class proportions. tutor: noisy label counts of the private rows; balanced: equal; exact: label "
        "counts without noise, NOT PRIVATE (ablation).",
    )

    rules: ClassVar[Rules] = (
        RECORDS_ONLY
        | OwnRowsConfig.rules
        | {
            Rule("class_balance", ("balanced", "exact"), "privacy.tutor_epsilon", UNSET): (
                "privacy.tutor_epsilon is {0.privacy.tutor_epsilon:g}, but class_balance {0.class_balance} releases no "
                "label counts. Remove it"
            )
        }
    )

    @property
    def epsilon(self) -> float:
        """Configured epsilon; infinite with exact label counts."""
        if self.class_balance == "exact":
            return float("inf")
        return self.privacy.epsilon

    @property
    def filtering(self) -> Discriminator | None:
        """Settings of the teachers if they select the texts, else None."""
        if self.method.select != "discriminator":
            return None
        return self.discriminator

    @property
    def students(self) -> list[tuple[str, str, str]]:
        """Field, kind and model of every classifier that the run trains, teachers included."""
        students = super().students
        if self.filtering is not None:
            students.append(("discriminator", self.filtering.kind, self.filtering.model))
        return students

    @property
    def warnings(self) -> list[str]:
        """A warning if too few texts may be left to measure the discriminator on."""
        if self.test is None or self.method.select == "chance":
            return []
        written = self.method.written
        if self.method.training is not None:
            learned = f"method.training.declared_rows ({self.method.training.declared_rows})"
            unseen = float(written - self.method.training.declared_rows)
        else:
            learned = f"discriminator.teachers ({self.discriminator.teachers})"
            unseen = self._unseen_by_teachers
        if round(unseen) >= MIN_HELD_OUT:
            return []
        return [
            f"{learned}: about {max(0, round(unseen))} of {written} texts take no part in the training of the "
            f"classifier that selects texts, and its accuracy is measured on {MIN_HELD_OUT} or more. Raise "
            "method.written"
        ]

    @property
    def _unseen_by_teachers(self) -> float:
        """Expected number of texts that are no query and in the training set of no teacher, which draw separately."""
        choice = self.discriminator
        queries = choice.queries
        if self.public is not None:
            queries -= public_part(queries)
        others = self.method.written - queries
        return others * (1 - choice.negatives(self.method.written) / others) ** choice.teachers

    @property
    def calibrations(self) -> tuple[Calibration, ...]:
        """Possible values of `privacy.calibration`; the paper's covers only Gaussian answers."""
        has_gaussian_answers = (
            self.method.select != "dp_sgd" and self.discriminator.noise == "gaussian"
        )
        if has_gaussian_answers and self.epsilon != float("inf"):
            return ("tight", "paper")
        return ("tight",)

    @property
    def planned_calls(self) -> list[PlannedCalls]:
        """Planned calls: all generated texts."""
        return [PlannedCalls(self.writers, self.method.written)]

    @model_validator(mode="after")
    def _teachers_fit(self) -> Self:
        queries = self.discriminator.queries
        written = self.method.written
        if self.filtering is not None and queries >= written:
            raise ValueError(
                f"discriminator.queries ({queries}) must be below the number of texts ({written}): the teachers learn "
                "from the remaining texts"
            )
        return self

    @model_validator(mode="after")
    def _privacy_fits(self) -> Self:
        # DP-SGD samples rows independently, and its accountants cover the removal of one, not its replacement.
        exact = self.private.takes_exactly or self.privacy.adjacency == "replace_one"
        if self.method.tuning is not None and exact:
            raise ValueError(
                "method.select: dp_sgd supports adjacency add_remove only. Set privacy.adjacency: add_remove, and set "
                "private.of to the rounded size of the source or leave private.rows empty"
            )
        if self.method.tuning is not None and self.discriminator.kind == "mlp":
            raise ValueError(
                "discriminator.kind: mlp does not support DP-SGD. Set linear or finetune"
            )
        return self
