"""Pictures of a comparison: a metric by column, and over the iterations of the runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tasks.metrics.comparison import is_unnoised, mean_curve, mean_of, shared_columns
from tasks.reporting.plot_style import MARKERS, PALETTE, Form, legend_below, lines_of, picture

if TYPE_CHECKING:
    from tasks.reporting.compare_report import Comparison

_SIZE = (6.4, 4.2)
_BARS = 0.8
"""Of the room between two columns."""


def metric_plot(comparison: Comparison, metric: str, form: Form = "svg") -> bytes | None:
    """One metric: curves over the columns where these have places on an axis, else bars; published figures as lines."""
    if not any(one.value(metric) is not None for one in comparison.answers):
        return None

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        on_an_axis = all(place is not None for place in comparison.places) and len(comparison.places) > 1
        (_curves if on_an_axis else _bars)(axes, comparison, metric)
        lines_of(axes, f"{metric}, mean and standard deviation over seeds")
        legend_below(axes, len(comparison.rows))

    return picture(f"compare-{metric}", _SIZE, draw, form)


def curves_plot(comparison: Comparison, metric: str, form: Form = "svg") -> bytes | None:
    """One metric over iterations in the first column, mean over seeds; None where nothing was measured in between."""
    column = comparison.columns[0]
    found = {row: mean_curve(comparison.answers, row, column, metric) for row in comparison.rows}
    if all(len(points) < 2 for points in found.values()):
        return None

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for number, (row, points) in enumerate(found.items()):
            if points:
                named = comparison.named(row)
                axes.plot([t for t, _ in points], [value for _, value in points], label=named, **_look(number))
        lines_of(axes, f"{metric} over iterations, {column}")
        axes.set_xlabel("iteration")
        axes.xaxis.get_major_locator().set_params(integer=True)
        legend_below(axes, sum(bool(points) for points in found.values()))

    return picture(f"compare-{metric}-iterations", _SIZE, draw, form)


def _curves(axes: Any, comparison: Comparison, metric: str) -> None:
    for number, row in enumerate(comparison.rows):
        points = [
            (place, found)
            for place, column in _noised(comparison, row)
            if (found := mean_of(comparison.answers, row, column, metric)) is not None
        ]
        _levels(axes, comparison, metric, number)
        look = _look(number)
        if points:
            spreads = [found.spread or 0.0 for _, found in points]
            axes.errorbar(
                [x for x, _ in points], [found.mean for _, found in points], spreads, label=row, capsize=2, **look
            )
        told = [
            (place, comparison.published[metric, row, column])
            for place, column in _noised(comparison, row)
            if (metric, row, column) in comparison.published
        ]
        axes.plot([x for x, _ in told], [y for _, y in told], color=look["color"], linestyle=":", alpha=0.7)
    axes.set_xticks([place for place in comparison.places if place is not None], comparison.columns)


def _noised(comparison: Comparison, row: str) -> list[tuple[float | None, str]]:
    """Return the columns in which a row has results under noise, with their places on the axis."""
    columns = zip(comparison.places, comparison.columns, strict=True)
    return [(place, column) for place, column in columns if not is_unnoised(comparison.answers, row, column)]


def _levels(axes: Any, comparison: Comparison, metric: str, number: int) -> None:
    """Draw a row without noise as dashed lines across the axis: its figures belong to no epsilon on it."""
    row = comparison.rows[number]
    bare = [column for column in comparison.columns if is_unnoised(comparison.answers, row, column)]
    for position, columns in enumerate(shared_columns(comparison.answers, row, bare)):
        found = mean_of(comparison.answers, row, columns[0], metric)
        if found is not None:
            named = {"label": comparison.named(row)} if position == 0 else {}
            axes.axhline(found.mean, color=_look(number)["color"], linestyle="--", **named)


def _bars(axes: Any, comparison: Comparison, metric: str) -> None:
    width = _BARS / len(comparison.rows)
    for number, row in enumerate(comparison.rows):
        for position, column in enumerate(comparison.columns):
            found = mean_of(comparison.answers, row, column, metric)
            place = position - _BARS / 2 + width * (number + 0.5)
            colour = PALETTE[number % len(PALETTE)]
            if found is not None:
                look: dict[str, Any] = {"label": comparison.named(row)} if position == 0 else {}
                if is_unnoised(comparison.answers, row, column):
                    look |= {"hatch": "//", "edgecolor": "white"}
                axes.bar(place, found.mean, width * 0.9, yerr=found.spread, capsize=2, color=colour, **look)
            told = comparison.published.get((metric, row, column))
            if told is not None:
                axes.hlines(told, place - width / 2, place + width / 2, linestyles=":", colors=colour)
    axes.set_xticks(range(len(comparison.columns)), comparison.columns)


def _look(number: int) -> dict[str, Any]:
    return {"color": PALETTE[number % len(PALETTE)], "marker": MARKERS[number % len(MARKERS)]}
