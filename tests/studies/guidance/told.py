"""What came of a study: tables in Markdown with Student intervals, plots with floor and ceiling in every one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import stats

from tasks.plot_style import MARKERS, PALETTE, lines_of, picture
from tests.studies.guidance.cells import FLOORS

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAIN = (100, (1.0, 4.0))
"""The rows and epsilons of the claims."""

METRICS = {
    "picks": "Percentile of the good examples by closeness to held-out rows (0.5 is chance)",
    "overlap": "Good examples that held-out rows would choose without noise, share",
    "weights_tv": "Weights: total variation from those that held-out rows give without noise (FuseGen: equal weights)",
    "fid": "FID of all texts to held-out rows (lower is better)",
    "matched_fid": "FID of the matched 75 % (zero-shot, FuseGen: a random 75 %)",
    "accuracy": "Accuracy of the student",
    "matched_accuracy": "Accuracy of the student on the matched 75 % (zero-shot, FuseGen: a random 75 %)",
    "weighted_accuracy": "Accuracy of the student, texts weighted by the density (FuseGen: by its self-boosting)",
    "shifted_accuracy": "Accuracy of the student, vectors of each class moved to the mean of the density",
}
PLOTTED = ("picks", "weights_tv", "fid", "matched_fid", "accuracy", "shifted_accuracy")
NAMES = {
    "none": "zero-shot",
    "fusegen": "FuseGen, no private row",
    "central": "central, no private row",
    "votes_smoothed": "votes, smoothed",
}
LEVELS = (("none", ":", "#1c2430"), ("fusegen", (0, (6, 2)), "#a8761f"), ("central", "-.", "#7d8794"))
"""The floors of every plot: how they look."""

CEILING = 24.0
"""Where no noise, NOT PRIVATE, stands on the axis of epsilon."""

HELD_AGAINST = {"shifted_accuracy": "accuracy"}
"""Measures that others do not have, and what of theirs is held against them."""

CHOSEN_ON = (("Banking", "Yelp-Rating"), (0, 1, 2))
"""Data sets and seeds on which parameters were picked; the others confirm."""


def tell(cells: list[dict[str, Any]], folder: Path) -> None:
    """Write tables.md and the plots into a folder."""
    if not cells:
        return
    table = pd.DataFrame(cells)
    table["epsilon"] = table["epsilon"].astype(float)
    parts = [_main(table), _differences(table), _halves(table), _grid(table)]
    (folder / "tables.md").write_text("\n".join(parts), encoding="utf-8")
    (folder / "measured.yaml").write_text(measured(table), encoding="utf-8")
    for metric in PLOTTED:
        (folder / f"{metric}.png").write_bytes(plot(table, metric))


def measured(table: pd.DataFrame) -> str:
    """Return what `wasp plan` reads of a study (flows/guidance_measured.yaml): a line for each place."""
    zero = table[table["mechanism"] == "none"].set_index(["data", "seed"])
    classes, lines = {"IMDb": 2, "Yelp-Rating": 5, "Banking": 10, "DBPedia": 14}, []
    told = table[~table["mechanism"].isin(FLOORS) & np.isfinite(table["epsilon"])]
    for (data, mechanism, rows, epsilon), cells in told.groupby(["data", "mechanism", "rows", "epsilon"], sort=False):
        own = cells.set_index(["data", "seed"])
        found = [_ratio(own, zero, "fid")] + [_ratio(own, zero, "matched_fid")] * bool(own["matched_fid"].notna().all())
        picks = float(own["picks"].mean())
        lines.append(
            f"- {{data: {data}, classes: {classes[data]}, rows: {rows}, epsilon: {epsilon:g}, delta: 1.0e-5, guidance: "
            f"{mechanism}, picks: [{picks:.2f}, {picks:.2f}], fid: [{min(found):.2f}, {max(found):.2f}]}}"
        )
    return "\n".join(sorted(lines)) + "\n"


def _ratio(own: pd.DataFrame, zero: pd.DataFrame, metric: str) -> float:
    return float((own[metric] / zero[metric].reindex(own.index)).mean())


def interval(values: Sequence[float] | NDArray[np.float64]) -> tuple[float, float]:
    """Return mean and half of Student's 95 % interval, not a number for one value."""
    found = np.asarray(values, dtype=np.float64)
    if len(found) < 2:
        return float(found.mean()), math.nan
    spread = found.std(ddof=1) / math.sqrt(len(found))
    return float(found.mean()), float(spread * stats.t.ppf(0.975, len(found) - 1))


