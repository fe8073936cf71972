"""Tables of a comparison as Markdown and HTML, in the layout of the papers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.metrics.comparison import (
    CellResult,
    Difference,
    Mean,
    Verdict,
    adjusted,
    difference,
    is_unnoised,
    mean_of,
    shared_columns,
    verdict,
)
from tasks.metrics.registry import find_metric
from tasks.reporting.templates import template

DIGITS = 3
NOT_PRIVATE = "NOT PRIVATE"
EVERY_COLUMN = "every column"
UNNOISED = f"{NOT_PRIVATE}: computed on private rows without noise. No epsilon applies. Do not share these results."
UNNOISED_HEADS = ("method", "settings")


@dataclass(frozen=True, slots=True)
class Comparison:
    """The results of a comparison.

    `places`: positions of the columns on the axis of a curve, None for bars. `published`: (metric, row, column) ->
    figure. `differs`: row -> difference from the published setting.
    """

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    places: tuple[float | None, ...]
    seeds: tuple[int, ...]
    metrics: tuple[str, ...]
    reference: str
    confidence: float
    answers: tuple[CellResult, ...]
    published: Mapping[tuple[str, str, str], float]
    differs: Mapping[str, str]
    made: str
    versions: Mapping[str, str]

    def named(self, row: str, metric: str = "") -> str:
        """Return the name of a row, marked if any of its runs, or its `metric`, has no noise."""
        return f"{row} ({NOT_PRIVATE})" if is_unnoised(self.answers, metric, row) else row

    def heading(self, metric: str) -> str:
        """Return the title of a metric with the rows that the texts were compared with."""
        references = dict.fromkeys(cell.fid_reference for cell in self.answers)
        return find_metric(metric).heading_against(" or ".join(name for name in references if name not in ("", "none")))


@dataclass(frozen=True, slots=True)
class Claim:
    """A row against the reference: our difference with its adjusted p-value, the published one, the verdict."""

    metric: str
    row: str
    column: str
    ours: Difference
    p: float | None
    published: float | None
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Table:
    """One metric: a line per row, a cell per column.

    `unnoised`: (row, settings, figure) of cells without noise; they belong to no column, because columns are epsilons.
    `best`: (row, position of the column) of the best mean of each column, if the metric has a better end.
    """

    metric: str
    title: str
    lines: tuple[tuple[str, tuple[str, ...]], ...]
    unnoised: tuple[tuple[str, str, str], ...] = ()
    best: frozenset[tuple[str, int]] = frozenset()


def claims(comparison: Comparison) -> list[Claim]:
    """Return each row against the reference where both share a seed; p-values are adjusted within a metric."""
    results = []
    for metric in comparison.metrics:
        pairs = [(row, column) for row in comparison.rows for column in comparison.columns]
        differences = [
            (row, column, ours)
            for row, column in pairs
            if row != comparison.reference and (ours := _difference(comparison, metric, row, column)) is not None
        ]
        p_values = adjusted([ours.p for *_, ours in differences])
        results += [_claim(comparison, metric, *each, p) for each, p in zip(differences, p_values, strict=True)]
    return results


def tables(comparison: Comparison) -> list[Table]:
    """Return one table per metric: our figure, spread and published figure per cell."""
    return [
        Table(
            metric,
            comparison.heading(metric),
            tuple(_lines_of(comparison, metric)),
            tuple(_unnoised(comparison, metric)),
            frozenset(_best(comparison, metric)),
        )
        for metric in comparison.metrics
    ]


def _lines_of(comparison: Comparison, metric: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the rows except those whose results all have no noise."""
    for row in comparison.rows:
        without = [is_unnoised(comparison.answers, metric, row, column) for column in comparison.columns]
        if not all(without):
            cells = zip(comparison.columns, without, strict=True)
            yield row, tuple(NOT_PRIVATE if bare else cell_text(comparison, metric, row, name) for name, bare in cells)


def _best(comparison: Comparison, metric: str) -> Iterator[tuple[str, int]]:
    """Yield the best row of each column with several measured rows; results without noise do not take part."""
    higher = find_metric(metric).higher_is_better
    if higher is None:
        return
    for position, column in enumerate(comparison.columns):
        rows = [row for row in comparison.rows if not is_unnoised(comparison.answers, metric, row, column)]
        means = {row: mean_of(comparison.answers, row, column, metric) for row in rows}
        measured = {row: mean.mean for row, mean in means.items() if mean is not None}
        if len(measured) > 1:
            yield (max if higher else min)(measured, key=lambda row: measured[row]), position


