"""How much each language model (PLM) writes next: its share of the votes, and whole numbers that add up."""

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
from tasks.selection.examples import placed

Floats = NDArray[np.float64]


Source = Literal["histogram", "choices", "uniform"]
Transform = Literal["linear", "softmax"]


@dataclass(frozen=True, slots=True)
class Weighting:
    """How weights come about: from the noisy histogram, from noisy first choices, or uniform; linear, or by softmax."""

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
    """Weigh each PLM by the near votes of its samples against the share of samples it wrote (Eq. 8).

    s_i = H_i / sum H;  w_k = (sum of s_i over D_k) / (|D_k| / |D|); a PLM's negative total counts as 0. If all noisy
    votes together are not positive, they say nothing and the previous weights stay (uniform at first). A PLM without
    samples has w_k = 1, the mean. With source "choices" the noisy number of rows whose nearest text a PLM wrote stands
    in place of the sum of noisy votes on its texts, whose noise grows with their number.

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
    """Split `total` by weights into whole numbers that add up to it, by largest remainder.

    No PLM gets less than `floor` of an equal share (total / K): a noisy round must not silence one for good. Exact
    arithmetic; equal remainders go to the larger weight, then to the PLM named first. Raises ConfigError for weights
    that are negative, not finite or all zero.
    """
    if not weights or any(not math.isfinite(w) or w < 0 for w in weights.values()) or sum(weights.values()) <= 0:
        raise ConfigError(f"Weights must be non-negative numbers with a positive sum, not {dict(weights)}.")
    if total < 0 or not 0 <= floor <= 1:
        raise ConfigError(f"total must not be negative and floor must lie in [0, 1], not {total} and {floor}.")
    exact = [Fraction(weight) for weight in weights.values()]
    quotas = _raised(exact, total, Fraction(floor) * total / len(weights))
    counts = [math.floor(quota) for quota in quotas]
    by_remainder = sorted(range(len(quotas)), key=lambda k: (counts[k] - quotas[k], -exact[k], k))
    for position in by_remainder[: total - sum(counts)]:
        counts[position] += 1
    return dict(zip(weights, counts, strict=True))


def per_class(count: int, labels: Sequence[str], offset: int = 0) -> dict[str, int]:
    """Deal `count` texts to the classes like cards, starting at class `offset` (counted round).

    With `offset` = the number of texts dealt before, the classes of a whole run differ by at most one text.
    """
    base, spare = divmod(count, len(labels))
    lucky = {(offset + step) % len(labels) for step in range(spare)}
    return {label: base + (position in lucky) for position, label in enumerate(labels)}


def totals_of(release: pd.DataFrame, samples: pd.DataFrame, plms: Sequence[str]) -> tuple[Floats, Floats]:
    """Return near votes and number of released samples per PLM; ArtifactError where samples are others."""
    codes, names = _coded(samples["plm"], placed(release, samples))
    sums = np.bincount(codes + np.intp(1), weights=release["near"].to_numpy(), minlength=len(names) + 1)
    counts = np.array([np.count_nonzero(codes == code) for code in range(-1, len(names))])  # models are few
    places = {plm: place for place, plm in enumerate(plms)}
    known = np.array([-1, *(places.get(name, -1) for name in names)])  # first those without a name
    if counts[known < 0].any():
        raise ArtifactError(f"Samples were written by other PLMs than those of the run: {', '.join(plms)}.")
    totals, sizes = np.zeros(len(plms)), np.zeros(len(plms))
    totals[known[known >= 0]], sizes[known[known >= 0]] = sums[known >= 0], counts[known >= 0]
    return totals, sizes


def _coded(column: pd.Series[str], rows: NDArray[np.int64]) -> tuple[NDArray[np.integer], pd.Index[str]]:
    """Return these rows of a column of names as places among the different names, and those names."""
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
    """Return weights that add up to 1: as they are, or by softmax."""
    if weighting.transform == "softmax":
        weights = np.exp((weights - weights.max()) / weighting.temperature)
    return _normalised(weights)


def _normalised(values: Sequence[float] | Floats) -> Floats:
    normal = np.array(values, dtype=np.float64)
    normal /= normal.sum()
    return normal


def _raised(weights: list[Fraction], total: int, least: Fraction) -> list[Fraction]:
    """Return quotas by weight, adding up to `total`, those below `least` raised to it at the others' cost."""
    low: set[int] = set()
    while True:
        rest = total - least * len(low)
        mass = sum((weight for k, weight in enumerate(weights) if k not in low), Fraction(0))
        quotas = [least if k in low else rest * weight / mass for k, weight in enumerate(weights)]
        below = {k for k, quota in enumerate(quotas) if quota < least}
        if not below:
            return quotas
        low |= below
