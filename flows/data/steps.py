"""The steps of a recipe: each turns rows into rows, and is one line of YAML."""

import html
import re
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from connectors.interfaces.errors import ConfigError
from flows.config.form import Strict
from flows.data.rows import Cell, Row, Rows, aligned, order_of, ordered

MAX_SHOWN = 60
"""Characters of a value that a message shows."""
Columns = Annotated[list[str], Field(min_length=1)]


def _check_pattern(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"is not a regular expression ({error})") from None
    return pattern


Pattern = Annotated[str, AfterValidator(_check_pattern)]


class Values(Strict):
    """Rows by the value of one column."""

    column: str
    values: list[str | int] = Field(min_length=1)


class Renamed(Strict):
    """New values of one column; a value that is not listed is an error, or its row is dropped."""

    column: str
    values: dict[str, str | int] = Field(
        min_length=1, description="New value of each old one, which is compared as text."
    )
    others: Literal["refuse", "drop"] = "refuse"


class Replacement(Strict):
    """Replacement of each match of a regular expression in one column."""

    column: str
    pattern: Pattern
    by: str = ""


class Extraction(Strict):
    """New columns, one for each named group of the first match in one column."""

    column: str
    pattern: Pattern
    others: Literal["refuse", "drop"] = "refuse"


class Distinct(Strict):
    """The first row of each combination of values."""

    columns: Columns
    count_as: str | None = Field(
        None, description="Column that counts how often each combination occurred."
    )


class Removed(Strict):
    """Rows whose values occur in another table."""

    table: str
    columns: Columns


class Numbers(Strict):
    """A column of numbers by position: `start` + position // `every`."""

    name: str
    start: int = 0
    every: int = Field(1, ge=1)
    by: list[str] = Field([], description="Columns; rows of other values are counted apart.")


class Bounds(Strict):
    """A column of names by the intervals of an integer column."""

    column: str
    name: str
    up_to: dict[int, str] = Field(
        min_length=1, description="Name of the values up to each number, in ascending order."
    )

    @model_validator(mode="after")
    def _ascends(self) -> Self:
        if list(self.up_to) != sorted(self.up_to):
            raise ValueError("up_to: the numbers must ascend")
        return self


class Frequent(Strict):
    """The rows of the most frequent values of one column; of equally frequent values, the first in the alphabet."""

    column: str
    count: int = Field(ge=1)


class Slice(Strict):
    """A part of the rows by position, of each value of `by` if it is set."""

    skip: int = Field(0, ge=0)
    take: int | None = Field(None, ge=1, description="Number of rows. Empty: all further ones.")
    by: str | None = None


class Part(Strict):
    """A share of the rows in an order that a seed decides: those from `start` to `end` of 1."""

    seed: int = 0
    start: float = Field(0.0, ge=0, lt=1)
    end: float = Field(1.0, gt=0, le=1)
    whole: list[str] = Field(
        [], description="Columns; rows with equal values stay together. Empty: each row by itself."
    )
    by: str | None = Field(
        None, description="Column; the share is taken of each value, of groups by their first row."
    )

    @model_validator(mode="after")
    def _is_a_share(self) -> Self:
        if self.start >= self.end:
            raise ValueError("start: must be less than end")
        return self


class Groups(Strict):
    """All rows of some groups of a size, in an order that a seed decides."""

    column: str
    at_least: int = Field(1, ge=1)
    at_most: int | None = Field(None, ge=1)
    take: int | None = Field(None, ge=1, description="Number of groups. Empty: all.")
    seed: int = 0


class Joined(Strict):
    """Columns of another table, by equal values; a row without a partner is an error."""

    table: str
    equal: Columns
    add: Columns


class Lines(Strict):
    """One row for each line of a text, numbered from 0."""

    column: str
    number: str = Field(description="Column with the number of the line.")


