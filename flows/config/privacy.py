"""Typed parameters of the privacy guarantee, of runs without one, and of trainings by DP-SGD."""

from __future__ import annotations

import math
from functools import partial
from operator import is_
from typing import TYPE_CHECKING, Annotated, Literal, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, model_validator

from connectors.interfaces.json_values import Json
from flows.config.form import MAX_DELTA, MIN_DELTA, Strict
from flows.config.identity import NOT_IDENTITY
from tasks.private.training.promise import Clipping, Training
from tasks.private.training.recipe import PaidTraining

if TYPE_CHECKING:
    from flows.config.rows import PrivateRows
    from tasks.accounting.composition import Adjacency
    from tasks.private.training.promise import TrainingNoise
    from tasks.steps.values import ChargedDataset


def _as_epsilon(value: object) -> object:
    # JSON has no infinity, therefore it is a text in forms and manifests.
    if isinstance(value, str) and value.strip().lower() in {"inf", "infinity"}:
        return math.inf
    return value


Epsilon = Annotated[
    float,
    BeforeValidator(
        _as_epsilon, json_schema_input_type=Annotated[float, Field(gt=0)] | Literal["inf"]
    ),
    PlainSerializer(lambda value: "inf" if math.isinf(value) else value, when_used="json"),
]
"""Privacy loss; 'inf' adds no noise and marks the run NOT PRIVATE."""


def check_delta(delta: float) -> float:
    """Return delta; ValueError if it is too large or too small for the accountants."""
    if delta >= MAX_DELTA:
        raise ValueError(
            f"{delta:g} is not below {MAX_DELTA:g}: it permits publishing one record in {max(1, round(1 / delta))} "
            "unchanged. Write a number below 1/rows, such as 1e-5"
        )
    # `not >` rather than `<=`, which NaN would pass.
    if not delta > MIN_DELTA:
        raise ValueError(
            f"{delta:g} is not above {MIN_DELTA:g}: accountants cannot distinguish it from 0 in floating point. "
            "Write a number such as 1e-5 or 1e-8"
        )
    return delta


Delta = Annotated[
    float,
    AfterValidator(check_delta),
    Field(json_schema_extra={"exclusiveMinimum": MIN_DELTA, "exclusiveMaximum": MAX_DELTA}),
]
"""Probability that the guarantee fails.

Below 0.01: (0, delta)-DP permits publishing each record unchanged with probability delta. Above 1e-12: at 1e-14 two
DP-SGD accountants differ in the fourth digit, and at 1e-16 one of them returns no number.
"""

Calibration = Literal["tight", "paper"]
AnyPrivacy = TypeVar("AnyPrivacy", bound="Privacy")


class LossPolicy(Strict):
    """Handling of lost run artifacts."""

    on_lost_artifacts: Annotated[Literal["stop", "respend"], NOT_IDENTITY] = Field(
        "stop",
        description="If texts were lost or deleted: stop, or generate and pay for them again.",
    )

    @property
    def respends(self) -> bool:
        """True if a run pays again for lost artifacts."""
        return self.on_lost_artifacts == "respend"


