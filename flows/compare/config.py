"""Typed parameters of a comparison: methods in rows, settings in columns, seeds in between."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from flows.config.execution import Execution, Tracking
from flows.config.form import Strict

Metric = Literal[
    "accuracy", "macro_f1", "fid", "text_precision", "text_recall", "picks", "overlap", "weights_tv", "equal_tv"
]
Changes = dict[str, Any]
"""Changes of a configuration: 'method.votes' -> value."""


class Row(Strict):
    """One method with its settings: a line of the table."""

    name: str = Field(min_length=1, description="What the line is called.")
    flow: str = Field("wasp", description="The flow that carries it out; audit and compare are none.")
    config: str = Field(description="Configuration file; looked for here, then below deployments/configs.")
    set: Changes = Field({}, description="Changes of it, by field: method.votes: 4.")
    ignores: list[str] = Field(
        [], description="Fields of columns, and of `set` for all, that mean nothing to this flow: privacy.epsilon."
    )
    differs: str = Field("", description="What differs from the setting of the published figure, in words.")
    published: dict[Metric, dict[str, float]] = Field(
        {}, description="Published figures to stand beside ours: metric, column, figure in our unit (0.895, not 89.5)."
    )

    @field_validator("flow")
    @classmethod
    def _is_one_that_trains(cls, flow: str) -> str:
        from flows.catalog import method_names

        known = method_names()
        if flow not in known:
            raise ValueError(f"there is no flow '{flow}' to compare; known: {', '.join(known)}")
        return flow


class Column(Strict):
    """One setting that every method meets: a dataset, an epsilon, a number of votes."""

    name: str = Field(min_length=1, description="What the column is called.")
    set: Changes = Field({}, description="Changes of every configuration, by field: privacy.epsilon: 1.")
    place: float | None = Field(None, description="Where it stands on the axis of a curve; empty: bars are drawn.")


class CompareConfig(Strict):
    """Which methods are compared, where, how often, and with what."""

    is_whole = True

    title: str = Field(min_length=1, description="Title of the table, and of the experiment in MLflow.")
    rows: list[Row] = Field(min_length=1, description="The methods.")
    columns: list[Column] = Field([Column(name="all")], min_length=1, description="The settings that all of them meet.")
    seeds: list[int] = Field([0], min_length=1, description="Each cell is carried out once with each seed.")
    seeded: list[str] = Field(
        [],
        description="Further fields that take the seed: private.seed for other private rows with each seed. Not for a "
        "row that ignores them.",
    )
    set: Changes = Field({}, description="Changes of every configuration, by field; a row's own come last.")
    against: str | None = Field(
        None, description="Row that the others are compared with, pair by pair; empty: the first."
    )
    metrics: list[Metric] = Field(["accuracy", "fid"], min_length=1, description="What is tabled.")
    confidence: float = Field(0.95, gt=0.5, lt=1, description="Of the intervals of paired differences.")
    workers: int = Field(2, ge=1, le=64, description="Cells that are carried out at the same time.")
    tracking: Tracking = Field(Tracking(), description="Where the comparison and its cells are recorded.")

    @model_validator(mode="after")
    def _names_are_told_apart(self) -> Self:
        for what, names in (("rows", [row.name for row in self.rows]), ("columns", [one.name for one in self.columns])):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"{what}: '{twice[0]}' is the name of two; every name must be another")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError("seeds: the same seed twice is the same cell twice")
        if self.against not in (None, *[row.name for row in self.rows]):
            raise ValueError(f"against: '{self.against}' is no row; rows: {', '.join(row.name for row in self.rows)}")
        columns = {column.name for column in self.columns}
        for row in self.rows:
            wrong = sorted({name for figures in row.published.values() for name in figures} - columns)
            if wrong:
                raise ValueError(f"rows '{row.name}': published names the column '{wrong[0]}', which is none")
        return self

    @property
    def execution(self) -> Execution:
        """Cells are carried out in threads of one process; each carries its own steps out as its configuration says."""
        return Execution(max_workers=self.workers)

    @property
    def reference(self) -> str:
        """The row that the others are compared with."""
        return self.against or self.rows[0].name
