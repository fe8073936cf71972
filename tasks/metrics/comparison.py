"""Numbers of a comparison: means and spreads over seeds, paired differences, and what becomes of a published claim."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

Verdict = Literal["holds", "does not hold", "cannot be seen", ""]


@dataclass(frozen=True, slots=True)
class Answer:
    """What one cell came to. `values`: metric -> number, None where it was not measured; `curve`: one per iteration.

    `warnings`: why its result may be useless.
    `epsilon`: privacy loss of the run's output; `added`: what the run added to the budget, None where it is not
    recorded. `not_private`: private rows were used without noise, so that neither number holds.
    """

    row: str
    column: str
    seed: int
    state: str
    values: Mapping[str, float | None]
    curve: Sequence[Mapping[str, float | None]] = ()
    run_id: str = ""
    error: str = ""
    seconds: float = 0.0
    epsilon: float | None = None
    added: float | None = None
    not_private: bool = False
    dollars: float = 0.0
    dollars_estimated: float = 0.0
    reused: bool = False
    warnings: tuple[str, ...] = ()

    def value(self, metric: str) -> float | None:
        """Return a metric; None if the cell failed or did not measure it."""
        return self.values.get(metric)


@dataclass(frozen=True, slots=True)
class Mean:
    """A metric over the seeds of a row and column: mean, standard deviation (n - 1), number."""

    mean: float
    spread: float | None
    number: int


@dataclass(frozen=True, slots=True)
class Difference:
    """A row minus the reference, seed by seed: mean and interval; None where there are too few pairs for one."""

    mean: float
    low: float | None
    high: float | None
    pairs: int


def mean_of(answers: Sequence[Answer], row: str, column: str, metric: str) -> Mean | None:
    """Return mean and spread over the seeds that were carried out; None if there is none."""
    found = list(_by_seed(answers, row, column, metric).values())
    if not found:
        return None
    return Mean(float(np.mean(found)), float(np.std(found, ddof=1)) if len(found) > 1 else None, len(found))


def is_unnoised(answers: Sequence[Answer], row: str, column: str | None = None) -> bool:
    """Return whether a row, or its cells in one column, hold a result that was computed without noise."""
    return any(one.not_private and one.row == row and column in (None, one.column) for one in answers)


def shared_columns(answers: Sequence[Answer], row: str, columns: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the columns in groups in which a row has the same runs: a setting may mean nothing to a method."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for column in columns:
        runs = tuple(one.run_id or column for one in answers if (one.row, one.column) == (row, column))
        groups.setdefault(runs, []).append(column)
    return [tuple(names) for names in groups.values()]


def difference(
    answers: Sequence[Answer], row: str, reference: str, column: str, metric: str, confidence: float
) -> Difference | None:
    """Return the paired difference of two rows with Student's interval (Student 1908); None without a common seed.

    Seeds that only one of both has carried out are left out. Equal differences give an interval of width 0.
    """
    ours, theirs = (_by_seed(answers, one, column, metric) for one in (row, reference))
    pairs = [ours[seed] - theirs[seed] for seed in ours if seed in theirs]
    if not pairs:
        return None
    mean, number = float(np.mean(pairs)), len(pairs)
    if number < 2:
        return Difference(mean, None, None, number)
    from scipy.stats import t

    half = float(t.ppf((1 + confidence) / 2, number - 1)) * float(np.std(pairs, ddof=1)) / math.sqrt(number)
    return Difference(mean, mean - half, mean + half, number)


def verdict(found: Difference | None, published: tuple[float | None, float | None]) -> Verdict:
    """Say what becomes of a published claim: that a row is better, or worse, than the reference.

    `published`: the figure of the row and of the reference; without both there is no claim. The claim holds when the
    whole interval lies on its side of zero, does not hold when it lies on the other, and else cannot be seen.
    """
    row, reference = published
    if row is None or reference is None or row == reference or found is None:
        return ""
    if found.low is None or found.high is None or found.low <= 0 <= found.high:
        return "cannot be seen"
    return "holds" if (found.low > 0) == (row > reference) else "does not hold"


def mean_curve(answers: Sequence[Answer], row: str, column: str, metric: str) -> list[tuple[int, float]]:
    """Return (iteration, mean over seeds) of a metric, for iterations that every seed has measured."""
    curves = [one.curve for one in answers if (one.row, one.column) == (row, column) and one.curve]
    found = []
    for number, points in enumerate(zip(*curves, strict=False)):
        values = [point.get(metric) for point in points]
        known = [value for value in values if value is not None]
        if known and len(known) == len(values):
            found.append((number, float(np.mean(known))))
    return found


def _by_seed(answers: Sequence[Answer], row: str, column: str, metric: str) -> dict[int, float]:
    found = {}
    for one in answers:
        value = one.value(metric)
        if (one.row, one.column) == (row, column) and value is not None:
            found[one.seed] = value
    return found
