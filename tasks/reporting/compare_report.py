"""Tables of a comparison as Markdown and HTML, in the layout of the papers."""

from collections.abc import Mapping
from dataclasses import dataclass

from connectors.interfaces.counts import counted
from tasks.metrics.comparison import (
    CONFIDENCE,
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
from tasks.reporting.compare_plots import drawings
from tasks.reporting.compare_results import NOT_PRIVATE, Comparison
from tasks.reporting.templates import template

DIGITS = 3
NOT_RUN = "not run"
"""Text of a cell of a comparison that is not finished."""
EVERY_COLUMN = "every column"
UNNOISED = f"{NOT_PRIVATE}: computed on private rows without noise. No epsilon applies. Do not share these results."
UNNOISED_HEADS = ("method", "settings")


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
    answers = comparison.answers
    reference = comparison.reference
    results = []
    for metric in comparison.metrics:
        differences = [
            (row, column, ours)
            for row in comparison.rows
            for column in comparison.columns
            if row != reference
            and (ours := difference(answers, row, reference, column, metric)) is not None
        ]
        p_values = adjusted([ours.p for *_, ours in differences])
        for (row, column, ours), p in zip(differences, p_values, strict=True):
            figures = [
                comparison.published.get((metric, name, column)) for name in (row, reference)
            ]
            own, other = figures
            published = None
            if own is not None and other is not None:
                published = own - other
            judged = verdict(ours, (own, other), p)
            results.append(Claim(metric, row, column, ours, p, published, judged))
    return results


def tables(comparison: Comparison) -> list[Table]:
    """Return one table per metric: our figure, spread and published figure per cell."""
    return [_table(comparison, metric) for metric in comparison.metrics]


def _table(comparison: Comparison, metric: str) -> Table:
    """Return the table of a metric; rows whose results all have no noise are listed apart."""
    rows = comparison.rows
    columns = comparison.columns
    answers = comparison.answers
    bare = {(row, column): is_unnoised(answers, row, column) for row in rows for column in columns}
    lines = []
    for row in rows:
        if all(bare[row, name] for name in columns):
            continue
        cells = []
        for name in columns:
            is_bare = bare[row, name]
            cells.append(NOT_PRIVATE if is_bare else cell_text(comparison, metric, row, name))
        lines.append((row, tuple(cells)))
    unnoised = [
        (
            comparison.named(row),
            EVERY_COLUMN if shared == columns else ", ".join(shared),
            cell_text(comparison, metric, row, shared[0]),
        )
        for row in rows
        for shared in shared_columns(answers, row, [name for name in columns if bare[row, name]])
        if mean_of(answers, row, shared[0], metric)
        or (metric, row, shared[0]) in comparison.published
    ]
    best = _best(comparison, metric, bare)
    return Table(metric, comparison.heading(metric), tuple(lines), tuple(unnoised), best)


def _best(
    comparison: Comparison, metric: str, bare: Mapping[tuple[str, str], bool]
) -> frozenset[tuple[str, int]]:
    """Return (row, position of the column) of the best mean of each column with noise in several rows."""
    higher = find_metric(metric).higher_is_better
    if higher is None:
        return frozenset()
    select = max if higher else min
    best = set()
    for position, column in enumerate(comparison.columns):
        measured = {}
        for row in comparison.rows:
            # A result without noise is no competitor: it may be better because it protects nobody.
            if bare[row, column]:
                continue
            mean = mean_of(comparison.answers, row, column, metric)
            if mean is not None:
                measured[row] = mean.mean
        if len(measured) > 1:
            best.add((select(measured, key=measured.__getitem__), position))
    return frozenset(best)


def mean_text(mean: Mean, seeds: int) -> str:
    """Return mean and standard deviation, with the number of finished seeds where they are not all `seeds`."""
    text = f"{mean.mean:.{DIGITS}f}"
    if mean.spread is not None:
        text += f" ± {mean.spread:.{DIGITS}f}"
    if mean.number < seeds:
        text += f" ({mean.number} of {seeds} seeds)"
    return text


def cell_text(comparison: Comparison, metric: str, row: str, column: str) -> str:
    """Return the text of one table cell."""
    mean = mean_of(comparison.answers, row, column, metric)
    published = comparison.published.get((metric, row, column))
    if mean is not None:
        text = mean_text(mean, len(comparison.seeds))
    elif not any((cell.row, cell.column) == (row, column) for cell in comparison.answers):
        text = NOT_RUN
    elif _seconds(comparison, row, column) is None:
        text = "failed"
    else:
        text = "not measured"
    if published is not None:
        text += f" [{published:.{DIGITS}f}]"
    return text


CLAIM_HEADS = ("metric", "row", "column", "ours", "p (Holm)", "published", "the published claim")
OWN_HEADS = 5
"""Leading heads that a comparison without published figures has."""


def claim_cells(comparison: Comparison, claim: Claim) -> list[str]:
    """Return the cells of one line of the differences; marked if one of the two has no noise."""
    compared = (claim.row, comparison.reference)
    row = claim.row
    if any(is_unnoised(comparison.answers, name, claim.column) for name in compared):
        row = f"{claim.row} ({NOT_PRIVATE})"
    ours = claim.ours
    interval = "(one seed: no interval)"
    if ours.low is not None and ours.high is not None:
        interval = f"[{ours.low:+.{DIGITS}f}, {ours.high:+.{DIGITS}f}]"
    cells = [claim.metric, row, claim.column, f"{ours.mean:+.{DIGITS}f} {interval}"]
    cells.append("" if claim.p is None else f"{claim.p:.{DIGITS}f}")
    if not comparison.published:
        return cells
    published = "" if claim.published is None else f"{claim.published:+.{DIGITS}f}"
    return [*cells, published, claim.verdict]


def page(comparison: Comparison) -> str:
    """Return the HTML page; equal comparisons yield equal pages."""
    figures = {name: svg.decode() for name, svg in drawings(comparison, "svg").items()}
    return template("compare.html.j2").render(
        _values(comparison) | {"figures": figures, "runs": _runs(comparison)}
    )


def markdown(comparison: Comparison) -> str:
    """Return all tables as Markdown."""
    return template("compare.md.j2").render(_values(comparison)).rstrip() + "\n"


def _values(comparison: Comparison) -> dict[str, object]:
    """Return what both templates show."""
    heads: tuple[str, ...] = CLAIM_HEADS
    if not comparison.published:
        heads = CLAIM_HEADS[:OWN_HEADS]
    cells = [
        (f"{cell.row} · {cell.column} · seed {cell.seed}", cell) for cell in comparison.answers
    ]
    return {
        "comparison": comparison,
        "confidence": CONFIDENCE,
        "about": _about(comparison),
        "tables": tables(comparison),
        "claims": [claim_cells(comparison, claim) for claim in claims(comparison)],
        "heads": heads,
        "unnoised": UNNOISED,
        "unnoised_heads": UNNOISED_HEADS,
        "seconds": seconds_of(comparison),
        "differs": [(comparison.named(row), text) for row, text in comparison.differs.items()],
        "failures": [(name, cell.error) for name, cell in cells if cell.state == "failed"],
        "warnings": [(name, warning) for name, cell in cells for warning in cell.warnings],
    }


def _runs(comparison: Comparison) -> list[tuple[CellResult, str]]:
    """Return the runs with their columns; a run without noise appears once."""
    groups: dict[object, tuple[CellResult, list[str]]] = {}
    for number, answer in enumerate(comparison.answers):
        # Without noise epsilon has no effect, so one run fills the cells of all columns.
        key: object = answer.run_id if answer.not_private else number
        _, names = groups.setdefault(key, (answer, []))
        names.append(answer.column)
    every = set(comparison.columns)
    runs = []
    for answer, names in groups.values():
        shown = ", ".join(names)
        if len(names) > 1 and set(names) == every:
            shown = EVERY_COLUMN
        runs.append((answer, shown))
    return runs


def seconds_of(comparison: Comparison) -> list[tuple[str, tuple[str, ...]]]:
    """Return the mean seconds of the runs of each row by column; of runs on private rows, each is rounded up to ten."""
    lines = []
    for row in comparison.rows:
        cells = []
        for column in comparison.columns:
            mean = _seconds(comparison, row, column)
            cells.append("failed" if mean is None else f"{mean:.0f}")
        lines.append((comparison.named(row), tuple(cells)))
    return lines


def _seconds(comparison: Comparison, row: str, column: str) -> float | None:
    """Return the mean seconds of the runs of a row and column; None if all failed."""
    cells = [cell for cell in comparison.answers if (cell.row, cell.column) == (row, column)]
    seconds = [cell.seconds for cell in cells if cell.state != "failed"]
    if not seconds:
        return None
    return sum(seconds) / len(seconds)


def _about(comparison: Comparison) -> str:
    return (
        f"{comparison.made[:10]}; {counted(len(comparison.seeds), 'seed')}, mean ± standard deviation. Square "
        f"brackets: published figure. Intervals: paired differences, each at {CONFIDENCE:.0%} confidence. "
        "p: adjusted for the number of differences in a metric (Holm 1979); verdicts follow p."
    )
