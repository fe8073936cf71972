"""The tables of a comparison: Markdown for a repository, one HTML page for people; the layout of the papers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.metrics.comparison import (
    Answer,
    Difference,
    Mean,
    Verdict,
    difference,
    is_unnoised,
    mean_of,
    shared_columns,
    verdict,
)
from tasks.reporting.templates import template

TITLES = {
    "accuracy": "Accuracy of the student",
    "macro_f1": "Macro F1 of the student",
    "fid": "FID (lower is better)",
    "picks": "Percentile of the good examples by closeness to test rows (chance 0.5)",
    "overlap": "Good examples that test rows would choose without noise, share",
    "weights_tv": "Weights of the models, total variation from those of test rows without noise (lower is better)",
    "equal_tv": "The same of equal weights",
    "text_precision": "Precision of the texts: the share that lies among real rows",
    "text_recall": "Recall of the texts: the share of real rows that lies among them",
}
DIGITS = 3
NOT_PRIVATE = "NOT PRIVATE"
EVERY_COLUMN = "every column"
UNNOISED = f"{NOT_PRIVATE}: computed on private rows without noise. No epsilon holds; do not share these results."
UNNOISED_HEADS = ("method", "settings")


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that a comparison came to. `places`: of the columns on the axis of a curve, None where bars are drawn.

    `published`: (metric, row, column) -> figure. `differs`: row -> what differs from the published setting.
    """

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    places: tuple[float | None, ...]
    seeds: tuple[int, ...]
    metrics: tuple[str, ...]
    reference: str
    confidence: float
    answers: tuple[Answer, ...]
    published: Mapping[tuple[str, str, str], float]
    differs: Mapping[str, str]
    made: str
    versions: Mapping[str, str]

    def named(self, row: str) -> str:
        """Return the name of a row, marked where any of its results was computed without noise."""
        return f"{row} ({NOT_PRIVATE})" if is_unnoised(self.answers, row) else row


@dataclass(frozen=True, slots=True)
class Claim:
    """A row against the reference in one column: our difference, the published one, and what becomes of it."""

    metric: str
    row: str
    column: str
    ours: Difference
    published: float | None
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Table:
    """One metric: a line per row, a cell per column.

    `unnoised`: (row, settings, figure) of cells without noise, which are beneath no column: these name epsilons.
    """

    metric: str
    title: str
    lines: tuple[tuple[str, tuple[str, ...]], ...]
    unnoised: tuple[tuple[str, str, str], ...] = ()


def claims(comparison: Comparison) -> list[Claim]:
    """Return every row beside the reference, by metric and column, where both have a seed in common."""
    found = []
    for metric in comparison.metrics:
        for row in comparison.rows:
            for column in comparison.columns:
                ours = difference(comparison.answers, row, comparison.reference, column, metric, comparison.confidence)
                if row != comparison.reference and ours is not None:
                    found.append(_claim(comparison, metric, row, column, ours))
    return found


def tables(comparison: Comparison) -> list[Table]:
    """Return a table per metric; each cell our figure, its spread over seeds, and the published figure."""
    return [
        Table(metric, TITLES[metric], tuple(_lines_of(comparison, metric)), tuple(_unnoised(comparison, metric)))
        for metric in comparison.metrics
    ]


