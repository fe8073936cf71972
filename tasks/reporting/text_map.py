"""The map of a report: synthetic texts, test rows and prompt examples on a plane, coloured by class."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tasks.evaluation.map_points import MapPoints
from tasks.reporting.plot_style import PALETTE, Form, bare, columns, picture, short
from tasks.reporting.run_record import RunRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SIZE = (7.4, 5.4)
_COLOURED = 9
_OTHER, _GREY = "other classes", PALETTE[9]
GROUP = "map-"
"""Start of the names of the SVG groups of synthetic texts; the page finds a text by group and position."""


def map_plot(report: RunRecord, form: Form = "svg") -> bytes | None:
    """Draw the map: synthetic texts as dots, test rows as rings, prompt examples as stars."""
    points = report.map
    if points is None or not points.synthetic:
        return None

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        tests: list[Sequence[int]] = [range(len(points.test))]
        edges = [PALETTE[1]]
        if points.test_labels:
            tests = [*_groups(points.test_labels, _names(points))]
            edges = [_colour(number) for number in range(len(tests))]
        for edge, group in zip(edges, tests, strict=True):
            rings = columns(points.test[i] for i in group)
            axes.scatter(
                *rings, s=26, facecolors="none", edgecolors=edge, linewidths=0.8, alpha=0.7
            )
        for number, (name, group) in enumerate(groups(points)):
            dots = columns(points.synthetic[i] for i in group)
            axes.scatter(
                *dots,
                s=15,
                c=_colour(number),
                alpha=0.75,
                linewidths=0,
                label=short(name),
                gid=f"{GROUP}{number}",
            )
        if points.shown:
            stars = columns(points.shown)
            axes.scatter(
                *stars, s=60, c=PALETTE[2], linewidths=0, marker="*", label="shown in prompts"
            )
        bare(axes)
        axes.set_title(f"Dots: synthetic texts. Rings: test rows. Projection: {points.by}")
        axes.legend(
            loc="upper center", bbox_to_anchor=(0.5, 0), ncols=3, markerscale=1.8, fontsize=8
        )

    return picture("map", _SIZE, draw, form)


def groups(points: MapPoints) -> list[tuple[str, list[int]]]:
    """Return each coloured class with the positions of its synthetic texts, the most frequent class first."""
    if not points.labels:
        return [("synthetic", list(range(len(points.synthetic))))]
    names = _names(points)
    return [
        (name, group)
        for name, group in zip(names, _groups(points.labels, names), strict=True)
        if group
    ]


def texts_by_group(points: MapPoints) -> str:
    """Return JSON for a script element: for each group of `groups` its class and texts, [class, text], in order."""
    lists = [[[points.labels[i], points.texts[i]] for i in group] for _, group in groups(points)]
    data = json.dumps(lists, ensure_ascii=False, separators=(",", ":"))
    # "<" ends a script element or begins a comment; JSON reads the escape as the character.
    return data.replace("<", "\\u003c")


def _names(points: MapPoints) -> list[str]:
    """Return the classes with a colour of their own, then the name for all others."""
    ranked = [name for name, _ in Counter(points.labels).most_common()]
    if len(ranked) <= _COLOURED:
        return ranked
    return [*ranked[:_COLOURED], _OTHER]


def _groups(labels: Sequence[str], names: Sequence[str]) -> list[list[int]]:
    own = {name: number for number, name in enumerate(names) if name != _OTHER}
    positions: list[list[int]] = [[] for _ in names]
    for position, label in enumerate(labels):
        if label in own:
            positions[own[label]].append(position)
        elif names[-1] == _OTHER:
            positions[-1].append(position)
    return positions


def _colour(number: int) -> str:
    if number < _COLOURED:
        return PALETTE[number]
    return _GREY