class Step(Strict):
    """One step of a table; exactly one field is set."""

    read: str | None = Field(None, description="Rows of a source.")
    table: str | None = Field(None, description="Rows of an earlier table.")
    columns: dict[str, str] | None = Field(
        None, description="Columns to keep: new name and old name."
    )
    set: dict[str, str | int | None] | None = Field(
        None, description="Columns with the same value in each row."
    )
    keep: Values | None = None
    drop: Values | None = None
    rename_values: Renamed | None = None
    collapse_space: Columns | None = Field(
        None, description="Columns whose runs of white space become one space, none at the ends."
    )
    strip: Columns | None = Field(None, description="Columns that lose white space at their ends.")
    replace: Replacement | None = None
    extract: Extraction | None = None
    split_lines: Lines | None = None
    html_text: Columns | None = Field(
        None,
        description="Columns of HTML that become plain text: no tags, entities decoded, line breaks and blank lines "
        "kept.",
    )
    unescape: Columns | None = Field(None, description="Columns whose HTML entities are decoded.")
    integer: Columns | None = Field(None, description="Columns of digits that become numbers.")
    drop_empty: Columns | None = Field(
        None, description="Columns; rows without a character there are dropped."
    )
    min_characters: dict[str, int] | None = Field(
        None, description="Columns with the least length of their texts; rows below are dropped."
    )
    distinct: Distinct | None = None
    not_in: Removed | None = None
    number: Numbers | None = None
    bounds: Bounds | None = None
    most_frequent: Frequent | None = None
    shuffle: int | None = Field(None, description="Seed of a new order.")
    slice: Slice | None = None
    part: Part | None = None
    groups: Groups | None = None
    join: Joined | None = None

    @model_validator(mode="after")
    def _is_one_step(self) -> Self:
        if len(self.model_fields_set) != 1:
            names = ", ".join(sorted(self.model_fields_set)) or "none"
            raise ValueError(f"a step has exactly one name; this one has {names}")
        if getattr(self, self.kind) is None:
            raise ValueError(f"{self.kind}: has no value")
        return self

    @property
    def kind(self) -> str:
        """Name of the step."""
        return next(iter(self.model_fields_set))

    @property
    def sources(self) -> list[str]:
        """Sources that it reads."""
        return [self.read] if self.read is not None else []

    @property
    def tables(self) -> list[str]:
        """Earlier tables that it needs."""
        other = self.not_in or self.join
        named = [self.table, other.table if other else None]
        return [name for name in named if name is not None]


Tables = Mapping[str, Rows]


def apply_step(step: Step, rows: Rows, tables: Tables) -> Rows:
    """Return the rows after a step that reads no source.

    ConfigError for a column that does not exist, or a value that the step refuses.
    """
    if step.table is not None:
        # After other rows: a table may join several ones.
        return aligned([*rows, *tables[step.table]])
    return _OPERATIONS[step.kind](rows, getattr(step, step.kind), tables)


def _check_columns(rows: Rows, names: Columns) -> None:
    if not rows:
        return
    for name in names:
        if name not in rows[0]:
            raise ConfigError(f"there is no column '{name}'; columns: {', '.join(rows[0])}")


def _values(row: Row, names: list[str]) -> tuple[Cell, ...]:
    return tuple(row[name] for name in names)


def _columns(rows: Rows, names: dict[str, str], _: Tables) -> Rows:
    _check_columns(rows, list(names.values()))
    return [{new: row[old] for new, old in names.items()} for row in rows]


def _set(rows: Rows, values: dict[str, Cell], _: Tables) -> Rows:
    return [row | values for row in rows]


def _keep(rows: Rows, option: Values, _: Tables) -> Rows:
    _check_columns(rows, [option.column])
    return [row for row in rows if row[option.column] in option.values]


def _drop(rows: Rows, option: Values, _: Tables) -> Rows:
    _check_columns(rows, [option.column])
    return [row for row in rows if row[option.column] not in option.values]


def _rename_values(rows: Rows, option: Renamed, _: Tables) -> Rows:
    _check_columns(rows, [option.column])
    renamed = []
    for row in rows:
        new = option.values.get(str(row[option.column]))
        if new is not None:
            renamed.append(row | {option.column: new})
        elif option.others == "refuse":
            raise ConfigError(
                f"column '{option.column}': the value {_short(row[option.column])} is not listed"
            )
    return renamed


