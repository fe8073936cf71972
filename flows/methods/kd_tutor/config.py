"""Typed parameters of the discriminator with a tutor: what is written, what is kept, teachers and label counts."""

from __future__ import annotations

from functools import partial
from operator import is_
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from flows.config.base import OwnRowsConfig
from flows.config.discriminator import Discriminator
from flows.config.dp_steps import DpSteps
from flows.config.form import rule
from flows.config.method import AnyMethod, Asks, Casting
from flows.config.privacy import Calibration, Epsilon, Privacy
from tasks.accounting.dp_sgd import Training

IS_IT = "this flow is that filter; leave it out"


class KdMethod(AnyMethod):
    """What is written and what is kept."""

    iterations: Literal[1] = Field(1, description="Texts are written once and then chosen from.")
    samples: int = Field(3750, ge=1, le=10_000_000, description="Synthetic texts that are kept (the augmentation).")
    written: int = Field(
        7500, ge=1, le=10_000_000, description="Texts that the models write, from which those are chosen."
    )
    select: Literal["discriminator", "dp_sgd", "chance"] = Field(
        "discriminator",
        description="Keep what the student of the teachers takes for private; what a classifier does that learned to "
        "tell private rows from texts by DP-SGD (`training`); or any texts.",
    )
    training: DpSteps | None = Field(
        None, exclude_if=partial(is_, None), description="The steps of that classifier; for select: dp_sgd."
    )

    rules = rule("select", {"const": "dp_sgd"}, {"training": {"type": "object"}})

    @property
    def casting(self) -> Casting:
        """Private rows do not vote."""
        return Casting(0)

    @property
    def tuning(self) -> Training | None:
        """The steps in which a classifier learns from the private rows, where one does."""
        return self.training.tuning if self.training is not None else None

    @property
    def starts(self) -> dict[str, int]:
        """Every model writes of every class."""
        return {"written": self.written}

    @model_validator(mode="after")
    def _some_are_left_over(self) -> Self:
        if self.written < self.samples:
            raise ValueError(f"written ({self.written}) must be at least samples ({self.samples}), which are kept")
        if (self.select == "dp_sgd") != (self.training is not None):
            raise ValueError("training: name its steps for select: dp_sgd, and leave it out otherwise")
        return self


class KdPrivacy(Privacy):
    """What is promised about the private rows, by label counts and teachers together."""

    epsilon: Epsilon = Field(
        4.0, gt=0, description="Total privacy loss: label counts and answers together; 'inf' means NOT PRIVATE."
    )
    protects: Literal["record"] = Field("record", description="One row: one text with its label.")
    filter_epsilon: None = Field(None, exclude=True)
    calibration: Literal["tight", "paper"] = Field(
        "tight",
        description="tight: noise for all answers together; paper: sigma 6 for any number of them, which keeps NO "
        "stated epsilon: what it costs is accounted.",
    )

    hidden: ClassVar[dict[str, str]] = {"filter_epsilon": "the teachers have what the label counts leave"}


class KdTutorConfig(OwnRowsConfig):
    """Everything that one run of the discriminator with a tutor needs."""

    flow_name: ClassVar[str] = "kd_tutor"

    privacy: KdPrivacy = Field(KdPrivacy(), description="What is promised about the private rows.")
    method: KdMethod = Field(KdMethod(), description="What is written and what is kept.")
    discriminator: Discriminator = Field(Discriminator(), description="Teachers, queries, and how both are trained.")  # type: ignore[assignment]
    class_balance: Literal["tutor", "balanced", "exact"] = Field(  # type: ignore[assignment]
        "tutor",
        description="tutor: texts of a class in proportion to noisy counts of the private rows' labels; balanced: "
        "equally many; exact: counts without noise, NOT PRIVATE (ablation).",
    )
    filter: None = Field(None, exclude=True)  # type: ignore[assignment]

    hidden: ClassVar[dict[str, str]] = OwnRowsConfig.hidden | {"filter": IS_IT}

    @property
    def epsilon(self) -> float:
        """What is asked for; exact label counts promise nothing."""
        return float("inf") if self.class_balance == "exact" else self.privacy.epsilon

    @property
    def teaches_alone(self) -> bool:
        """Label counts and teachers are the method."""
        return True

    @property
    def filtering(self) -> Discriminator | None:  # type: ignore[override]
        """The discriminator, unless texts are kept by chance."""
        return self.discriminator if self.method.select == "discriminator" else None

    @property
    def calibrations(self) -> tuple[Calibration, ...]:
        """The paper's sigma says nothing of Laplace noise, nor of a look at how sure teachers are."""
        plain = (
            self.method.select != "dp_sgd"
            and self.discriminator.noise == "gaussian"
            and self.discriminator.sure is None
        )
        return ("tight", "paper") if plain and self.epsilon != float("inf") else ("tight",)

    @property
    def asks(self) -> list[Asks]:
        """All texts that are chosen from."""
        return [Asks(self.writers, self.method.written)]

    def _can_pay_for_moments(self) -> None:
        raise ValueError("student.adaptation_from: label counts and teachers leave no budget for moments; write public")

    @model_validator(mode="after")
    def _beside_fits(self) -> Self:
        given = self.privacy.tutor_epsilon
        if given is not None and self.class_balance != "tutor":
            raise ValueError(
                f"privacy.tutor_epsilon is {given:g}, but no counts with noise are released; leave it out, or set "
                "class_balance: tutor"
            )
        if given is not None and given >= self.privacy.epsilon:
            raise ValueError(f"privacy.tutor_epsilon ({given:g}) must be below privacy.epsilon")
        if self.privacy.calibration not in self.calibrations:
            raise ValueError("privacy.calibration paper is for Gaussian answers to all queries; write tight")
        exact = self.private.takes_exactly or self.privacy.adjacency == "replace_one"
        if self.method.tuning is not None and exact:
            raise ValueError(
                "method.select is dp_sgd, which is accounted for an added or removed row alone: set private.of to the "
                "rounded size of the source or leave private.rows empty, and privacy.adjacency: add_remove"
            )
        if self.method.tuning is not None and self.discriminator.kind == "mlp":
            raise ValueError("discriminator.kind mlp is not trained by DP-SGD here; write linear or finetune")
        if self.filtering is not None and self.discriminator.queries >= self.method.written:
            raise ValueError(
                f"discriminator.queries ({self.discriminator.queries}) must be below method.written "
                f"({self.method.written}): teachers learn from texts that they are not asked about"
            )
        return self