class Privacy(LossPolicy):
    """Privacy guarantee of a run that adds noise to votes or counts."""

    first = ("epsilon",)

    epsilon: Epsilon = Field(
        4.0,
        gt=0,
        description="Total privacy loss of the run. 'inf', in a file or in `changes`, adds no noise and marks the run "
        "NOT PRIVATE.",
    )
    delta: Delta = Field(
        1e-5,
        description="Probability that the guarantee of the run fails; below 1/rows, between 1e-12 and 0.01.",
    )
    adjacency: Literal["add_remove", "replace_one"] = Field(
        "add_remove",
        description="Neighbouring data sets differ by one added or removed record, or by a replaced one.",
    )
    protects: Literal["record", "person"] = Field(
        "record",
        description="Unit of protection: one record, or all records of a person (set private.person).",
    )
    rows_per_person: int = Field(
        8,
        ge=1,
        le=1024,
        description="Maximum records per person that vote (m), selected by a keyed hash. Declare it without looking at "
        "the data. Only for protects: person.",
    )
    joined_by: Literal["max", "sum", "mean"] | None = Field(
        None,
        description="How the records of a person combine: max (noise x sqrt(m)), sum (noise x m), or mean (no extra "
        "noise; many records count as one). Empty: mean for a density, max for votes. Only for protects: person.",
    )
    calibration: Calibration = Field(
        "tight",
        description="tight: the least noise that achieves epsilon; paper: the noise formula of the paper.",
    )

    def neighbours(self, rows: PrivateRows | None) -> Adjacency:
        """Return the adjacency to calibrate noise for.

        This is replace_one, regardless of `adjacency`, for a fixed number of rows from a larger source: removing one
        row then adds another.
        """
        if rows is not None and rows.takes_exactly:
            return "replace_one"
        return self.adjacency


class WordsPrivacy(Privacy):
    """Privacy guarantee of a run that may release a private vocabulary."""

    vocabulary_epsilon: float | None = Field(
        None,
        gt=0,
        exclude_if=partial(is_, None),
        description="Part of epsilon for the private vocabulary. Empty: equal parts for all releases.",
    )

    @model_validator(mode="after")
    def _is_a_part(self) -> Self:
        return check_part(self, "vocabulary_epsilon")


def check_part(privacy: AnyPrivacy, field: str) -> AnyPrivacy:
    """Return the guarantee; ValueError if the part of epsilon in one of its fields is not below epsilon."""
    part = getattr(privacy, field)
    if part is not None and part >= privacy.epsilon:
        raise ValueError(f"{field} ({part:g}) must be below epsilon ({privacy.epsilon:g})")
    return privacy


def _only_infinite(field: Json) -> None:
    """Offer 'inf' alone in the form."""
    # pydantic offers a number or 'inf'.
    field.pop("anyOf", None)
    field |= {"type": "string", "enum": ["inf"]}


class Exposure(LossPolicy):
    """No privacy guarantee: for a method that uses private data without noise."""

    epsilon: Epsilon = Field(
        math.inf,
        gt=0,
        json_schema_extra=_only_infinite,
        description="Always 'inf': this method adds no noise and is marked NOT PRIVATE.",
    )

    @model_validator(mode="after")
    def _require_infinite_epsilon(self) -> Self:
        if not math.isinf(self.epsilon):
            raise ValueError(
                f"epsilon is {self.epsilon:g}, but this method adds no noise and gives no guarantee. Write inf"
            )
        return self


BatchRows = Annotated[
    int,
    Field(ge=1, description="Average number of rows in a step; each row is sampled independently."),
]
Steps = Annotated[
    int,
    Field(ge=1, le=1_000_000, description="Number of steps; each adds noise and costs epsilon."),
]
LearningRate = Annotated[float, Field(gt=0, le=10, description="Learning rate of Adam.")]


class DpSteps(Strict):
    """DP-SGD training settings; all steps together are one release."""

    declared_rows: int = Field(
        ge=2,
        description="Rounded number of private rows. It is PUBLIC (plan, privacy ledger, report) and sets the sampling "
        "probability. Declare a rounded number, never a count.",
    )
    batch_rows: BatchRows = 256
    steps: Steps = 100
    learning_rate: LearningRate = 0.05
    clipping: Clipping = Field(
        "hooks",
        description="hooks: stores a gradient per row. ghost: only its norm; far less memory for transformers.",
    )

    @property
    def tuning(self) -> Training:
        """The training, as input for the accountant."""
        return Training(self.steps, self.batch_rows, self.declared_rows)

    def paid(self, payer: ChargedDataset, noise: TrainingNoise) -> PaidTraining:
        """Return the training that `payer` is charged for; `noise` states its steps, sampling rate and noise."""
        return PaidTraining(payer, noise, self.learning_rate, self.clipping)