def _told(values: pd.Series[float]) -> str:
    if not len(values) or values.isna().any():
        return ""
    mean, half = interval(values.to_numpy(dtype=np.float64))
    return f"{mean:.3f}" if math.isnan(half) else f"{mean:.3f} ± {half:.3f}"


def _of(table: pd.DataFrame, data: str, rows: int, mechanism: str, epsilon: float) -> pd.DataFrame:
    """Return the cells of a place, by seed; those of floors for any rows and epsilon."""
    own = table[(table["data"] == data) & (table["mechanism"] == mechanism)]
    if mechanism not in FLOORS:
        own = own[(own["rows"] == rows) & (own["epsilon"] == epsilon)]
    return own.set_index("seed").sort_index()


def _rows_of(table: pd.DataFrame, epsilons: Sequence[float]) -> list[tuple[str, str, list[float]]]:
    """Return (words, mechanism, epsilon of each column) of a table's rows: floors, mechanisms, ceilings."""
    mechanisms = list(dict.fromkeys(table["mechanism"]))
    floors = [(NAMES[one], one, list(epsilons)) for one in FLOORS if one in mechanisms]
    others = [one for one in mechanisms if one not in FLOORS]
    found = [(NAMES.get(one, one), one, list(epsilons)) for one in others]
    return [*floors, *found, *((f"{NAMES.get(one, one)}, no noise", one, [math.inf] * len(epsilons)) for one in others)]


def _main(table: pd.DataFrame) -> str:
    rows, epsilons = MAIN
    places = [(data, epsilon) for data in dict.fromkeys(table["data"]) for epsilon in epsilons]
    parts = []
    for metric, words in METRICS.items():
        if metric not in table:
            continue
        lines = [f"**{words}**", "", "| | " + " | ".join(f"{data}, epsilon {eps:g}" for data, eps in places) + " |"]
        lines.append("|---" * (len(places) + 1) + "|")
        for name, mechanism, columns in _rows_of(table, [epsilon for _, epsilon in places]):
            cells = []
            for (data, _), epsilon in zip(places, columns, strict=True):
                cells.append(_told(_of(table, data, rows, mechanism, epsilon)[metric]))
            if any(cells):
                lines.append(f"| {name} | " + " | ".join(cells) + " |")
        if metric == "weights_tv":
            told = [_told(_of(table, data, rows, "kernel", epsilon)["equal_tv"]) for data, epsilon in places]
            lines.append("| equal weights, by what kernel would give | " + " | ".join(told) + " |")
        parts.append("\n".join([*lines, ""]))
    return "\n".join(parts)


def difference(table: pd.DataFrame, place: tuple[str, int, float], one: str, other: str, metric: str) -> str:
    """Return mean and interval of a difference, seed by seed; empty where nothing is there."""
    data, rows, epsilon = place
    mine, theirs = (_of(table, data, rows, name, epsilon) for name in (one, other))
    both = mine.index.intersection(theirs.index)
    given = HELD_AGAINST.get(metric, metric)
    if not len(both) or metric not in mine or given not in theirs:
        return ""
    apart = (mine.loc[both, metric] - theirs.loc[both, given]).dropna().to_numpy(dtype=np.float64)
    if not len(apart):
        return ""
    mean, half = interval(apart)
    if math.isnan(half):
        return f"{mean:+.3f}"
    return f"{mean:+.3f} [{mean - half:+.3f}, {mean + half:+.3f}]"


def _differences(table: pd.DataFrame) -> str:
    rows, epsilons = MAIN
    places = [(data, rows, epsilon) for data in dict.fromkeys(table["data"]) for epsilon in epsilons]
    others = [one for one in dict.fromkeys(table["mechanism"]) if one not in (*FLOORS, "votes")]
    lines = ["**Differences, seed by seed, with Student intervals**", ""]
    lines.append("| | " + " | ".join(f"{data}, epsilon {eps:g}" for data, _, eps in places) + " |")
    lines.append("|---" * (len(places) + 1) + "|")
    pairs = [("fusegen", "none"), ("votes", "none"), ("votes", "fusegen")]
    pairs += [(one, other) for one in others for other in (*FLOORS, "votes")]
    for metric in ("fid", "accuracy", "picks"):
        for one, other in pairs:
            told = [difference(table, place, one, other, metric) for place in places]
            if any(told):
                names = f"{metric}, {NAMES.get(one, one)} minus {NAMES.get(other, other)}"
                lines.append(f"| {names} | " + " | ".join(told) + " |")
    further = [
        *((metric, one) for metric in ("matched_fid", "matched_accuracy") for one in ("none", "fusegen")),
        *(("shifted_accuracy", one) for one in ("none", "fusegen", "votes")),
    ]
    for metric, other in further:
        told = [difference(table, place, "kernel", other, metric) for place in places]
        lines.append(f"| {metric}, kernel minus {NAMES.get(other, other)} | " + " | ".join(told) + " |")
    return "\n".join([*lines, ""])


