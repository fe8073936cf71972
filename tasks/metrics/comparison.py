"""Numbers of a comparison: means, paired differences, verdicts on claims."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

CONFIDENCE = 0.95
"""Confidence of the intervals of paired differences."""
Verdict = Literal["holds", "does not hold", "cannot be seen", ""]


@dataclass(frozen=True, slots=True)
class CellResult:
    """The result of one cell.

    `values`: metric -> number, None where it was not measured. `curve`: values per iteration. `warnings`: why the
    result may be useless. `epsilon`: privacy loss of the run's output. `added`: the run's addition to the spent budget,
    None where it is not recorded. `not_private`: private rows were used without noise, hence neither number is valid.
    `fid_reference`: the rows that FID compares the texts with.
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
    warnings: Sequence[str] = ()
    fid_reference: str = ""


@dataclass(frozen=True, slots=True)
class Mean:
    """A metric over the seeds of a row and column.

    Mean, standard deviation (n - 1), number of seeds.
    """

    mean: float
    spread: float | None
    number: int


@dataclass(frozen=True, slots=True)
class Difference:
    """A row minus the reference, seed by seed: mean, interval and two-sided p-value.

    Interval and p-value are None with fewer than two pairs.
    """

    mean: float
    low: float | None
    high: float | None
    pairs: int
    p: float | None = None


def mean_of(answers: Sequence[CellResult], row: str, column: str, metric: str) -> Mean | None:
    """Return mean and spread over the finished seeds; None if there is none."""
    values = list(values_by_seed(answers, row, column, metric).values())
    if not values:
        return None
    spread = None
    # n - 1 is zero for one seed.
    if len(values) > 1:
        spread = float(np.std(values, ddof=1))
    return Mean(float(np.mean(values)), spread, len(values))


def is_unnoised(answers: Sequence[CellResult], row: str, column: str | None = None) -> bool:
    """Return True if a row, or one of its cells in a column, was computed without noise."""
    return any(
        cell.not_private for cell in answers if cell.row == row and column in (None, cell.column)
    )


def shared_columns(
    answers: Sequence[CellResult], row: str, columns: Sequence[str]
) -> list[tuple[str, ...]]:
    """Group the columns in which a row has the same runs.

    A setting of a column may not apply to the row's method.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for column in columns:
        runs = tuple(
            answer.run_id or column
            for answer in answers
            if (answer.row, answer.column) == (row, column)
        )
        groups.setdefault(runs, []).append(column)
    return [tuple(names) for names in groups.values()]


def difference(
    answers: Sequence[CellResult], row: str, reference: str, column: str, metric: str
) -> Difference | None:
    """Return the paired difference of two rows with Student's interval (Student 1908).

    None without a common seed. Seeds that only one row has finished are left out. Equal differences give an interval of
    width 0.
    """
    ours, theirs = (values_by_seed(answers, name, column, metric) for name in (row, reference))
    return paired_difference(ours, theirs)


def paired_difference(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Difference | None:
    """Return the paired difference of two results by seed, as `difference` does; None without a common seed."""
    pairs = [ours[seed] - theirs[seed] for seed in ours if seed in theirs]
    if not pairs:
        return None
    mean = float(np.mean(pairs))
    number = len(pairs)
    if number < 2:
        return Difference(mean, None, None, number)
    from scipy.stats import t

    error = float(np.std(pairs, ddof=1)) / math.sqrt(number)
    half = float(t.ppf((1 + CONFIDENCE) / 2, number - 1)) * error
    # Equal differences have no error: they are certain, or certainly zero.
    p = float(mean == 0)
    if error > 0:
        p = 2 * float(t.sf(abs(mean) / error, number - 1))
    return Difference(mean, mean - half, mean + half, number, p)


def adjusted(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p-values adjusted for their number by the step-down method of Holm (1979); None stays None."""
    measured = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    results: list[float | None] = [None] * len(p_values)
    highest = 0.0
    # Never below the adjusted value of a smaller p: the order of p-values stays.
    for rank, (p, index) in enumerate(measured):
        results[index] = highest = max(highest, min(1.0, p * (len(measured) - rank)))
    return results


def verdict(
    measured: Difference, published: tuple[float | None, float | None], p: float | None
) -> Verdict:
    """Return the verdict on a claim that a row is better or worse than the reference.

    `published`: the figure of the row and of the reference; without both there is no claim. `p`: the adjusted p-value.
    The claim cannot be seen unless `p` is at most 1 - `CONFIDENCE`; then the sign of the difference decides.
    """
    row, reference = published
    if row is None or reference is None or row == reference:
        return ""
    if p is None or p > 1 - CONFIDENCE:
        return "cannot be seen"
    if (measured.mean > 0) == (row > reference):
        return "holds"
    return "does not hold"


def mean_curve(
    answers: Sequence[CellResult], row: str, column: str, metric: str
) -> list[tuple[int, float]]:
    """Return (iteration, mean over seeds) of a metric.

    Only iterations that every seed has measured.
    """
    curves = [
        answer.curve
        for answer in answers
        if (answer.row, answer.column) == (row, column) and answer.curve
    ]
    means = []
    # Not strict: runs may have different numbers of iterations, and a mean over some seeds would jump at their end.
    for number, points in enumerate(zip(*curves, strict=False)):
        values = [point.get(metric) for point in points]
        measured = [value for value in values if value is not None]
        if measured and len(measured) == len(values):
            means.append((number, float(np.mean(measured))))
    return means


def values_by_seed(
    answers: Sequence[CellResult], row: str, column: str, metric: str
) -> dict[int, float]:
    """Return the values of a metric of a row and column by seed."""
    values = {}
    for answer in answers:
        value = answer.values.get(metric)
        if (answer.row, answer.column) == (row, column) and value is not None:
            values[answer.seed] = value
    return values