def _short(value: Cell) -> str:
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def _on_texts(change: Callable[[str], str]) -> Callable[[Rows, Columns, Tables], Rows]:
    """Return the operation that changes each text of some columns; other cells stay."""

    def operation(rows: Rows, names: Columns, _: Tables) -> Rows:
        _check_columns(rows, names)
        return [row | {name: _changed(row[name], change) for name in names} for row in rows]

    return operation


def _changed(value: Cell, change: Callable[[str], str]) -> Cell:
    return change(value) if isinstance(value, str) else value


def _replace(rows: Rows, option: Replacement, tables: Tables) -> Rows:
    pattern = re.compile(option.pattern)
    return _on_texts(lambda text: pattern.sub(option.by, text))(rows, [option.column], tables)


def _extract(rows: Rows, option: Extraction, _: Tables) -> Rows:
    _check_columns(rows, [option.column])
    pattern = re.compile(option.pattern)
    extracted = []
    for row in rows:
        match = pattern.search(str(row[option.column]))
        if match:
            extracted.append(row | match.groupdict())
        elif option.others == "refuse":
            raise ConfigError(
                f"column '{option.column}': the pattern does not occur in {_short(row[option.column])}"
            )
    return extracted


def _split_lines(rows: Rows, option: Lines, _: Tables) -> Rows:
    _check_columns(rows, [option.column])
    return [
        row | {option.column: line, option.number: number}
        for row in rows
        # A line feed at the end of the text begins no further line.
        for number, line in enumerate(str(row[option.column]).removesuffix("\n").split("\n"))
    ]


