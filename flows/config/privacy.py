"""Typed parameters of privacy: what is promised about the private rows, or that nothing is."""

from __future__ import annotations

import math
from functools import partial
from operator import is_
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, model_validator

from flows.config.form import LEAST_DELTA, MOST_DELTA, Strict

if TYPE_CHECKING:
    from flows.config.rows import PrivateRows
    from tasks.accounting.composition import Adjacency


def _as_epsilon(value: Any) -> Any:
    if isinstance(value, str) and value.strip().lower() in {"inf", "infinity"}:
        return math.inf
    return value


Epsilon = Annotated[
    float,
    BeforeValidator(_as_epsilon, json_schema_input_type=Annotated[float, Field(gt=0)] | Literal["inf"]),
    PlainSerializer(lambda value: "inf" if math.isinf(value) else value, when_used="json"),
]
"""A privacy loss; 'inf' means no noise and marks the run NOT PRIVATE."""


def check_delta(delta: float) -> float:
    """Return delta; ValueError where it promises nothing, or is too small for the accountants."""
    if delta >= MOST_DELTA:
        raise ValueError(
            f"{delta:g} is not below {MOST_DELTA:g}: with it, one record in {max(1, round(1 / delta))} may be "
            "published as it is. Write a number below 1/rows, such as 1e-5"
        )
    if not delta > LEAST_DELTA:  # nan as well
        raise ValueError(
            f"{delta:g} is not above {LEAST_DELTA:g}: in floating-point numbers, accountants cannot tell it from 0. "
            "Write a number such as 1e-5 or 1e-8"
        )
    return delta


Delta = Annotated[
    float,
    AfterValidator(check_delta),
    Field(json_schema_extra={"exclusiveMinimum": LEAST_DELTA, "exclusiveMaximum": MOST_DELTA}),
]
"""The chance that a promise fails.

Below 0.01: (0, delta)-DP permits to publish each record as it is with that chance. Above 1e-12: at 1e-14 two
accountants of DP-SGD differ in the fourth digit, at 1e-16 one of them gives no number.
"""

Calibration = Literal["tight", "paper"]


class Promise(Strict):
    """What is promised about the private rows, whatever noise keeps it."""

    epsilon: Epsilon = Field(
        4.0, gt=0, description="Total privacy loss of the run; 'inf' means no noise and marks the run NOT PRIVATE."
    )
    delta: Delta = Field(
        1e-5, description="Chance that the promise fails in the whole run; below 1/rows, and between 1e-12 and 0.01."
    )
    adjacency: Literal["add_remove", "replace_one"] = Field(
        "add_remove", description="What an attacker may not tell: that a row is there, or which of two rows it is."
    )
    protects: Literal["record", "person"] = Field(
        "record", description="One row, or one person with all their rows (private.person names the column)."
    )
    rows_per_person: int = Field(
        8,
        ge=1,
        le=1024,
        description="Most rows of a person that vote (m); a declared number, never read off the data. A keyed hash "
        "chooses them. Only for protects: person.",
    )
    joined_by: Literal["max", "sum", "mean"] = Field(
        "max",
        description="How the votes of a person's rows become that person's: max (noise x sqrt(m)), sum (noise x m), "
        "mean (no more noise; many rows count as one). Only for protects: person.",
    )

    def neighbours(self, rows: PrivateRows | None) -> Adjacency:
        """Return what noise is made for: a replaced row where a fixed number is taken of a larger source.

        Removing one row lets another in then, whatever is asked for.
        """
        return "replace_one" if rows is not None and rows.takes_exactly else self.adjacency


class Kept(Strict):
    """What happens to what a run has made."""

    on_lost_artifacts: Literal["stop", "respend"] = Field(
        "stop", description="If texts are lost, or cleaned away: stop, or ask for them again and pay again."
    )

    @property
    def respends(self) -> bool:
        """Whether what is lost is paid again."""
        return self.on_lost_artifacts == "respend"


class Privacy(Kept, Promise):
    """What is promised about the private rows."""

    calibration: Calibration = Field(
        "tight", description="tight: the least noise that keeps epsilon; paper: the noise of the paper's formula."
    )
    on_lost_artifacts: Literal["stop", "respend"] = Field(
        "stop",
        description="If texts that were voted on are lost, or cleaned away: stop, or ask and vote again and pay again.",
    )
    tutor_epsilon: float | None = Field(
        None,
        gt=0,
        exclude_if=partial(is_, None),
        description="Epsilon of the label counts, a part of epsilon; for class_balance: tutor. Empty: 0.4, or a tenth "
        "of epsilon where that is less.",
    )
    filter_epsilon: float | None = Field(
        None,
        gt=0,
        exclude_if=partial(is_, None),
        description="Epsilon of the discriminator's teachers, a part of epsilon; for filter: discriminator. Empty: "
        "half of what the label counts leave.",
    )


def _only_infinite(field: dict[str, Any]) -> None:
    """Offer 'inf' alone in the form."""
    field.pop("anyOf", None)
    field |= {"type": "string", "enum": ["inf"]}


class Exposure(Kept):
    """That nothing is promised: for a method that uses private rows as they are."""

    epsilon: Epsilon = Field(
        math.inf,
        gt=0,
        json_schema_extra=_only_infinite,
        description="'inf' and nothing else: this method adds no noise and is marked NOT PRIVATE.",
    )

    @model_validator(mode="after")
    def _promises_nothing(self) -> Self:
        if not math.isinf(self.epsilon):
            raise ValueError(
                f"epsilon is {self.epsilon:g}, but this method adds no noise, so that it can promise nothing; write inf"
            )
        return self
