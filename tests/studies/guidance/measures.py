"""What the study measures of a round and of a run, all of it against rows that are held out.

Examples and weights as `tasks.steps.appraisal` has them, FID and the accuracy of a linear student as a run has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tasks.core.allocation import allocate
from tasks.density.matching import matched, tilted
from tasks.metrics.metrics import fid
from tasks.students.heads import PROBE_STRENGTH, fit_logistic

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tasks.steps.density import Texts
    from tests.studies.guidance.corpora import Corpus

    Ints = NDArray[np.int64]
    Guided = tuple[pd.DataFrame, dict[str, float]]

PART = 0.75
"""Of all texts, in the final set."""


def appraised(
    ideal: Guided, corpus: Corpus, texts: Texts, selection: pd.DataFrame, weights: Mapping[str, float]
) -> dict[str, float]:
    """Return what `tasks.steps.appraisal` tells of a round, held against `ideal`: by test rows, without noise."""
    best, wanted = ideal
    good = selection[selection["kind"] == "good"]
    units = texts.vectors / np.linalg.norm(texts.vectors, axis=1, keepdims=True)
    ranks: list[float] = []
    for label, group in good.groupby("label"):
        own = np.flatnonzero(texts.labels == label)
        close = units[own] @ corpus.test[corpus.test_labels == label].mean(axis=0)
        place = close.argsort().argsort() / max(len(own) - 1, 1)
        at = pd.Index(texts.samples["sample_id"].to_numpy()[own]).get_indexer(pd.Index(group["sample_id"]))
        ranks += place[at].tolist()
    return {
        "picks": float(np.mean(ranks)),
        "overlap": float(good["sample_id"].isin(best[best["kind"] == "good"]["sample_id"]).mean()),
        "weights_tv": sum(abs(wanted[plm] - weights[plm]) for plm in corpus.plms) / 2,
        "equal_tv": sum(abs(wanted[plm] - 1 / len(corpus.plms)) for plm in corpus.plms) / 2,
    }


def of_all(corpus: Corpus, texts: Texts) -> dict[str, float]:
    """Return FID and accuracy of all texts."""
    return {"fid": fid(texts.vectors, corpus.test), "accuracy": accuracy(corpus, texts)}


def of_a_random_part(corpus: Corpus, texts: Texts, seed: int) -> dict[str, float]:
    """Return FID and accuracy of as many texts as a final set has, drawn at random."""
    some = np.random.default_rng(seed).permutation(len(texts.samples))[: round(PART * len(texts.samples))]
    return {"matched_fid": fid(texts.vectors[some], corpus.test), "matched_accuracy": accuracy(corpus, texts, some)}


def of_the_final_set(corpus: Corpus, texts: Texts, seed: int) -> dict[str, float]:
    """Return FID and accuracy of the texts that match a density, and accuracy of weighted and of moved texts."""
    sizes = texts.samples["label"].value_counts()
    part = round(PART * len(texts.samples))
    counts = allocate(part, {str(label): float(size) for label, size in sizes.items()}, floor=0.0)
    kept = matched(*texts.with_density, counts, seed)
    return {
        "matched_fid": fid(texts.vectors[kept], corpus.test),
        "matched_accuracy": accuracy(corpus, texts, kept),
        "weighted_accuracy": accuracy(corpus, texts, weights=tilted(*texts.with_density)),
        "shifted_accuracy": accuracy(corpus, moved(texts)),
    }


def moved(texts: Texts) -> Texts:
    """Return texts with the vectors of each class moved so that their mean is that which the density tells."""
    expected, points, labels = texts.with_density
    vectors = points.copy()
    for label in np.unique(labels):
        own = labels == label
        vectors[own] += expected.of(str(label)) - points[own].mean(axis=0)
    return replace(texts, vectors=vectors.astype(np.float32))


def accuracy(corpus: Corpus, texts: Texts, kept: Ints | None = None, weights: Any = None) -> float:
    """Return the accuracy of a linear student on the test rows."""
    places = np.arange(len(texts.samples)) if kept is None else kept
    names = {label: number for number, label in enumerate(corpus.labels)}
    targets = np.array([names[label] for label in texts.labels[places]])
    given = np.ones(len(places)) if weights is None else weights
    slopes, offsets = fit_logistic(texts.vectors[places], targets, given, len(names), PROBE_STRENGTH)
    truth = np.array([names[label] for label in corpus.test_labels])
    return float(((corpus.test @ slopes.T + offsets).argmax(axis=1) == truth).mean())