def _halves(table: pd.DataFrame) -> str:
    """Return the difference to votes on the half on which parameters were picked, and on the other."""
    data, seeds = CHOSEN_ON
    chosen = table[table["data"].isin(data) & table["seed"].isin(seeds)]
    other = table[~table["data"].isin(data) & ~table["seed"].isin(seeds)]
    lines = ["**Picked on one half of data sets and seeds, confirmed on the other (epsilon 1 and 4, 100 rows)**", ""]
    lines += ["| mean over data sets, epsilons and seeds | picked | confirmed |", "|---|---|---|"]
    rows, epsilons = MAIN
    for metric in ("fid", "accuracy", "shifted_accuracy", "picks", "weights_tv"):
        for one in [name for name in dict.fromkeys(table["mechanism"]) if name != "votes"]:
            if not table.loc[table["mechanism"] == one, metric].notna().any():
                continue
            cells = []
            for half in (chosen, other):
                pooled = _pooled(half, (rows, epsilons), one, metric)
                cells.append("" if not pooled else "{:+.3f} ± {:.3f}".format(*interval(pooled)))
            lines.append(f"| {metric}, {NAMES.get(one, one)} minus votes | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def _pooled(half: pd.DataFrame, at: tuple[int, Sequence[float]], one: str, metric: str) -> list[float]:
    found: list[float] = []
    for data in dict.fromkeys(half["data"]):
        for epsilon in at[1]:
            mine, theirs = (_of(half, data, at[0], name, epsilon) for name in (one, "votes"))
            both = mine.index.intersection(theirs.index)
            given = HELD_AGAINST.get(metric, metric)
            found += (mine.loc[both, metric] - theirs.loc[both, given]).dropna().tolist()
    return found


def _grid(table: pd.DataFrame) -> str:
    """Return what guides beside zero-shot and votes in all places."""
    epsilons = sorted(one for one in set(table["epsilon"]) if math.isfinite(one))
    parts = []
    for metric, one, other in (
        *(("fid", one, "none") for one in ("kernel", "subspace", "clusters", "votes", "votes_smoothed")),
        ("matched_fid", "kernel", "none"),
        ("fid", "kernel", "fusegen"),
        ("fid", "kernel", "votes"),
        ("accuracy", "kernel", "votes"),
        *(("shifted_accuracy", "kernel", one) for one in ("none", "fusegen")),
        *(("picks", "kernel", one) for one in ("fusegen", "central")),
    ):
        lines = [f"**{metric}, {NAMES.get(one, one)} minus {NAMES.get(other, other)}, by rows and epsilon**", ""]
        lines += [
            "| | " + " | ".join(f"epsilon {at:g}" for at in epsilons) + " |",
            "|---" * (len(epsilons) + 1) + "|",
        ]
        for data in dict.fromkeys(table["data"]):
            for rows in sorted(set(table["rows"])):
                told = [difference(table, (data, rows, at), one, other, metric) for at in epsilons]
                if any(told):
                    lines.append(f"| {data}, {rows} rows | " + " | ".join(told) + " |")
        parts.append("\n".join([*lines, ""]))
    return "\n".join(parts)


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
        found = [_plotted(_of(table, data, rows, mechanism, epsilon), metric) for epsilon in (*epsilons, math.inf)]
        told = [
            (eps, *interval(one.to_numpy())) for eps, one in zip((*epsilons, CEILING), found, strict=True) if len(one)
        ]
        if told:
            at, mean, half = (list(column) for column in zip(*told, strict=True))
            beside = np.array(at) * 2 ** (0.07 * (number - 2))  # so that no interval hides another
            axes.errorbar(beside, mean, np.nan_to_num(half), label=NAMES.get(mechanism, mechanism), **_look(number))
    for mechanism, line, color in LEVELS:
        level = _plotted(_of(table, data, rows, mechanism, 1.0), metric)
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