def _plain_html(text: str) -> str:
    """Return the text of HTML, with line breaks for <br> and <p> and at most one blank line."""
    text = re.sub(r"\s+", " ", text)
    text = re.sub(r"(?i)<br\s*/?>|</?p\b[^>]*>", "\n", text)
    text = html.unescape(re.sub(r"<[^>]*>", " ", text))
    lines = [" ".join(line.split()) for line in text.split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _integer(rows: Rows, names: Columns, _: Tables) -> Rows:
    _check_columns(rows, names)
    return [row | {name: _number(row[name], name) for name in names} for row in rows]


def _number(value: Cell, name: str) -> int | None:
    if value is None:
        return None
    try:
        return int(value)
    except ValueError:
        raise ConfigError(f"column '{name}': {_short(value)} is not an integer") from None


def _drop_empty(rows: Rows, names: Columns, _: Tables) -> Rows:
    _check_columns(rows, names)
    return [
        row
        for row in rows
        if all(row[name] is not None and str(row[name]).strip() for name in names)
    ]


def _min_characters(rows: Rows, least: dict[str, int], _: Tables) -> Rows:
    _check_columns(rows, list(least))
    return [
        row for row in rows if all(len(str(row[name])) >= number for name, number in least.items())
    ]


def _distinct(rows: Rows, option: Distinct, _: Tables) -> Rows:
    _check_columns(rows, option.columns)
    counts = Counter(_values(row, option.columns) for row in rows)
    first: dict[Hashable, Row] = {}
    for row in rows:
        first.setdefault(_values(row, option.columns), row)
    if option.count_as is None:
        return list(first.values())
    return [row | {option.count_as: counts[_values(row, option.columns)]} for row in first.values()]


def _not_in(rows: Rows, option: Removed, tables: Tables) -> Rows:
    _check_columns(rows, option.columns)
    _check_columns(tables[option.table], option.columns)
    others = {_values(row, option.columns) for row in tables[option.table]}
    return [row for row in rows if _values(row, option.columns) not in others]


def _number_rows(rows: Rows, option: Numbers, _: Tables) -> Rows:
    _check_columns(rows, option.by)
    positions: Counter[Hashable] = Counter()
    numbered = []
    for row in rows:
        group = _values(row, option.by)
        numbered.append(row | {option.name: option.start + positions[group] // option.every})
        positions[group] += 1
    return numbered


def _bounds(rows: Rows, option: Bounds, _: Tables) -> Rows:
    _check_columns(rows, [option.column])
    named = []
    for row in rows:
        value = row[option.column]
        if not isinstance(value, int):
            raise ConfigError(f"column '{option.column}': {_short(value)} is not an integer")
        name = next((name for end, name in option.up_to.items() if value <= end), None)
        if name is None:
            raise ConfigError(f"column '{option.column}': {value} is above the last bound")
        named.append(row | {option.name: name})
    return named


def _most_frequent(rows: Rows, option: Frequent, _: Tables) -> Rows:
    _check_columns(rows, [option.column])
    counts = Counter(row[option.column] for row in rows)
    names = sorted(counts, key=lambda value: (-counts[value], str(value)))[: option.count]
    return [row for row in rows if row[option.column] in names]


def _shuffle(rows: Rows, seed: int, _: Tables) -> Rows:
    return ordered(rows, seed)


def _slice(rows: Rows, option: Slice, _: Tables) -> Rows:
    by = [option.by] if option.by else []
    _check_columns(rows, by)
    end = None if option.take is None else option.skip + option.take
    positions: Counter[Hashable] = Counter()
    taken = []
    for row in rows:
        group = _values(row, by)
        position = positions[group]
        positions[group] += 1
        if position >= option.skip and (end is None or position < end):
            taken.append(row)
    for key, size in positions.items():
        if end is not None and size < end:
            raise ConfigError(
                f"{size} rows {key or ''} are fewer than the {end} that the slice needs"
            )
    return taken


def _part(rows: Rows, option: Part, _: Tables) -> Rows:
    by = [option.by] if option.by else []
    _check_columns(rows, [*option.whole, *by])
    if not rows:
        return rows
    # Sorted first, so that neither group nor stratum depends on the order of the rows.
    rows = ordered(rows, option.seed)
    group_of = option.whole or sorted(rows[0])
    strata: dict[Hashable, dict[tuple[Cell, ...], None]] = {}
    seen: set[tuple[Cell, ...]] = set()
    for row in rows:
        group = _values(row, group_of)
        if group not in seen:
            seen.add(group)
            strata.setdefault(_values(row, by), {})[group] = None
    taken: set[tuple[Cell, ...]] = set()
    for groups in strata.values():
        names = sorted(groups, key=lambda group: order_of(option.seed, group))
        taken.update(names[round(option.start * len(names)) : round(option.end * len(names))])
    return [row for row in rows if _values(row, group_of) in taken]


def _groups(rows: Rows, option: Groups, _: Tables) -> Rows:
    _check_columns(rows, [option.column])
    sizes = Counter(row[option.column] for row in rows)
    most = option.at_most or len(rows)
    names = [name for name, size in sizes.items() if option.at_least <= size <= most]
    names = sorted(names, key=lambda name: order_of(option.seed, [name]))
    if option.take is not None and len(names) < option.take:
        raise ConfigError(f"{len(names)} groups are fewer than the {option.take} that it needs")
    chosen = set(names[: option.take])
    return [row for row in rows if row[option.column] in chosen]


def _join(rows: Rows, option: Joined, tables: Tables) -> Rows:
    other = tables[option.table]
    _check_columns(rows, option.equal)
    _check_columns(other, [*option.equal, *option.add])
    partners = {_values(row, option.equal): row for row in other}
    joined = []
    for row in rows:
        partner = partners.get(_values(row, option.equal))
        if partner is None:
            raise ConfigError(
                f"table '{option.table}' has no row with {_values(row, option.equal)}"
            )
        joined.append(row | {name: partner[name] for name in option.add})
    return joined


_OPERATIONS: dict[str, Callable[[Rows, Any, Tables], Rows]] = {
    "columns": _columns,
    "set": _set,
    "keep": _keep,
    "drop": _drop,
    "rename_values": _rename_values,
    "collapse_space": _on_texts(lambda text: " ".join(text.split())),
    "strip": _on_texts(str.strip),
    "replace": _replace,
    "extract": _extract,
    "split_lines": _split_lines,
    "html_text": _on_texts(_plain_html),
    "unescape": _on_texts(html.unescape),
    "integer": _integer,
    "drop_empty": _drop_empty,
    "min_characters": _min_characters,
    "distinct": _distinct,
    "not_in": _not_in,
    "number": _number_rows,
    "bounds": _bounds,
    "most_frequent": _most_frequent,
    "shuffle": _shuffle,
    "slice": _slice,
    "part": _part,
    "groups": _groups,
    "join": _join,
}
