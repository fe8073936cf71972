"""What came of a study, in pictures: a metric by epsilon, floors and ceilings in every panel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from tasks.reporting.plot_style import MARKERS, PALETTE, lines_of, picture
from tests.studies.guidance.cells import FLOORS
from tests.studies.guidance.told import HELD_AGAINST, METRICS, NAMES, cells_of, interval

PLOTTED = ("picks", "weights_tv", "fid", "matched_fid", "accuracy", "shifted_accuracy")
LEVELS = (("none", ":", "#1c2430"), ("fusegen", (0, (6, 2)), "#a8761f"), ("central", "-.", "#7d8794"))
"""The floors of every plot: how they look."""

CEILING = 24.0
"""Where no noise, NOT PRIVATE, stands on the axis of epsilon."""


def plot(table: pd.DataFrame, metric: str) -> bytes:
    """Return a picture: a metric by epsilon, a panel for each data set and number of rows."""
    data, rows = list(dict.fromkeys(table["data"])), sorted(set(table["rows"]))

    def draw(figure: Any) -> None:
        panels = figure.subplots(len(data), len(rows), squeeze=False, sharex=True, sharey="row")
        for axes, place in zip(panels.ravel(), ((name, number) for name in data for number in rows), strict=True):
            _panel(axes, table, place, metric)
        known: dict[str, Any] = {}
        for axes in panels.ravel():
            handles, labels = axes.get_legend_handles_labels()
            known |= dict(zip(labels, handles, strict=True))
        figure.suptitle(METRICS[metric] + " (votes, floors: as they are)" * (metric in HELD_AGAINST), fontsize=11)
        for axes in panels[-1]:
            axes.set_xlabel("epsilon")
        figure.legend(list(known.values()), list(known), loc="outside lower center", ncols=4, fontsize=8)

    return picture(f"guidance-{metric}", (2.6 * len(rows), 2.1 * len(data) + 1.2), draw, "png")


def _plotted(cells: pd.DataFrame, metric: str) -> pd.Series[float]:
    """Return a measure of some cells, or what is held against it where they do not have it."""
    given = cells[metric].dropna()
    return given if len(given) or metric not in HELD_AGAINST else cells[HELD_AGAINST[metric]].dropna()


def _look(number: int) -> dict[str, Any]:
    return {"color": PALETTE[number], "marker": MARKERS[number], "markersize": 3, "linewidth": 1.2}


def _panel(axes: Any, table: pd.DataFrame, place: tuple[str, int], metric: str) -> None:
    data, rows = place
    epsilons = sorted(one for one in set(table["epsilon"]) if math.isfinite(one))
    others = [one for one in dict.fromkeys(table["mechanism"]) if one not in FLOORS]
    for number, mechanism in enumerate(others):
        found = [_plotted(cells_of(table, data, rows, mechanism, epsilon), metric) for epsilon in (*epsilons, math.inf)]
        told = [
            (eps, *interval(one.to_numpy())) for eps, one in zip((*epsilons, CEILING), found, strict=True) if len(one)
        ]
        if told:
            at, mean, half = (list(column) for column in zip(*told, strict=True))
            beside = np.array(at) * 2 ** (0.07 * (number - 2))  # so that no interval hides another
            axes.errorbar(beside, mean, np.nan_to_num(half), label=NAMES.get(mechanism, mechanism), **_look(number))
    for mechanism, line, color in LEVELS:
        level = _plotted(cells_of(table, data, rows, mechanism, 1.0), metric)
        if len(level):
            axes.axhline(float(level.mean()), linestyle=line, linewidth=1, color=color, label=NAMES[mechanism])
    if metric == "picks":
        axes.axhline(0.5, linewidth=0.6, color="#1c2430", label="chance")
    axes.axvspan(14, 40, color="#7d8794", alpha=0.13, linewidth=0, label="no noise: NOT PRIVATE")
    axes.set_xscale("log", base=2)
    axes.set_xlim(min(epsilons) * 0.8, 34)
    axes.set_xticks([*epsilons, CEILING], [*(f"{one:g}" for one in epsilons), "no noise"])
    axes.minorticks_off()
    lines_of(axes, f"{data}, {rows} rows")
