"""Figures of a run as SVG (report) and PNG (tracking); None without data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tasks.reporting.plot_style import (
    PALETTE,
    Form,
    bare,
    columns,
    legend_below,
    lines_of,
    look,
    picture,
    short,
)
from tasks.reporting.run_record import RunRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TALL = (5.0, 3.9)
_SQUARE = (5.0, 4.6)
_NAMED_CLASSES = 15
_BARS = 20
_FAINT = 0.04
"""Opacity of a cell without rows."""


def fid_accuracy_plot(report: RunRecord, form: Form = "svg") -> bytes | None:
    """Draw FID, of all texts and of equally many, and the probe accuracy below; what was not measured is left out."""
    shown = _measured_by_iteration(report)
    if not shown:
        return None

    def draw(figure: Figure) -> None:
        panels = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
        for axes, name in zip(panels, shown, strict=True):
            if name == "fid":
                _series(axes, report, "fid", "all texts so far", 9, linestyle="--", marker="")
                _series(axes, report, "fid_equal", "as many texts as in the first iteration", 0)
                lines_of(axes, "FID (lower is better)")
                axes.set_ylim(bottom=0)
                if len(axes.lines) > 1:
                    axes.legend(loc="best", handlelength=1.8)
            else:
                _series(axes, report, "probe_accuracy", "probe accuracy", 2)
                lines_of(axes, "Accuracy of a linear probe (higher is better)")
        _iterations(panels[-1], report)

    return picture("fid", _TALL, draw, form)


def fid_accuracy_caption(report: RunRecord) -> str:
    """Return what the figure of `fid_accuracy_plot` shows."""
    titles = {"fid": "FID", "probe_accuracy": "accuracy of a linear probe"}
    shown = " and ".join(titles[name] for name in _measured_by_iteration(report))
    return f"{shown[:1].upper()}{shown[1:]} over iterations"


def _measured_by_iteration(report: RunRecord) -> list[str]:
    names = ("fid", "probe_accuracy")
    return [
        name for name in names if any(facts.value(name) is not None for facts in report.iterations)
    ]


def weights_plot(report: RunRecord, form: Form = "svg") -> bytes | None:
    """Draw the weight of each of several language models for the next iteration."""
    if not any(len(facts.weights) > 1 for facts in report.iterations):
        return None

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for number, plm in enumerate(report.plms):
            points = [
                (facts.iteration, facts.weights[plm])
                for facts in report.iterations
                if plm in facts.weights
            ]
            axes.plot(*columns(points), label=plm, clip_on=False, **look(number))
        lines_of(axes, "Weight for the next iteration")
        axes.set_ylim(bottom=0)
        _iterations(axes, report)
        legend_below(axes, len(report.plms))

    return picture("weights", _TALL, draw, form)


def confusion_plot(report: RunRecord, form: Form = "svg") -> bytes | None:
    """Draw test rows by true class (rows) and predicted class (columns)."""
    if report.scores is None or not report.scores.confusion:
        return None
    classes = report.scores.classes
    counts = report.scores.confusion

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        _cells(axes, counts)
        if len(classes) <= _NAMED_CLASSES:
            for i, row in enumerate(counts):
                for j, count in enumerate(row):
                    if count:
                        axes.text(
                            j + 0.5, i + 0.5, str(count), ha="center", va="center", fontsize=8
                        )
        axes.set(xlim=(0, len(classes)), ylim=(len(classes), 0), aspect="equal")
        axes.set_title("Rows: true class. Columns: predicted class")
        bare(axes)
        if len(classes) <= _NAMED_CLASSES:
            _class_names(axes, classes)

    return picture("confusion", _SQUARE, draw, form)


def _cells(axes: Axes, counts: Sequence[Sequence[int]]) -> None:
    """Colour the cells of a confusion matrix by their share of the true class."""
    from matplotlib.collections import PatchCollection
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Rectangle

    # Cells without rows are one faint square: 150 classes have 22,500 cells, and each takes as long
    # to draw as one with rows.
    size = len(counts)
    cells = [Rectangle((0, 0), size, size)]
    colours = [to_rgba(PALETTE[0], _FAINT)]
    for i, row in enumerate(counts):
        # A share of the true class: large classes would hide the mistakes of small ones.
        total = max(sum(row), 1)
        for j, count in enumerate(row):
            if count:
                cells.append(Rectangle((j, i), 1, 1))
                # Over the faint square, the cell has the opacity `_FAINT` + 0.86 share.
                colours.append(to_rgba(PALETTE[0], 0.86 * count / total / (1 - _FAINT)))
    axes.add_collection(PatchCollection(cells, facecolors=colours, linewidths=0))


def balance_plot(report: RunRecord, form: Form = "svg") -> bytes | None:
    """Draw the shares of the largest classes in tutor, result and test rows."""
    if not report.balance:
        return None
    shown = sorted(report.balance, key=lambda share: -share.tutor)[:_BARS]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        positions = range(len(shown))
        for number, (name, label) in enumerate(
            (("tutor", "tutor"), ("texts", "selected texts"), ("test", "test rows"))
        ):
            shares = [
                (row + 0.27 * (number - 1), getattr(share, name)) for row, share in enumerate(shown)
            ]
            measured = [(row, share) for row, share in shares if share is not None]
            if measured:
                axes.barh(*columns(measured), 0.25, color=PALETTE[number], label=label)
        axes.set_yticks(positions, [short(share.name) for share in shown])
        axes.invert_yaxis()
        axes.set_title("Share of each class")
        axes.legend(loc="lower right")

    return picture("balance", _SQUARE, draw, form)


def _series(
    axes: Axes, report: RunRecord, name: str, label: str, number: int, **style: str
) -> None:
    values = [(facts.iteration, getattr(facts, name)) for facts in report.iterations]
    measured = [(iteration, value) for iteration, value in values if value is not None]
    if measured:
        axes.plot(
            *columns(measured),
            label=label,
            clip_on=False,
            **(look(number) | {"marker": "o"} | style),
        )


def _iterations(axes: Axes, report: RunRecord) -> None:
    iterations = [facts.iteration for facts in report.iterations]
    axes.set_xticks(iterations[:: max(1, len(iterations) // 10)])
    axes.set_xlim(min(iterations) - 0.5, max(iterations) + 0.5)
    axes.set_xlabel("iteration")


def _class_names(axes: Axes, classes: Sequence[str]) -> None:
    centres = [position + 0.5 for position in range(len(classes))]
    names = [short(name) for name in classes]
    axes.set_yticks(centres, names)
    axes.set_xticks(centres, names, rotation=45, ha="right", rotation_mode="anchor")
    axes.tick_params(length=0)
