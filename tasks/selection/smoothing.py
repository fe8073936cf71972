"""Noisy votes after free smoothing: a text is told by its neighbours too, which is post-processing of one release.

A row's votes go to texts that lie close together, and the noise on each of them is drawn by itself. So the sum over a
neighbourhood has more signal for its noise than any count (measured in `results_guidance_here.md`). Sums are divided by
the length of their weights, so that the noise on all of them is equally loud and dense regions win no more than others
by noise alone. Models' weights are drawn towards equal ones as far as noise explains how they differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from tasks.density.kernels import Kernel, body
from tasks.density.matching import AT_ONCE, TEMPTING, herd
from tasks.selection.examples import bad_of, joined, listed, together
from tasks.selection.hubs import spaced
from tasks.selection.weights import Weighting, totals_of, transformed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from connectors.interfaces.embedding import Matrix

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

NEARBY: Final = 0.5
"""Of exp(-|x - y|^2 / (2 NEARBY^2)) between vectors of length 1: whose counts tell of each other."""


def smooth(counts: Floats, points: Floats, labels: NDArray[Any], nearby: float | None = None) -> Floats:
    """Return counts (n,) summed over neighbours of the same class, standardised to the noise of a single count.

    `points` (n, d): vectors of length 1.
    """
    found = np.zeros(len(points))
    for label in np.unique(labels):
        own = np.flatnonzero(labels == label)
        for start in range(0, len(own), AT_ONCE):
            some = own[start : start + AT_ONCE]
            close = np.exp((points[some] @ points[own].T - 1) / (nearby or NEARBY) ** 2)
            found[some] = close @ counts[own] / np.sqrt((close**2).sum(axis=1))
    return found


def apart(scores: Floats, points: Floats, count: int, taken: Ints, per_hub: int = 0) -> Ints:
    """Return places of `count` texts of a class with high scores and unlike each other, none of `taken`.

    Smoothed scores of neighbours are alike, so that the best few lie in one place: among the tenth of the largest
    scores those are taken that together match that tenth.
    """
    order = np.argsort(-scores, kind="stable")
    pool = spaced(points, order[~np.isin(order, taken)], max(int(len(points) * TEMPTING), count), per_hub)
    return pool[herd(points[pool], points[pool].mean(axis=0), count)] if len(pool) else pool


def drawn_together(totals: Floats, sizes: Floats, sigma: float) -> Floats:
    """Return votes per text of each model (K,), drawn towards their mean as far as noise explains their spread.

    `totals`: noisy votes on the texts of each, `sizes` of them, each with noise `sigma` (James and Stein). Zero
    or fewer votes in all say nothing: equal.
    """
    if totals.sum() <= 0 or (sizes <= 0).any():
        return np.ones(len(totals))
    each = totals / sizes / (totals.sum() / sizes.sum())
    noise = float(np.mean((sigma / np.sqrt(sizes) / (totals.sum() / sizes.sum())) ** 2))
    seen = float(np.mean((each - 1) ** 2))
    kept = max(0.0, 1 - noise / seen) if seen > 0 else 0.0
    return np.asarray(np.maximum(1 + kept * (each - 1), 0.0))


def select_smoothly(
    release: pd.DataFrame, samples: pd.DataFrame, vectors: Matrix, top: int, per_hub: int = 0
) -> pd.DataFrame:
    """Return the examples of each class by smoothed votes, in the form of `select` (Eq. 7).

    `vectors` (n, d): of `samples`, row by row.
    """
    votes = joined(release, samples)
    order = pd.Index(samples["sample_id"]).get_indexer(pd.Index(votes["sample_id"]))
    points = body(Kernel().features(vectors[order]))
    labels, found = votes["label"].to_numpy(dtype=str), []
    near, far = (smooth(votes[side].to_numpy(dtype=np.float64), points, labels) for side in ("near", "far"))
    for label in sorted(set(labels.tolist())):
        own = np.flatnonzero(labels == label)
        bad = bad_of(len(own), top)
        good = apart(near[own], points[own], min(top, len(own) - bad), np.empty(0, dtype=np.int64))
        worst = apart(far[own], points[own], bad, good, per_hub)
        for kind, places, score in (("good", good, near[own]), ("bad", worst, far[own])):
            found.append(listed(votes, own[places], kind, score[places]))
    return together(found)


def weigh_smoothly(
    release: pd.DataFrame, samples: pd.DataFrame, plms: Sequence[str], weighting: Weighting, sigma: float
) -> pd.DataFrame:
    """Return the weights of PLMs (Eq. 8), drawn together; `sigma`: of the noise on a count, in its units."""
    totals, sizes = totals_of(release, samples, plms)
    each = drawn_together(totals, sizes, sigma)
    share = each * sizes / (each * sizes).sum()
    return pd.DataFrame({"plm": list(plms), "share": share, "weight": transformed(each, weighting)})
