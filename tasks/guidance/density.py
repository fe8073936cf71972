"""Steps of guidance: examples and weights from a released density, or from votes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.embedding import Matrix
from tasks.guidance.examples import SAMPLE_COLUMNS, concat_examples, ranked, select
from tasks.guidance.matching import TINY, Density, Expected, examples, expect, tilted, witness
from tasks.guidance.weights import Transform, weigh
from tasks.private.density.features import KERNEL, body, features_of
from tasks.steps.reuse import step_key, table_once
from tasks.steps.step import step
from tasks.steps.tools import Tools
from tasks.steps.values import TextTable, Weights
from tasks.writing.texts import content, first_of_equal, read_samples, read_vectors

if TYPE_CHECKING:
    from connectors.artifacts.store import Artifacts

Names = NDArray[np.str_]
"""Classes of texts."""

WEIGHT_EXPONENT = 3
"""Exponent of the models' weights; on three datasets it lowered FID at epsilon 1, at epsilon 4 and without noise."""

UNMOVED = 4
"""One text of this many keeps its vector (measured in docs/results/guidance_auto.md)."""


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """Public texts without duplicates per class, their features, and the expected means of the private rows."""

    samples: pd.DataFrame
    points: NDArray[np.float64]
    expected: Expected

    @property
    def labels(self) -> Names:
        """Class of each text."""
        return self.samples["label"].to_numpy(dtype=str)


@dataclass(frozen=True, slots=True, eq=False)
class ClassMeans:
    """Directions (C, d) of the noisy means of C classes: a classifier for which no text was written."""

    labels: tuple[str, ...]
    means: NDArray[np.float64]

    def nearest(self, vectors: Matrix) -> Names:
        """Return the class (n,) whose mean has the smallest angle to each vector (n, d)."""
        points = body(features_of(vectors))
        return np.asarray(np.array(self.labels)[(points @ self.means.T).argmax(axis=1)])


@dataclass(frozen=True, slots=True)
class WeighJob:
    """Conversion of the release of `iteration` to weights.

    The `previous` weights apply if the noisy votes are not informative.
    `transform`: linear, or softmax. `dense`: whether the release is a density; otherwise votes.
    """

    iteration: int
    plms: tuple[str, ...]
    weighting: bool
    previous: Mapping[str, float]
    transform: Transform = "linear"
    dense: bool = False


@step("select t={iteration}", versions={"select": 1, "select_matching": 2})
def select_examples(
    tools: Tools,
    iteration: int,
    number: int,
    dense: bool,
    release: ArtifactRef,
    written: Sequence[TextTable],
) -> tuple[ArtifactRef, str]:
    """Write `number` (S) good and bad examples of each class: by votes (Eq. 7), or by the released density."""
    path = f"runs/{tools.run_id}/iteration={iteration}/selection.parquet"
    if not dense:
        key = step_key("select", {"examples": number}, {"release": release.sha256})
        read = tools.artifacts.read_table
        samples = partial(read_samples, tools, written, SAMPLE_COLUMNS)
        return table_once(
            tools.artifacts, path, key, lambda: select(read(release), samples(), number)
        )
    # `per_hub` was a setting once.
    parameters: dict[str, object] = {"examples": number, "per_hub": 0, "kernel": KERNEL}
    key = step_key("select_matching", parameters, _inputs(release, written))
    return table_once(
        tools.artifacts,
        path,
        key,
        lambda: choose_examples(open_texts(tools, release, written), number),
    )


def read_weights(tools: Tools, ref: ArtifactRef) -> Weights:
    """Return the weights of a weights table by language model."""
    table = tools.artifacts.read_table(ref)
    return dict(zip(table["plm"].tolist(), table["weight"].tolist(), strict=True))


@step("weigh t={job.iteration}", versions={"weigh": 1, "weigh_matching": 2}, value=read_weights)
def weigh_models(
    tools: Tools, job: WeighJob, release: ArtifactRef, written: Sequence[TextTable]
) -> tuple[ArtifactRef, str]:
    """Write the weight of each model (Eq. 8): by votes, or by a density match."""
    path = f"runs/{tools.run_id}/iteration={job.iteration}/weights.parquet"
    source = "uniform"
    if job.weighting:
        source = "histogram"
    # `temperature` was a setting once; without it, keys of earlier runs would not match.
    weighting = {"source": source, "transform": job.transform, "temperature": 1.0}
    parameters: dict[str, object] = {"weighting": weighting}
    if job.dense and job.weighting:
        parameters |= {"kernel": KERNEL, "plms": list(job.plms)}
        key = step_key("weigh_matching", parameters, _inputs(release, written))
        texts = partial(open_texts, tools, release, written)
        return table_once(
            tools.artifacts, path, key, lambda: weigh_by_density(texts(), job.plms, job.transform)
        )
    key = step_key(
        "weigh", parameters | {"previous": dict(job.previous)}, {"release": release.sha256}
    )

    def table() -> pd.DataFrame:
        votes = tools.artifacts.read_table(release)
        transform = None
        if job.weighting:
            transform = job.transform
        samples = read_samples(tools, written, ["sample_id", "plm"])
        return weigh(votes, samples, job.plms, transform, job.previous)

    return table_once(tools.artifacts, path, key, table)


