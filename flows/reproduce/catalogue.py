"""The catalogue of the papers: every table and figure, and the comparisons that measure it.

`flows/config/reproductions.yaml` is read by the command `wasp reproduce` and by the page on coverage: an item is in
both or in neither.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from connectors.interfaces.addresses import ConfigName
from connectors.interfaces.errors import ConfigError, nearest
from flows.compare.config import MetricName
from flows.config.files import check_config
from flows.config.form import Strict
from flows.config.yaml_files import read_yaml

CATALOGUE = Path(__file__).parents[1] / "config" / "reproductions.yaml"
Ceilings = dict[str, Annotated[int, Field(ge=1)]]
"""Largest values of fields in a quick reproduction: method.samples -> number."""


class StatedClaim(Strict):
    """A claim that the catalogue states: one result is above or below another one.

    Claims of a figure, whose numbers are drawn and not printed, and of a table between rows of which none is the
    reference. The other result is that of `than` in `than_column`, by default of the same row or column. A claim
    without `column` and `columns` is made for each column. `falling` and `rising` compare the last iteration of a row
    with its first.
    """

    text: str = Field(min_length=1, description="The claim, as a sentence without full stop.")
    metric: MetricName
    row: str
    direction: Literal["above", "below", "falling", "rising"]
    than: str | None = Field(None, description="Row of the other result.")
    column: str | None = Field(None, description="Column of the result. Empty: each column.")
    than_column: str | None = Field(None, description="Column of the other result.")
    columns: list[str] = Field([], description="Columns of the claim, if not each.")
    published: dict[str, float] = Field({}, description="Printed differences by column.")

    @model_validator(mode="after")
    def _has_another_result(self) -> Self:
        is_over_iterations = self.direction in ("falling", "rising")
        if is_over_iterations and (self.than or self.than_column):
            raise ValueError("falling and rising compare the iterations of a row. Remove than")
        if not is_over_iterations and not (self.than or self.than_column):
            raise ValueError("above and below need another result. Set than or than_column")
        if self.than_column and not self.column:
            raise ValueError("than_column is the other column of a pair. Set column too")
        if self.column and self.columns:
            raise ValueError("column and columns exclude each other. Remove one of them")
        named = [self.column] if self.column else self.columns
        if named and not set(self.published) <= set(named):
            raise ValueError("published has a column that the claim is not made for. Remove it")
        if any((figure > 0) != self.is_higher for figure in self.published.values()):
            raise ValueError(
                f"published has a difference of the other sign than '{self.direction}'"
            )
        return self

    @property
    def is_higher(self) -> bool:
        """True if the result is claimed to be above the other one."""
        return self.direction in ("above", "rising")

    def columns_of(self, columns: Sequence[str]) -> list[str]:
        """Return the columns for which the claim is made, of all columns of its comparison."""
        if self.column:
            return [self.column]
        return [name for name in columns if not self.columns or name in self.columns]


class Measurement(Strict):
    """A comparison that measures an item, and the rows, columns and metrics of it that belong to the item.

    A plain name is short for a comparison with all its rows.
    """

    comparison: ConfigName
    rows: list[str] = Field([], description="Rows of the item. Empty: all.")
    columns: list[str] = Field([], description="Columns of the item. Empty: all.")
    metrics: list[MetricName] = Field([], description="Metrics of the item. Empty: all.")
    reference: str = Field(
        "",
        description="Row that published figures of the others are compared with. Empty: the first one.",
    )
    claims: list[StatedClaim] = Field(
        [],
        description="Claims beyond those of published figures; one about a row and the reference replaces them.",
    )
    remark: str = Field("", description="What a reader must know about this comparison.")
    quick: Ceilings = Field({}, description="Ceilings beyond those of the paper.")

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"comparison": value}
        return value


class Item(Strict):
    """Tables and figures that are measured together, by the same comparisons."""

    tables: list[str] = Field([], description="Numbers of tables: '1'.")
    figures: list[str] = Field([], description="Numbers of figures: '1b'.")
    about: str = Field(min_length=1, description="Contents, as a phrase.")
    here: list[Measurement] = Field(
        [], description="Comparisons for a machine without accelerator."
    )
    published: list[Measurement] = Field([], description="Comparisons with the published sizes.")
    reason: str = Field("", description="Why nothing measures this item without accelerator.")

    @field_validator("tables", "figures", mode="before")
    @classmethod
    def _as_texts(cls, value: Any) -> Any:
        if isinstance(value, list):
            return [str(number) for number in value]
        return value

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if not (self.tables or self.figures):
            raise ValueError("an item has the number of a table or figure")
        if bool(self.here) == bool(self.reason):
            raise ValueError(f"{self.name}: needs `here`, or the reason why it has none")
        return self

    @property
    def name(self) -> str:
        """The tables and figures: "Tables 1 and 4"."""
        parts = [_numbered("Table", self.tables), _numbered("Figure", self.figures)]
        return ", ".join(filter(None, parts))

    def measurements(self, is_published: bool) -> list[Measurement]:
        """Return the comparisons of one of the two lists."""
        return self.published if is_published else self.here


class Part(Strict):
    """An algorithm, equation or baseline: where the code is, and how it relates to the paper."""

    part: str = Field(min_length=1)
    where: str = Field(min_length=1, description="Files, fields or configurations.")
    relation: str = Field(min_length=1, description="Relation to the paper.")


class Paper(Strict):
    """A paper with its items and parts."""

    title: str = Field(min_length=1)
    citation: str = Field(min_length=1)
    quick: Ceilings = Field({}, description="Ceilings of a quick reproduction.")
    items: list[Item] = Field(min_length=1)
    parts: list[Part] = Field([], description="Algorithms, equations and baselines.")

    def select(self, tables: list[str], figures: list[str]) -> list[Item]:
        """Return the items with these numbers, all without numbers; '1' is also the parts 1a and 1b.

        ConfigError for a number that the paper does not have, or that nothing measures.
        """
        if not tables and not figures:
            return list(self.items)
        requested = [("table", number) for number in tables]
        requested += [("figure", number) for number in figures]
        selected = {id(item) for kind, number in requested for item in self._numbered(kind, number)}
        return [item for item in self.items if id(item) in selected]

    def _numbered(self, kind: str, number: str) -> list[Item]:
        fitting = [item for item in self.items if _has(getattr(item, f"{kind}s"), number)]
        if not fitting:
            known = sorted(
                (entry for item in self.items for entry in getattr(item, f"{kind}s")),
                key=_order,
            )
            raise ConfigError(
                f"--{kind}: {self.title} has no {kind} {number}. Choose from {', '.join(known) or 'none'}"
            )
        return fitting


class Catalogue(Strict):
    """The papers by name."""

    papers: dict[str, Paper] = Field(min_length=1)


def read_catalogue() -> Catalogue:
    """Return the shipped catalogue."""
    return check_config(Catalogue, read_yaml(CATALOGUE), str(CATALOGUE))


def read_paper(name: str) -> tuple[str, Paper]:
    """Return a paper of the catalogue, or of a user's own file, with its name.

    ConfigError for an unknown name, or with each invalid field.
    """
    if name.endswith((".yaml", ".yml")):
        path = Path(name)
        return path.stem, check_config(Paper, read_yaml(path), name)
    papers = read_catalogue().papers
    if name not in papers:
        raise ConfigError(
            f"{name}: there is no such paper.{nearest(name, papers)} Papers: {', '.join(papers)}. For a paper of "
            "your own, write the path of its file: wasp reproduce ./mine.yaml"
        )
    return name, papers[name]


def _order(number: str) -> tuple[int, str]:
    """Return the sort key of a number such as "1b"; others follow."""
    digits = re.match(r"\d*", number)
    if digits is None or not digits[0]:
        return sys.maxsize, number
    return int(digits[0]), number


def _has(numbers: list[str], number: str) -> bool:
    return any(re.fullmatch(rf"{re.escape(number)}[a-z]?", entry) for entry in numbers)


def _numbered(noun: str, numbers: list[str]) -> str:
    if not numbers:
        return ""
    if len(numbers) == 1:
        return f"{noun} {numbers[0]}"
    return f"{noun}s {', '.join(numbers[:-1])} and {numbers[-1]}"
