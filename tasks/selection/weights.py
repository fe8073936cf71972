"""Share of each language model (PLM) in the next texts.

Votes per model become weights, and weights become whole numbers that add up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from connectors.interfaces.errors import ArtifactError, ConfigError
from tasks.selection.examples import match_rows

Floats = NDArray[np.float64]


Source = Literal["histogram", "choices", "uniform"]
Transform = Literal["linear", "softmax"]


@dataclass(frozen=True, slots=True)
class Weighting:
    """Source and scaling of weights.

    Sources: the noisy histogram, noisy first choices, or uniform. Scaling: linear, or softmax.
    """

    source: Source = "histogram"
    transform: Transform = "linear"
    temperature: float = 1.0


def weigh(
    release: pd.DataFrame,
    samples: pd.DataFrame,
    plms: Sequence[str],
    weighting: Weighting = Weighting(),
    previous: Mapping[str, float] | None = None,
    choices: Mapping[str, float] | None = None,
) -> pd.DataFrame:
    """Weigh each PLM by its near votes and its share of the samples (Eq. 8).

    s_i = H_i / sum H;  w_k = (sum of s_i over D_k) / (|D_k| / |D|); a PLM's negative total counts as 0. If the sum of
    all noisy votes is not positive, it contains no information and the previous weights stay (uniform at first). A PLM
    without samples has w_k = 1, the mean. With source "choices" the noisy number of rows whose nearest text a PLM wrote
    replaces the sum of noisy votes on its texts, whose noise grows with their number.

    `release`: sample_id, near; `samples`: sample_id, plm; `choices`: by PLM. Returns plm, share (of the votes, adds up
    to 1), weight (normalised, adds up to 1), in the order of `plms`.
    """
    uniform = np.full(len(plms), 1 / len(plms))
    before = uniform if previous is None else _normalised([previous[plm] for plm in plms])
    shares, weights = uniform, uniform
    if weighting.source != "uniform":
        totals, sizes = totals_of(release, samples, plms)
        if weighting.source == "choices":
            totals = np.array([(choices or {})[plm] for plm in plms], dtype=np.float64)
        shares, weights = before, before
        if totals.sum() > 0:
            shares = _normalised(np.maximum(totals, 0))
            weights = transformed(_against_size(shares, sizes), weighting)
    return pd.DataFrame({"plm": list(plms), "share": shares, "weight": weights})


def allocate(total: int, weights: Mapping[str, float], floor: float = 0.05) -> dict[str, int]:
    """Split `total` by weights into whole numbers, by largest remainder.

    No PLM gets less than `floor` of an equal share (total / K): a noisy round must not exclude one permanently. Exact
    arithmetic; equal remainders go to the larger weight, then to the PLM named first. Raises ConfigError for weights
    that are negative, not finite or all zero.
    """
    if not weights or any(not math.isfinite(w) or w < 0 for w in weights.values()) or sum(weights.values()) <= 0:
        raise ConfigError(f"weights: {dict(weights)} is not allowed. Write non-negative numbers with a positive sum.")
    if total < 0 or not 0 <= floor <= 1:
        raise ConfigError(f"total, floor: {total} and {floor} are not allowed. Write total >= 0 and 0 <= floor <= 1.")
    exact = [Fraction(weight) for weight in weights.values()]
    quotas = _raised(exact, total, Fraction(floor) * total / len(weights))
    counts = [math.floor(quota) for quota in quotas]
    by_remainder = sorted(range(len(quotas)), key=lambda k: (counts[k] - quotas[k], -exact[k], k))
    for position in by_remainder[: total - sum(counts)]:
        counts[position] += 1
    return dict(zip(weights, counts, strict=True))


def per_class(count: int, labels: Sequence[str], offset: int = 0) -> dict[str, int]:
    """Distribute `count` texts over the classes in turn.

    The first class is number `offset`, modulo the number of classes. With `offset` = the number of texts distributed
    before, the classes of a whole run differ by at most one text.
    """
    base, rest = divmod(count, len(labels))
    extra = {(offset + step) % len(labels) for step in range(rest)}
    return {label: base + (position in extra) for position, label in enumerate(labels)}


def totals_of(release: pd.DataFrame, samples: pd.DataFrame, plms: Sequence[str]) -> tuple[Floats, Floats]:
    """Return near votes and number of released samples per PLM.

    Raises ArtifactError for samples of other PLMs.
    """
    codes, names = _coded(samples["plm"], match_rows(release, samples))
    sums = np.bincount(codes + np.intp(1), weights=release["near"].to_numpy(), minlength=len(names) + 1)
    counts = np.array([np.count_nonzero(codes == code) for code in range(-1, len(names))])  # models are few
    indices = {plm: index for index, plm in enumerate(plms)}
    index_of = np.array([-1, *(indices.get(name, -1) for name in names)])  # the first entry is for missing names
    if counts[index_of < 0].any():
        raise ArtifactError(f"plm: samples were written by other PLMs than those of the run ({', '.join(plms)}).")
    totals, sizes = np.zeros(len(plms)), np.zeros(len(plms))
    totals[index_of[index_of >= 0]], sizes[index_of[index_of >= 0]] = sums[index_of >= 0], counts[index_of >= 0]
    return totals, sizes


def _coded(column: pd.Series[str], rows: NDArray[np.int64]) -> tuple[NDArray[np.integer], pd.Index[str]]:
    """Return `rows` of a column as indices into its distinct names, and the names."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.codes.to_numpy()[rows], pd.Index(column.cat.categories)
    codes, names = pd.factorize(column.take(rows))
    return codes, pd.Index(names)


def _against_size(shares: Floats, sizes: Floats) -> Floats:
    proportions = sizes / sizes.sum()
    weights = np.ones_like(shares)
    np.divide(shares, proportions, out=weights, where=sizes > 0)
    return weights


def transformed(weights: Floats, weighting: Weighting) -> Floats:
    """Return weights that add up to 1: scaled linearly, or by softmax."""
    if weighting.transform == "softmax":
        weights = np.exp((weights - weights.max()) / weighting.temperature)
    return _normalised(weights)


def _normalised(values: Sequence[float] | Floats) -> Floats:
    normal = np.array(values, dtype=np.float64)
    normal /= normal.sum()
    return normal


def _raised(weights: list[Fraction], total: int, floor: Fraction) -> list[Fraction]:
    """Return quotas by weight with sum `total` and minimum `floor`."""
    raised: set[int] = set()
    while True:
        rest = total - floor * len(raised)
        mass = sum((weight for k, weight in enumerate(weights) if k not in raised), Fraction(0))
        quotas = [floor if k in raised else rest * weight / mass for k, weight in enumerate(weights)]
        below = {k for k, quota in enumerate(quotas) if quota < floor}
        if not below:
            return quotas
        raised |= below
