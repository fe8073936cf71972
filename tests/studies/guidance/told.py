"""What came of a study, in words: tables in Markdown with Student intervals, and what the plan reads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy import stats

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
NAMES = {
    "none": "zero-shot",
    "fusegen": "FuseGen",
    "central": "central, no private row",
    "votes_smoothed": "votes, smoothed",
}
HELD_AGAINST = {"shifted_accuracy": "accuracy"}
"""Measures that others do not have, and what of theirs is held against them."""

CHOSEN_ON = (("Banking", "Yelp-Rating"), (0, 1, 2))
"""Data sets and seeds on which parameters were picked; the others confirm."""


def tables(table: pd.DataFrame) -> str:
    """Return all tables, in Markdown."""
    return "\n".join([_main(table), _differences(table), _halves(table), _grid(table)])


def measured(table: pd.DataFrame) -> str:
    """Return what `wasp plan` reads of a study (flows/releases/guidance_measured.yaml): a line for each place."""
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


def cells_of(table: pd.DataFrame, data: str, rows: int, mechanism: str, epsilon: float) -> pd.DataFrame:
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
                cells.append(_told(cells_of(table, data, rows, mechanism, epsilon)[metric]))
            if any(cells):
                lines.append(f"| {name} | " + " | ".join(cells) + " |")
        if metric == "weights_tv":
            told = [_told(cells_of(table, data, rows, "kernel", epsilon)["equal_tv"]) for data, epsilon in places]
            lines.append("| equal weights, by what kernel would give | " + " | ".join(told) + " |")
        parts.append("\n".join([*lines, ""]))
    return "\n".join(parts)


def difference(table: pd.DataFrame, place: tuple[str, int, float], one: str, other: str, metric: str) -> str:
    """Return mean and interval of a difference, seed by seed; empty where nothing is there."""
    data, rows, epsilon = place
    mine, theirs = (cells_of(table, data, rows, name, epsilon) for name in (one, other))
    both = mine.index.intersection(theirs.index)
    given = HELD_AGAINST.get(metric, metric)
    if not len(both) or metric not in mine or given not in theirs:
        return ""
    apart = (mine.loc[both, metric] - theirs.loc[both, given]).dropna().to_numpy(dtype=np.float64)
    return _between(apart)


def _between(apart: NDArray[np.float64]) -> str:
    if not len(apart):
        return ""
    mean, half = interval(apart)
    if math.isnan(half):
        return f"{mean:+.3f}"
    return f"{mean:+.3f} [{mean - half:+.3f}, {mean + half:+.3f}]"


def _nearer(cells: pd.DataFrame) -> str:
    """Return by how much weights are further than equal ones from what the mechanism gives by held-out rows."""
    return _between((cells["weights_tv"] - cells["equal_tv"]).dropna().to_numpy(dtype=np.float64)) if len(cells) else ""


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
    for one in ("votes", *others):
        told = [_nearer(cells_of(table, data, rows, one, eps)) for data, rows, eps in places]
        lines.append(f"| weights, {NAMES.get(one, one)} minus equal weights | " + " | ".join(told) + " |")
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
            mine, theirs = (cells_of(half, data, at[0], name, epsilon) for name in (one, "votes"))
            both = mine.index.intersection(theirs.index)
            given = HELD_AGAINST.get(metric, metric)
            found += (mine.loc[both, metric] - theirs.loc[both, given]).dropna().tolist()
    return found


def _grid(table: pd.DataFrame) -> str:
    """Return what guides beside zero-shot and votes in all places."""
    epsilons = sorted(set(table["epsilon"]))
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
            "| | " + " | ".join(f"epsilon {at:g}" if math.isfinite(at) else "no noise" for at in epsilons) + " |",
            "|---" * (len(epsilons) + 1) + "|",
        ]
        for data in dict.fromkeys(table["data"]):
            for rows in sorted(set(table["rows"])):
                told = [difference(table, (data, rows, at), one, other, metric) for at in epsilons]
                if any(told):
                    lines.append(f"| {data}, {rows} rows | " + " | ".join(told) + " |")
        parts.append("\n".join([*lines, ""]))
    return "\n".join(parts)
