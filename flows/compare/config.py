"""Typed parameters of a comparison: rows, columns and seeds."""

from functools import partial
from operator import is_
from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, Field, model_validator

from connectors.interfaces.addresses import ConfigName, ShippedRows
from connectors.interfaces.json_values import Json
from connectors.interfaces.rows import ALPHAS
from connectors.security.secret_patterns import PUBLIC
from flows.config.execution import Execution, Tracking
from flows.config.form import SET, Rule, Rules, Strict
from tasks.metrics.registry import compared_names


def _is_compared(name: str) -> str:
    if name not in compared_names():
        raise ValueError(
            f"there is no metric '{name}' to compare; choose one of: {', '.join(compared_names())}"
        )
    return name


def _list_metrics(schema: Json) -> None:
    """List the registered metrics in the schema of the form."""
    schema["enum"] = list(compared_names())


MetricName = Annotated[str, AfterValidator(_is_compared), Field(json_schema_extra=_list_metrics)]
Changes = Json
"""Changed fields of a configuration: 'method.votes' -> value."""


class Row(Strict):
    """A method with its settings: one row of the table."""

    name: str = Field(min_length=1, description="Label of the row.")
    flow: str = Field("wasp", description="Flow of this row; audit and compare are not allowed.")
    config: ConfigName = Field(
        description="Configuration file, or FILE#SETTING; searched here, then in deployments/configs."
    )
    set: Changes = Field({}, description="Changed fields of the configuration: method.votes: 4.")
    ignores: list[str] = Field(
        [],
        description="Fields of columns and of the global `set` that do not apply to this flow: privacy.epsilon.",
    )
    differs: str = Field("", description="Description of differences from the published setting.")
    published: dict[MetricName, dict[str, float]] = Field(
        {},
        description="Published figures to compare with: metric, column, figure as a fraction (0.895, not 89.5).",
    )
    shows: dict[MetricName, MetricName] = Field(
        {},
        description="Metrics of this row that stand in the tables in place of others: accuracy: adapted_accuracy.",
    )


class PartitionChoice(Strict):
    """Rows that a comparison with `local_parties` divides among the parties of federated cells without a folder.

    As `wasp partition` does; each seed of the comparison gives another division.
    """

    path: ShippedRows = Field(
        description="Rows to divide: file, folder or address, as in private.path.",
        json_schema_extra={"pattern": PUBLIC},
    )
    text: str = Field("text", description="Text column.")
    label: str = Field("label", description="Label column.")
    person: str | None = Field(
        None, description="Column of the person; a person's rows stay together."
    )
    take: int | None = Field(
        None, ge=1, description="Number of rows, each class in its proportion. Empty: all."
    )
    class_alpha: float | None = Field(
        None,
        ge=ALPHAS[0],
        le=ALPHAS[1],
        description="Dirichlet parameter of unbalanced classes of `take` rows. Empty: as they are.",
    )
    alpha: float = Field(
        1.0,
        ge=1e-3,
        le=1e6,
        description="Dirichlet parameter of the parties; a small value gives dissimilar ones.",
    )
    epsilon: float = Field(
        4.0, ge=0, description="Cap of each party: total epsilon of all runs; inf: no cap."
    )

    rules: ClassVar[Rules] = {
        Rule("class_alpha", SET, "take", SET): (
            "class_alpha draws from more rows than are used. Set take, or remove class_alpha"
        ),
    }


class Column(Strict):
    """A setting for every method, such as a dataset, an epsilon or a number of votes."""

    name: str = Field(min_length=1, description="Label of the column.")
    set: Changes = Field(
        {}, description="Changed fields of every configuration: privacy.epsilon: 1."
    )
    place: float | None = Field(
        None, description="Position on the axis of a curve; empty: bar chart."
    )
    partition: PartitionChoice | None = Field(
        None,
        exclude_if=partial(is_, None),
        description="Rows to divide among the parties of federated cells of this column whose folder does not exist.",
    )


class CompareConfig(Strict):
    """Methods, settings, seeds and metrics of a comparison."""

    is_whole = True
    flow_name: ClassVar[str] = "compare"

    title: str = Field(
        min_length=1, description="Title of the table, and of the experiment in MLflow."
    )
    rows: list[Row] = Field(
        min_length=1, description="The methods; the first is the reference of paired comparisons."
    )
    columns: list[Column] = Field(
        [Column(name="all")], min_length=1, description="The settings applied to all methods."
    )
    seeds: list[int] = Field([0], min_length=1, description="Each cell runs once with each seed.")
    set: Changes = Field(
        {},
        description="Changed fields of every configuration; a row's own changes take precedence. {seed} stands for the "
        "seed: private.seed: '{seed}' takes other private rows with each seed.",
    )
    metrics: list[MetricName] = Field(
        ["accuracy", "fid", "mmd"], min_length=1, description="Metrics of the table."
    )
    workers: int = Field(2, ge=1, le=64, description="Number of concurrent cells.")
    local_parties: int | None = Field(
        None,
        ge=2,
        description="Number of parties of each federated cell, started on this machine; empty: they run already.",
    )
    tracking: Tracking = Tracking()

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        rows = [row.name for row in self.rows]
        columns = [column.name for column in self.columns]
        for what, names in (("rows", rows), ("columns", columns)):
            duplicates = sorted({name for name in names if names.count(name) > 1})
            if duplicates:
                raise ValueError(
                    f"{what}: the name '{duplicates[0]}' occurs twice; names must be unique"
                )
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError("seeds: a seed occurs twice; seeds must be unique")
        for row in self.rows:
            published = {name for figures in row.published.values() for name in figures}
            unknown = sorted(published - set(columns))
            if unknown:
                raise ValueError(
                    f"rows '{row.name}': published names an unknown column '{unknown[0]}'"
                )
        return self

    @property
    def published(self) -> dict[tuple[str, str, str], float]:
        """Published figures by metric, row and column."""
        return {
            (metric, row.name, column): figure
            for row in self.rows
            for metric, figures in row.published.items()
            for column, figure in figures.items()
        }

    @property
    def execution(self) -> Execution:
        """Execution settings: cells run in threads of one process."""
        return Execution(max_workers=self.workers)