def _lines_of(comparison: Comparison, metric: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the rows that have a result with noise, or none at all."""
    for row in comparison.rows:
        without = [is_unnoised(comparison.answers, row, column) for column in comparison.columns]
        if not all(without):
            cells = zip(comparison.columns, without, strict=True)
            yield row, tuple(NOT_PRIVATE if bare else cell_words(comparison, metric, row, name) for name, bare in cells)


def _unnoised(comparison: Comparison, metric: str) -> Iterator[tuple[str, str, str]]:
    """Yield the figures without noise, once for all columns that mean nothing to the row."""
    for row in comparison.rows:
        bare = [column for column in comparison.columns if is_unnoised(comparison.answers, row, column)]
        for columns in shared_columns(comparison.answers, row, bare):
            settings = EVERY_COLUMN if columns == comparison.columns else ", ".join(columns)
            measured = mean_of(comparison.answers, row, columns[0], metric) is not None
            if measured or (metric, row, columns[0]) in comparison.published:
                yield comparison.named(row), settings, cell_words(comparison, metric, row, columns[0])


def cell_words(comparison: Comparison, metric: str, row: str, column: str) -> str:
    """Return one cell of a table."""
    found = mean_of(comparison.answers, row, column, metric)
    published = comparison.published.get((metric, row, column))
    words = "failed" if _all_failed(comparison, row, column) else "not measured"
    if found is not None:
        words = _mean_words(found)
        missing = len(comparison.seeds) - found.number
        words += f" ({found.number} of {len(comparison.seeds)} seeds)" if missing else ""
    return words if published is None else f"{words} [{published:.{DIGITS}f}]"


def difference_words(found: Difference) -> str:
    """Return a difference with its interval."""
    if found.low is None or found.high is None:
        return f"{found.mean:+.{DIGITS}f} (one seed: no interval)"
    return f"{found.mean:+.{DIGITS}f} [{found.low:+.{DIGITS}f}, {found.high:+.{DIGITS}f}]"


def markdown(comparison: Comparison) -> str:
    """Return all tables as Markdown."""
    parts = [f"# {comparison.title}", "", _about(comparison), ""]
    for table in tables(comparison):
        parts += [f"## {table.title}", ""]
        if table.lines:
            parts += [*_lines(["", *comparison.columns], [[n, *c] for n, c in table.lines]), ""]
        if table.unnoised:
            parts += [f"**{UNNOISED}**", "", *_lines([*UNNOISED_HEADS, table.metric], table.unnoised), ""]
    found = claims(comparison)
    if found:
        parts += [f"## Differences from {comparison.named(comparison.reference)}, seed by seed", ""]
        parts += [*_lines(CLAIM_HEADS, [claim_cells(comparison, one) for one in found]), ""]
    parts += _remarks(comparison)
    return "\n".join(parts).rstrip() + "\n"


CLAIM_HEADS = ("metric", "row", "column", "ours", "published", "the published claim")


def claim_cells(comparison: Comparison, claim: Claim) -> list[str]:
    """Return the cells of one line of the differences."""
    published = "" if claim.published is None else f"{claim.published:+.{DIGITS}f}"
    return [
        claim.metric,
        comparison.named(claim.row),
        claim.column,
        difference_words(claim.ours),
        published,
        claim.verdict,
    ]


def page(comparison: Comparison) -> str:
    """Return the HTML page; equal comparisons give equal pages."""
    return template("compare.html.j2").render(
        comparison=comparison,
        about=_about(comparison),
        tables=tables(comparison),
        claims=[claim_cells(comparison, one) for one in claims(comparison)],
        unnoised=UNNOISED,
        unnoised_heads=UNNOISED_HEADS,
        runs=_runs(comparison),
        heads=CLAIM_HEADS,
        failures=failures(comparison),
        warnings=warnings_of_cells(comparison),
        figures={name: svg.decode() for name, svg in drawings(comparison, "svg").items()},
    )


def _runs(comparison: Comparison) -> list[tuple[Answer, str]]:
    """Return the answers with the column that each belongs to; one without noise stands once, beneath no epsilon."""
    found: dict[object, tuple[Answer, list[str]]] = {}
    for number, one in enumerate(comparison.answers):
        found.setdefault(one.run_id if one.not_private else number, (one, []))[1].append(one.column)
    every = set(comparison.columns)
    return [
        (one, EVERY_COLUMN if len(names) > 1 and set(names) == every else ", ".join(names))
        for one, names in found.values()
    ]


def failures(comparison: Comparison) -> list[tuple[str, str]]:
    """Return what did not come to an end, and why."""
    return [
        (f"{one.row} · {one.column} · seed {one.seed}", one.error)
        for one in comparison.answers
        if one.state == "failed"
    ]


def warnings_of_cells(comparison: Comparison) -> list[tuple[str, str]]:
    """Return the cells whose result may be useless, and why."""
    return [
        (f"{cell.row} · {cell.column} · seed {cell.seed}", warning)
        for cell in comparison.answers
        for warning in cell.warnings
    ]


def drawings(comparison: Comparison, form: Any) -> dict[str, bytes]:
    """Return the pictures of a comparison by name."""
    from tasks.reporting.compare_plots import curves_plot, metric_plot

    found = {metric: metric_plot(comparison, metric, form) for metric in comparison.metrics}
    found |= {f"{metric}_over_iterations": curves_plot(comparison, metric, form) for metric in comparison.metrics}
    return {name: picture for name, picture in found.items() if picture is not None}


def _claim(comparison: Comparison, metric: str, row: str, column: str, ours: Difference) -> Claim:
    first = comparison.published.get((metric, row, column))
    second = comparison.published.get((metric, comparison.reference, column))
    published = None if first is None or second is None else first - second
    return Claim(metric, row, column, ours, published, verdict(ours, (first, second)))


def _all_failed(comparison: Comparison, row: str, column: str) -> bool:
    return all(one.state == "failed" for one in comparison.answers if (one.row, one.column) == (row, column))


def _mean_words(found: Mean) -> str:
    return f"{found.mean:.{DIGITS}f}" + ("" if found.spread is None else f" ± {found.spread:.{DIGITS}f}")


def _about(comparison: Comparison) -> str:
    seeds = len(comparison.seeds)
    return (
        f"{comparison.made[:10]}; {seeds} seed{'s' if seeds > 1 else ''}, mean ± standard deviation; in square "
        f"brackets the published figure; intervals of paired differences at {comparison.confidence:.0%}."
    )


def _remarks(comparison: Comparison) -> list[str]:
    lines = [f"- {comparison.named(row)}: {words}" for row, words in comparison.differs.items()]
    found = ["## What differs from the published settings", "", *lines, ""] if lines else []
    failed = [f"- {name}: {error}" for name, error in failures(comparison)]
    warnings = [f"- {name}: {warning}" for name, warning in warnings_of_cells(comparison)]
    found += ["## Cells with warnings", "", *warnings, ""] if warnings else []
    return found + (["## Cells that failed", "", *failed, ""] if failed else [])


def _lines(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    cells = [[one.replace("|", "\\|").replace("\n", " ") for one in row] for row in rows]
    return ["| " + " | ".join(row) + " |" for row in (heads, ["---"] * len(heads), *cells)]