def move_to_release(
    texts: Texts, labels: Names, vectors: Matrix
) -> tuple[Matrix, NDArray[np.float64]]:
    """Return vectors (n, d) of classes `labels`, moved towards private rows, and weights (n,) of mean 1.

    Each class moves from the mean of `texts`, which are related to a density, to its expected mean, scaled by the mean
    length of its vectors. Classes differ mainly in their means, and the means of synthetic texts are biased. One text
    in `UNMOVED` stays: where texts are as good as private rows, moving all of them loses accuracy. The weights of a
    class add up to its expected share of the private rows.
    """
    expected = texts.expected
    points = texts.points
    of_texts = texts.labels
    moved = np.array(vectors, dtype=np.float64)
    weights = np.zeros(len(labels))
    lengths = np.linalg.norm(moved, axis=1)
    for number, label in enumerate(expected.labels):
        own = np.flatnonzero(labels == label)
        if len(own):
            move = expected.means[number] - points[of_texts == label].mean(axis=0)
            moved[own[np.arange(len(own)) % UNMOVED > 0]] += move * lengths[own].mean()
            weights[own] = expected.rows[number] / len(own)
    return moved.astype(np.float32), weights / weights.mean()


def class_means(artifacts: "Artifacts", density: ArtifactRef) -> ClassMeans:
    """Return the directions of a released density's class means."""
    return means_of(_density(artifacts, density))


def means_of(density: Density) -> ClassMeans:
    """Return the directions of a density's class means."""
    means = body(density.sums)
    # A class without records may have a mean of length zero.
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), TINY)
    return ClassMeans(density.labels, means)


def cosine_to_release(artifacts: "Artifacts", density: ArtifactRef, vectors: Matrix) -> float:
    """Return the cosine of the mean of vectors (n, d) to the released mean of all records."""
    released = body(_density(artifacts, density).sums).sum(axis=0)
    own = body(features_of(vectors)).mean(axis=0)
    lengths = np.linalg.norm(own) * np.linalg.norm(released)
    return float(own @ released / max(lengths, TINY))


def _inputs(release: ArtifactRef, written: Sequence[TextTable]) -> dict[str, str]:
    return {
        "release": release.sha256,
        "texts": content([ref for entry in written for ref in entry.tables]),
    }


def relate_to_density(samples: pd.DataFrame, vectors: Matrix, density: Density) -> Texts:
    """Return texts with their features and the expected means of a density."""
    points = body(features_of(vectors))
    return Texts(samples, points, expect(density, points, samples["label"].to_numpy(dtype=str)))


def choose_examples(texts: Texts, top: int) -> pd.DataFrame:
    """Return the examples of each class, in the format of `select`."""
    expected = texts.expected
    points = texts.points
    labels = texts.labels
    missing = witness(expected, points, labels)
    parts = []
    for label in sorted(set(labels.tolist())):
        own = np.flatnonzero(labels == label)
        target = expected.of(label)
        good, bad = examples(points[own], target, -missing[own], top)
        for kind, picked, score in (
            ("good", good, points[own] @ target),
            ("bad", bad, -missing[own]),
        ):
            parts.append(ranked(texts.samples.take(own[picked]), kind, score[picked]))
    return concat_examples(parts)


def weigh_by_density(texts: Texts, plms: Sequence[str], transform: Transform) -> pd.DataFrame:
    """Return the model weights (Eq. 8) from the weights of texts in a density match.

    Texts of one model differ so much that the models' means are close together; a power separates them.
    """
    scores = texts.samples[["sample_id"]].assign(
        near=tilted(texts.expected, texts.points, texts.labels)
    )
    table = weigh(scores, texts.samples, plms, transform)
    powers = table["weight"] ** WEIGHT_EXPONENT
    return table.assign(weight=powers / powers.sum())


def open_texts(tools: Tools, release: ArtifactRef, written: Sequence[TextTable]) -> Texts:
    """Return texts with the features and expected means of a release."""
    samples = read_samples(tools, written, SAMPLE_COLUMNS)
    first = first_of_equal(samples)
    vectors = read_vectors(tools, written, first)
    return relate_to_density(
        samples[first].reset_index(drop=True), vectors, _density(tools.artifacts, release)
    )


def _density(artifacts: "Artifacts", release: ArtifactRef) -> Density:
    """Return the noisy sums of a release, by class."""
    info = artifacts.info(release)
    labels = tuple(info["labels"])
    steps = info["steps"]
    sums = (
        artifacts.read_table(release)["sum"].to_numpy(dtype=np.float64).reshape(len(labels), -1)
        / steps
    )
    return Density(labels, sums, info["scale_int"] / steps)