def _unnoised(comparison: Comparison, metric: str) -> Iterator[tuple[str, str, str]]:
    """Yield the figures without noise, once for all columns with the same result."""
    for row in comparison.rows:
        unnoised = [column for column in comparison.columns if is_unnoised(comparison.answers, metric, row, column)]
        for columns in shared_columns(comparison.answers, row, unnoised):
            settings = EVERY_COLUMN if columns == comparison.columns else ", ".join(columns)
            measured = mean_of(comparison.answers, row, columns[0], metric) is not None
            if measured or (metric, row, columns[0]) in comparison.published:
                yield comparison.named(row, metric), settings, cell_text(comparison, metric, row, columns[0])


def cell_text(comparison: Comparison, metric: str, row: str, column: str) -> str:
    """Return the text of one table cell."""
    mean = mean_of(comparison.answers, row, column, metric)
    published = comparison.published.get((metric, row, column))
    text = "failed" if _all_failed(comparison, row, column) else "not measured"
    if mean is not None:
        text = _mean_text(mean)
        missing = len(comparison.seeds) - mean.number
        text += f" ({mean.number} of {len(comparison.seeds)} seeds)" if missing else ""
    return text if published is None else f"{text} [{published:.{DIGITS}f}]"


def difference_text(difference: Difference) -> str:
    """Return a difference with its interval."""
    if difference.low is None or difference.high is None:
        return f"{difference.mean:+.{DIGITS}f} (one seed: no interval)"
    return f"{difference.mean:+.{DIGITS}f} [{difference.low:+.{DIGITS}f}, {difference.high:+.{DIGITS}f}]"


def markdown(comparison: Comparison) -> str:
    """Return all tables as Markdown."""
    parts = [f"# {comparison.title}", "", _about(comparison), ""]
    for table in tables(comparison):
        parts += [f"## {table.title}", ""]
        if table.lines:
            parts += [*_lines(["", *comparison.columns], [[n, *c] for n, c in table.lines]), ""]
        if table.unnoised:
            parts += [f"**{UNNOISED}**", "", *_lines([*UNNOISED_HEADS, table.metric], table.unnoised), ""]
    differences = claims(comparison)
    if differences:
        parts += [f"## Differences from {comparison.named(comparison.reference)}, seed by seed", ""]
        parts += [*_lines(claim_heads(comparison), [claim_cells(comparison, claim) for claim in differences]), ""]
    parts += ["## Mean seconds of a run", ""]
    parts += [*_lines(["", *comparison.columns], [[name, *cells] for name, cells in seconds_of(comparison)]), ""]
    parts += _remarks(comparison)
    return "\n".join(parts).rstrip() + "\n"


CLAIM_HEADS = ("metric", "row", "column", "ours", "p (Holm)", "published", "the published claim")
OWN_HEADS = 5
"""Leading heads that a comparison without published figures has."""


def claim_heads(comparison: Comparison) -> tuple[str, ...]:
    """Return the heads of the differences; those of published figures only if there are any."""
    return CLAIM_HEADS if comparison.published else CLAIM_HEADS[:OWN_HEADS]


def claim_cells(comparison: Comparison, claim: Claim) -> list[str]:
    """Return the cells of one line of the differences, below `claim_heads`; marked if one of the two has no noise."""
    compared = (claim.row, comparison.reference)
    is_bare = any(is_unnoised(comparison.answers, claim.metric, row, claim.column) for row in compared)
    row = f"{claim.row} ({NOT_PRIVATE})" if is_bare else claim.row
    published = "" if claim.published is None else f"{claim.published:+.{DIGITS}f}"
    cells = [claim.metric, row, claim.column, difference_text(claim.ours)]
    return [*cells, "" if claim.p is None else f"{claim.p:.{DIGITS}f}", published, claim.verdict][
        : len(claim_heads(comparison))
    ]


def page(comparison: Comparison) -> str:
    """Return the HTML page; equal comparisons yield equal pages."""
    return template("compare.html.j2").render(
        comparison=comparison,
        about=_about(comparison),
        tables=tables(comparison),
        claims=[claim_cells(comparison, claim) for claim in claims(comparison)],
        unnoised=UNNOISED,
        unnoised_heads=UNNOISED_HEADS,
        runs=_runs(comparison),
        seconds=seconds_of(comparison),
        heads=claim_heads(comparison),
        failures=failures(comparison),
        warnings=warnings_of_cells(comparison),
        figures={name: svg.decode() for name, svg in drawings(comparison, "svg").items()},
    )


