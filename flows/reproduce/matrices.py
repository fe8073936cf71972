"""Comparisons of a reproduction: restricted to the rows of its items, reduced for a quick one."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from connectors.interfaces.errors import ConfigError
from flows.compare.cells import Cell, cells_of
from flows.compare.config import Changes, CompareConfig, Row
from flows.config.base import AnyConfig
from flows.config.extends import find_config
from flows.config.files import load_config
from flows.reproduce.catalogue import Item, Measurement, Paper

ALL_ROWS = ".rows"
"""Ending of fields whose empty value means all rows, not a default."""


@dataclass(frozen=True)
class Matrix:
    """A comparison as it is run, with the measurements of the items that need it."""

    name: str
    config: CompareConfig
    measurements: tuple[Measurement, ...]

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """All cells, with keys of the files that are there at the first use."""
        return tuple(cells_of(self.config))

    def first_seed(self) -> CompareConfig:
        """Return the comparison with its first seed alone."""
        return self.config.model_copy(update={"seeds": self.config.seeds[:1]})

    def first_pair(self) -> CompareConfig:
        """Return the comparison with its first seed, column and two rows, which yield a first result early."""
        rows = [row.name for row in self.config.rows[:2]]
        return _with_parts(self.first_seed(), rows, [self.config.columns[0].name])

    def cells_in(self, config: CompareConfig) -> list[Cell]:
        """Return the cells of a part of this comparison."""
        rows = {row.name for row in config.rows}
        columns = {column.name for column in config.columns}
        return [
            cell
            for cell in self.cells
            if cell.row in rows and cell.column in columns and cell.seed in config.seeds
        ]

    def parts_with(self, cells: Sequence[Cell]) -> list[CompareConfig]:
        """Return parts of this comparison that together have these cells.

        Each has one seed and one column, and its own title: its tables may have another reference row.
        """
        rows: dict[tuple[int, str], list[str]] = {}
        for cell in cells:
            rows.setdefault((cell.seed, cell.column), []).append(cell.row)
        parts = []
        for seed, column in sorted(rows, key=lambda pair: self.config.seeds.index(pair[0])):
            title = f"{self.config.title}, part: {column}, seed {seed}"
            changes = {"seeds": [seed], "title": title}
            parts.append(
                _with_parts(self.config, rows[seed, column], [column]).model_copy(update=changes)
            )
        return parts

    def part(self, measurement: Measurement) -> tuple[CompareConfig, list[Cell]]:
        """Return the part of a measurement: configuration, with its reference row first, and cells."""
        config = _restricted(self.config, [measurement])
        # Python's sort keeps the order of the others.
        rows = sorted(config.rows, key=lambda row: row.name != measurement.reference)
        config = config.model_copy(update={"rows": rows})
        return config, self.cells_in(config)


def load_matrices(
    paper: Paper, items: Sequence[Item], is_published: bool, is_quick: bool
) -> list[Matrix]:
    """Return the comparisons of some items, each once, in the order of the catalogue."""
    measurements: dict[str, list[Measurement]] = {}
    for item in items:
        for measurement in item.measurements(is_published):
            measurements.setdefault(measurement.comparison, []).append(measurement)
    return [_matrix(name, paper, parts, is_quick) for name, parts in measurements.items()]


def _matrix(name: str, paper: Paper, parts: list[Measurement], is_quick: bool) -> Matrix:
    config = load_config(CompareConfig, find_config(Path(name)), [])
    _require_names(name, config, parts)
    if is_quick:
        ceilings = dict(paper.quick)
        for part in parts:
            ceilings |= part.quick
        # Before rows are removed: a cell is the same whichever items are selected.
        config = _reduced(config, ceilings)
    config = _restricted(config, parts)
    if is_quick:
        config = _without_unclaimed(config, parts)
    return Matrix(name, config, tuple(parts))


def _require_names(name: str, config: CompareConfig, parts: Sequence[Measurement]) -> None:
    """Raise ConfigError for a row or column of the catalogue that the comparison, or the item, does not have."""
    rows = {row.name for row in config.rows}
    columns = {column.name for column in config.columns}
    for part in parts:
        unknown = {*part.rows, _reference(config, part)} - rows
        unknown |= set(part.columns) - columns
        if unknown:
            raise ConfigError(
                f"{name}: has no row or column '{min(unknown)}', which the catalogue of reproductions names"
            )
        outside = _claimed_rows(part) - (
            {*part.rows, _reference(config, part)} if part.rows else rows
        )
        outside |= _claimed_columns(part) - (set(part.columns) or columns)
        if outside:
            raise ConfigError(
                f"{name}: a claim names row or column '{min(outside)}', which its item leaves out. Add it to rows or "
                "columns of the item, or correct the claim"
            )


def _reference(config: CompareConfig, part: Measurement) -> str:
    """Return the name of the row that the others of a part are compared with."""
    return part.reference or config.rows[0].name


def _claimed_rows(part: Measurement) -> set[str]:
    return {name for claim in part.claims for name in (claim.row, claim.than) if name}


def _claimed_columns(part: Measurement) -> set[str]:
    return {
        name
        for claim in part.claims
        for name in (claim.column, claim.than_column, *claim.columns, *claim.published)
        if name
    }


def _restricted(config: CompareConfig, parts: Sequence[Measurement]) -> CompareConfig:
    """Return a comparison with the rows, columns and metrics of its parts; their reference rows stay."""
    rows = set(_names(parts, "rows"))
    columns = set(_names(parts, "columns"))
    metrics = set(_names(parts, "metrics"))
    if rows:
        rows |= {_reference(config, part) for part in parts}
    part = _with_parts(config, rows, columns)
    if not metrics:
        return part
    shown = [name for name in config.metrics if name in metrics]
    return part.model_copy(update={"metrics": shown})


def _with_parts(
    config: CompareConfig, rows: Collection[str], columns: Collection[str]
) -> CompareConfig:
    """Return a comparison with these rows and columns; without names, with all."""
    chosen = [entry for entry in config.columns if not columns or entry.name in columns]
    names = {entry.name for entry in chosen}
    return config.model_copy(
        update={
            "columns": chosen,
            "rows": [
                _with_columns(row, names) for row in config.rows if not rows or row.name in rows
            ],
        }
    )


def _with_columns(row: Row, columns: Collection[str]) -> Row:
    """Return a row without the published figures of other columns, which a comparison refuses."""
    published = {
        metric: {name: figure for name, figure in figures.items() if name in columns}
        for metric, figures in row.published.items()
    }
    left = {metric: figures for metric, figures in published.items() if figures}
    return row.model_copy(update={"published": left})


def _names(parts: Sequence[Measurement], field: str) -> list[str]:
    """Return the names that the parts list in a field; none if one of them takes all."""
    listed = [getattr(part, field) for part in parts]
    if not all(listed):
        return []
    return [name for names in listed for name in names]


# --- quick
def _reduced(config: CompareConfig, ceilings: Mapping[str, int]) -> CompareConfig:
    """Return a comparison of one seed whose fields do not exceed their ceilings."""
    columns = [
        column.model_copy(update={"set": column.set | _lowered(column.set, ceilings)})
        for column in config.columns
    ]
    changes = {"seeds": config.seeds[:1], "columns": columns}
    single = config.model_copy(update=changes)
    # After the columns: a row has precedence over them, and would make them equal.
    configs: dict[str, list[AnyConfig]] = {}
    for cell in cells_of(single):
        configs.setdefault(cell.row, []).append(cell.config)
    rows = [_reduced_row(row, configs[row.name], ceilings) for row in config.rows]
    return single.model_copy(update={"rows": rows})


def _lowered(changes: Changes, ceilings: Mapping[str, int]) -> Changes:
    """Return the fields of a column that exceed their ceilings, with these."""
    return {
        field: ceiling
        for field, ceiling in ceilings.items()
        if isinstance(changes.get(field), int) and changes[field] > ceiling
    }


def _reduced_row(row: Row, configs: Sequence[AnyConfig], ceilings: Mapping[str, int]) -> Row:
    changes = {
        field: ceiling
        for field, ceiling in ceilings.items()
        if any(_exceeds(config, field, ceiling) for config in configs)
    }
    return row.model_copy(update={"set": row.set | changes})


def _exceeds(config: AnyConfig, field: str, ceiling: int) -> bool:
    """Return True if a field of a configuration is larger; False if its flow has no such field."""
    value: object = config
    for name in field.split("."):
        # A field that has no effect on a flow is hidden, and setting it is an error.
        if name in getattr(type(value), "hidden", {}):
            return False
        value = getattr(value, name, None)
        if value is None:
            break
    if value is None:
        return field.endswith(ALL_ROWS) and getattr(config, field.split(".")[0], None) is not None
    return isinstance(value, int) and value > ceiling


def _without_unclaimed(config: CompareConfig, parts: Sequence[Measurement]) -> CompareConfig:
    """Return a comparison without the rows and columns that no claim names; all where no claim is stated."""
    stated = [claim for part in parts for claim in part.claims]
    rows = {row.name for row in config.rows if row.published}
    columns = {name for _, _, name in config.published}
    for part in parts:
        rows |= _claimed_rows(part)
        columns |= _claimed_columns(part)
    # A figure whose claims hold in every column, or that has none, needs all.
    needs_all = any(not part.claims for part in parts) and not config.published
    if not rows or needs_all:
        return config
    if any(not (claim.column or claim.columns) for claim in stated):
        columns = {entry.name for entry in config.columns}
    rows |= {config.rows[0].name, *(_reference(config, part) for part in parts)}
    return _with_parts(config, rows, columns)
