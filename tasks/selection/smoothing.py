"""Smooth noisy votes over neighbouring texts.

Smoothing is post-processing of one release. The votes of a row go to texts that are close together, and each count has
independent noise. The sum over a neighbourhood therefore has a higher signal-to-noise ratio than any single count
(measured in `docs/results/guidance.md`). Sums are divided by the length of their weights: all of them have the same
noise, and dense regions do not win by noise alone. Models' weights are shrunk towards equal ones as far as noise
explains their differences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from tasks.density.herding import AT_ONCE, TEMPTING, herd
from tasks.density.kernels import Kernel, body
from tasks.selection.examples import bad_of, concat_examples, example_table, join_votes
from tasks.selection.hubs import spaced
from tasks.selection.weights import Weighting, totals_of, transformed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from connectors.interfaces.embedding import Matrix

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

NEARBY: Final = 0.5
"""Bandwidth of exp(-|x - y|^2 / (2 NEARBY^2)) between vectors of length 1."""


def smooth(counts: Floats, points: Floats, labels: NDArray[Any], nearby: float | None = None) -> Floats:
    """Return counts (n,) summed over neighbours of the same class.

    Sums are scaled to the noise of a single count. `points` (n, d): vectors of length 1.
    """
    smoothed = np.zeros(len(points))
    for label in np.unique(labels):
        own = np.flatnonzero(labels == label)
        for start in range(0, len(own), AT_ONCE):
            block = own[start : start + AT_ONCE]
            close = np.exp((points[block] @ points[own].T - 1) / (nearby or NEARBY) ** 2)
            smoothed[block] = close @ counts[own] / np.sqrt((close**2).sum(axis=1))
    return smoothed


def choose_dissimilar(scores: Floats, points: Floats, count: int, taken: Ints, per_hub: int = 0) -> Ints:
    """Return positions of `count` dissimilar texts of a class with high scores.

    None is in `taken`. Smoothed scores of neighbours are similar, hence the best few are close together. The function
    takes the tenth with the largest scores and selects texts that together match that tenth.
    """
    order = np.argsort(-scores, kind="stable")
    pool = spaced(points, order[~np.isin(order, taken)], max(int(len(points) * TEMPTING), count), per_hub)
    return pool[herd(points[pool], points[pool].mean(axis=0), count)] if len(pool) else pool


def shrink_rates(totals: Floats, sizes: Floats, sigma: float) -> Floats:
    """Return votes per text of each model (K,), shrunk to their mean.

    They are shrunk as far as noise explains their spread. `totals`: noisy votes on the texts of each model, `sizes` of
    them, each with noise `sigma` (James and Stein). A total of zero or less contains no information: all models are
    equal.
    """
    if totals.sum() <= 0 or (sizes <= 0).any():
        return np.ones(len(totals))
    rates = totals / sizes / (totals.sum() / sizes.sum())
    noise = float(np.mean((sigma / np.sqrt(sizes) / (totals.sum() / sizes.sum())) ** 2))
    variance = float(np.mean((rates - 1) ** 2))
    retained = max(0.0, 1 - noise / variance) if variance > 0 else 0.0
    return np.asarray(np.maximum(1 + retained * (rates - 1), 0.0))


def select_smoothly(
    release: pd.DataFrame, samples: pd.DataFrame, vectors: Matrix, top: int, per_hub: int = 0
) -> pd.DataFrame:
    """Return the examples of each class by smoothed votes (Eq. 7), as `select` does.

    `vectors` (n, d): of `samples`, row by row.
    """
    votes = join_votes(release, samples)
    order = pd.Index(samples["sample_id"]).get_indexer(pd.Index(votes["sample_id"]))
    points = body(Kernel().features(vectors[order]))
    labels, tables = votes["label"].to_numpy(dtype=str), []
    near, far = (smooth(votes[side].to_numpy(dtype=np.float64), points, labels) for side in ("near", "far"))
    for label in sorted(set(labels.tolist())):
        own = np.flatnonzero(labels == label)
        bad = bad_of(len(own), top)
        good = choose_dissimilar(near[own], points[own], min(top, len(own) - bad), np.empty(0, dtype=np.int64))
        worst = choose_dissimilar(far[own], points[own], bad, good, per_hub)
        for kind, positions, score in (("good", good, near[own]), ("bad", worst, far[own])):
            tables.append(example_table(votes, own[positions], kind, score[positions]))
    return concat_examples(tables)


def weigh_smoothly(
    release: pd.DataFrame, samples: pd.DataFrame, plms: Sequence[str], weighting: Weighting, sigma: float
) -> pd.DataFrame:
    """Return the weights of PLMs (Eq. 8), shrunk to their mean.

    `sigma`: the noise of a count, in the unit of the counts.
    """
    totals, sizes = totals_of(release, samples, plms)
    rates = shrink_rates(totals, sizes, sigma)
    share = rates * sizes / (rates * sizes).sum()
    return pd.DataFrame({"plm": list(plms), "share": share, "weight": transformed(rates, weighting)})