def _runs(comparison: Comparison) -> list[tuple[CellResult, str]]:
    """Return the runs with their columns; a run without noise appears once."""
    groups: dict[object, tuple[CellResult, list[str]]] = {}
    for number, answer in enumerate(comparison.answers):
        groups.setdefault(answer.run_id if answer.not_private else number, (answer, []))[1].append(answer.column)
    every = set(comparison.columns)
    return [
        (answer, EVERY_COLUMN if len(names) > 1 and set(names) == every else ", ".join(names))
        for answer, names in groups.values()
    ]


def seconds_of(comparison: Comparison) -> list[tuple[str, tuple[str, ...]]]:
    """Return the mean seconds of the runs of each row by column; of runs on private rows, each is rounded up to ten."""
    return [
        (comparison.named(row), tuple(_seconds(comparison, row, column) for column in comparison.columns))
        for row in comparison.rows
    ]


def _seconds(comparison: Comparison, row: str, column: str) -> str:
    seconds = [
        answer.seconds
        for answer in comparison.answers
        if (answer.row, answer.column) == (row, column) and answer.state != "failed"
    ]
    return f"{sum(seconds) / len(seconds):.0f}" if seconds else "failed"


def failures(comparison: Comparison) -> list[tuple[str, str]]:
    """Return the failed cells and their errors."""
    return [
        (f"{answer.row} · {answer.column} · seed {answer.seed}", answer.error)
        for answer in comparison.answers
        if answer.state == "failed"
    ]


def warnings_of_cells(comparison: Comparison) -> list[tuple[str, str]]:
    """Return the cells with warnings about their result."""
    return [
        (f"{cell.row} · {cell.column} · seed {cell.seed}", warning)
        for cell in comparison.answers
        for warning in cell.warnings
    ]


def drawings(comparison: Comparison, form: Any) -> dict[str, bytes]:
    """Return the figures of a comparison by name."""
    from tasks.reporting.compare_plots import curves_plot, metric_plot

    figures = {metric: metric_plot(comparison, metric, form) for metric in comparison.metrics}
    figures |= {f"{metric}_over_iterations": curves_plot(comparison, metric, form) for metric in comparison.metrics}
    return {name: picture for name, picture in figures.items() if picture is not None}


def _difference(comparison: Comparison, metric: str, row: str, column: str) -> Difference | None:
    return difference(comparison.answers, row, comparison.reference, column, metric, comparison.confidence)


def _claim(comparison: Comparison, metric: str, row: str, column: str, ours: Difference, p: float | None) -> Claim:
    first = comparison.published.get((metric, row, column))
    second = comparison.published.get((metric, comparison.reference, column))
    published = None if first is None or second is None else first - second
    judged = verdict(ours, (first, second), p, comparison.confidence)
    return Claim(metric, row, column, ours, p, published, judged)


def _all_failed(comparison: Comparison, row: str, column: str) -> bool:
    return all(
        answer.state == "failed" for answer in comparison.answers if (answer.row, answer.column) == (row, column)
    )


def _mean_text(mean: Mean) -> str:
    return f"{mean.mean:.{DIGITS}f}" + ("" if mean.spread is None else f" ± {mean.spread:.{DIGITS}f}")


def _about(comparison: Comparison) -> str:
    seeds = len(comparison.seeds)
    return (
        f"{comparison.made[:10]}; {seeds} seed{'s' if seeds > 1 else ''}, mean ± standard deviation. Square "
        f"brackets: published figure. Intervals: paired differences, each at {comparison.confidence:.0%} confidence. "
        "p: adjusted for the number of differences in a metric (Holm 1979); verdicts follow p."
    )


def _remarks(comparison: Comparison) -> list[str]:
    lines = [f"- {comparison.named(row)}: {difference}" for row, difference in comparison.differs.items()]
    parts = ["## Differences from the published settings", "", *lines, ""] if lines else []
    failed = [f"- {name}: {error}" for name, error in failures(comparison)]
    warnings = [f"- {name}: {warning}" for name, warning in warnings_of_cells(comparison)]
    parts += ["## Cells with warnings", "", *warnings, ""] if warnings else []
    return parts + (["## Cells that failed", "", *failed, ""] if failed else [])


def _lines(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    return ["| " + " | ".join(row) + " |" for row in (heads, ["---"] * len(heads), *cells)]
