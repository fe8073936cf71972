"""Figures of a comparison: each metric by column and over iterations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tasks.metrics.comparison import is_unnoised, mean_curve, mean_of, shared_columns
from tasks.reporting.compare_results import Comparison
from tasks.reporting.plot_style import Form, legend_below, lines_of, look, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIZE = (6.4, 4.2)
_WIDTH = 0.8
"""Width of all points of a column, as a share of the column."""


def drawings(comparison: Comparison, form: Form) -> dict[str, bytes]:
    """Return the figures of a comparison by name."""
    figures = {metric: metric_plot(comparison, metric, form) for metric in comparison.metrics}
    figures |= {
        f"{metric}_over_iterations": curves_plot(comparison, metric, form)
        for metric in comparison.metrics
    }
    return {name: picture for name, picture in figures.items() if picture is not None}


def metric_plot(comparison: Comparison, metric: str, form: Form = "svg") -> bytes | None:
    """Draw one metric over the columns, with published figures as lines.

    The plot has curves if the columns have positions on an axis, otherwise points side by side; a result without noise
    is a hollow point.
    """
    if not any(answer.values.get(metric) is not None for answer in comparison.answers):
        return None

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        has_axis = (
            all(position is not None for position in comparison.places)
            and len(comparison.places) > 1
        )
        if has_axis:
            _curves(axes, comparison, metric)
        else:
            _points(axes, comparison, metric)
        title = f"{metric}, mean and standard deviation over seeds"
        if any(name == metric for name, _, _ in comparison.published):
            title += "; dotted: published"
        lines_of(axes, title)
        legend_below(axes, len(comparison.rows))

    return picture(f"compare-{metric}", _SIZE, draw, form)


def curves_plot(comparison: Comparison, metric: str, form: Form = "svg") -> bytes | None:
    """Draw one metric over iterations in the first column, as mean over seeds.

    Returns None if no row has more than one measured iteration.
    """
    column = comparison.columns[0]
    curves = {row: mean_curve(comparison.answers, row, column, metric) for row in comparison.rows}
    if all(len(points) < 2 for points in curves.values()):
        return None

    def draw(figure: Figure) -> None:
        from matplotlib.ticker import MaxNLocator

        axes = figure.subplots()
        for number, (row, points) in enumerate(curves.items()):
            if points:
                name = comparison.named(row)
                axes.plot(
                    [t for t, _ in points],
                    [value for _, value in points],
                    label=name,
                    **look(number),
                )
        lines_of(axes, f"{metric} over iterations, {column}")
        axes.set_xlabel("iteration")
        locator = axes.xaxis.get_major_locator()
        assert isinstance(locator, MaxNLocator), "matplotlib's default for a linear axis"
        locator.set_params(integer=True)
        legend_below(axes, sum(bool(points) for points in curves.values()))

    return picture(f"compare-{metric}-iterations", _SIZE, draw, form)


def _curves(axes: Axes, comparison: Comparison, metric: str) -> None:
    """Draw a curve per row over the places of the columns; results without noise are dashed lines across."""
    answers = comparison.answers
    places = {
        column: position
        for column, position in zip(comparison.columns, comparison.places, strict=True)
        if position is not None
    }
    for number, row in enumerate(comparison.rows):
        style = look(number)
        bare = [column for column in places if is_unnoised(answers, row, column)]
        for shared in shared_columns(answers, row, bare):
            result = mean_of(answers, row, shared[0], metric)
            if result is not None:
                # One entry in the legend: matplotlib leaves out labels that begin with "_".
                label = "_"
                if shared[0] == bare[0]:
                    label = comparison.named(row)
                axes.axhline(result.mean, color=style["color"], linestyle="--", label=label)
        noised = [column for column in places if column not in bare]
        points = [
            (places[name], mean) for name in noised if (mean := mean_of(answers, row, name, metric))
        ]
        if points:
            spreads = [mean.spread or 0.0 for _, mean in points]
            axes.errorbar(
                [x for x, _ in points],
                [y.mean for _, y in points],
                spreads,
                label=row,
                capsize=2,
                **style,
            )
        figures = [(places[name], comparison.published.get((metric, row, name))) for name in noised]
        published = [(x, y) for x, y in figures if y is not None]
        axes.plot(
            [x for x, _ in published],
            [y for _, y in published],
            color=style["color"],
            linestyle=":",
            alpha=0.7,
        )
    axes.set_xticks(list(places.values()), comparison.columns)


def _points(axes: Axes, comparison: Comparison, metric: str) -> None:
    """Draw the rows of each column side by side; results without noise are hollow."""
    width = _WIDTH / len(comparison.rows)
    for number, row in enumerate(comparison.rows):
        colour, marker = look(number).values()
        for position, column in enumerate(comparison.columns):
            result = mean_of(comparison.answers, row, column, metric)
            x = position - _WIDTH / 2 + width * (number + 0.5)
            if result is not None:
                filled = colour
                if is_unnoised(comparison.answers, row, column):
                    filled = "none"
                # One entry in the legend: matplotlib leaves out labels that begin with "_".
                label = "_"
                if position == 0:
                    label = comparison.named(row)
                axes.errorbar(
                    x,
                    result.mean,
                    result.spread,
                    label=label,
                    color=colour,
                    fmt=marker,
                    mfc=filled,
                    ms=7,
                    capsize=3,
                )
            published = comparison.published.get((metric, row, column))
            if published is not None:
                axes.hlines(published, x - width / 2, x + width / 2, linestyles=":", colors=colour)
    axes.set_xticks(range(len(comparison.columns)), comparison.columns)
    # The columns in the middle of their points, also where a row has none.
    axes.set_xlim(-0.5, len(comparison.columns) - 0.5)
