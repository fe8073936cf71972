"""Steps of guidance by a density: release, examples, weights and final set.

Only tasks/private/releases/density.py reads private rows, once. If the rows vote instead, the steps of
tasks/steps/selection.py run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.embedding import Matrix
from connectors.interfaces.ledger import StoredRelease
from tasks.accounting.density import GuidanceNoise
from tasks.core.allocation import allocate
from tasks.core.refs import Written
from tasks.core.reuse import make_once, step_key
from tasks.core.slots import GUIDANCE
from tasks.core.tools import Tools
from tasks.density.kernels import Kernel, body
from tasks.density.matching import (
    TINY,
    Density,
    Expected,
    examples,
    expect,
    map_expectations,
    matched,
    tilted,
    witness,
)
from tasks.private.releases.density import GuidanceJob, release_guidance
from tasks.selection.examples import concat_examples, example_table
from tasks.selection.weights import Weighting, weigh
from tasks.steps import selection
from tasks.steps.generate import ROW_TYPES
from tasks.steps.release_artifact import sums_table, write_release
from tasks.steps.selection import SelectJob, WeighJob
from tasks.steps.texts import content, read_samples, read_vectors
from tasks.text.cleaning import normalised
from tasks.text.usable_texts import require_usable

if TYPE_CHECKING:
    from numpy.typing import NDArray

WEIGHT_EXPONENT = 3
"""Exponent of the models' weights; on three datasets it lowered FID at epsilon 1, at epsilon 4 and without noise."""

UNMOVED = 4
"""One text of this many keeps its vector (measured in docs/results/guidance_auto.md)."""

MATCHED = "matched"
"""Name in place of a language model for the final set, which mixes texts of several models."""


@dataclass(frozen=True, slots=True)
class GuideSpec:
    """The release of the density of the private rows; other fields as in VoteSpec."""

    dataset: str
    fingerprint: str
    noise: GuidanceNoise
    kernel: Kernel
    labels: tuple[str, ...]
    respend: bool
    needed: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SettleJob:
    """The share `keep` of the texts that match the released density best.

    `seed` partitions large classes.
    """

    iteration: int
    kernel: Kernel
    keep: float
    seed: int


@dataclass(frozen=True, slots=True)
class Shift:
    """A translation of the vectors of each class towards a released density."""

    release: ArtifactRef
    kernel: Kernel


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """Public texts without duplicates per class: rows and vectors.

    With a density, `points` are their features and `expected` the expected means of the private rows.
    """

    samples: pd.DataFrame
    vectors: Matrix
    points: NDArray[np.float64] | None = None
    expected: Expected | None = None

    @property
    def labels(self) -> NDArray[Any]:
        """Class of each text."""
        return self.samples["label"].to_numpy(dtype=str)

    @property
    def with_density(self) -> tuple[Expected, NDArray[np.float64], NDArray[Any]]:
        """Expected means of the private rows, and features and classes of the texts."""
        assert self.points is not None
        assert self.expected is not None
        return self.expected, self.points, self.labels


def estimate_density(tools: Tools, spec: GuideSpec, written: Sequence[Written]) -> tuple[ArtifactRef, str]:
    """Release the density of the private rows once to guidance/release.parquet.

    `written`: the texts of the first round with vectors. A kernel that learns from them is part of the release key.
    Other kernels only need the dimension of the vectors. For these, the same rows, guarantee, embedder and kernel give
    the same release in any run, independent of the texts.
    """
    privacy, where = spec.noise.privacy, tools.private.where
    kernel, basis = _learned(tools, spec.kernel, written)
    dimension = int(read_vectors(tools, written[:1]).shape[1])
    parameters: dict[str, object] = {
        "event": spec.noise.event,
        "sigma_int": spec.noise.sigma_int,
        "steps": spec.noise.scale,
        "adjacency": privacy.adjacency,
        "protects": [privacy.protects, privacy.rows_per_person],
        "private": spec.fingerprint,
        "rows": where.choice,
        "kernel": spec.kernel.name,
        "labels": list(spec.labels),
        "embedder": tools.embedder.identity,
        **({"basis": basis.sha256} if basis else {}),
    }
    key = step_key("guidance", parameters, {})
    job = GuidanceJob(
        dataset=spec.dataset,
        fingerprint=spec.fingerprint,
        step_key=key.key,
        noise=spec.noise,
        charge=spec.noise.charge,
        kernel=kernel,
        labels=spec.labels,
        dimension=dimension,
        respend=spec.respend,
    )

    def read_output(output: bytes) -> tuple[pd.DataFrame, dict[str, Any]]:
        table, info = sums_table(output)
        learned = {"basis": asdict(replace(basis, reused=False))} if basis else {}
        return table, info | {"labels": list(spec.labels)} | learned

    def draw() -> StoredRelease:
        return release_guidance(tools, job)

    target = f"runs/{tools.run_id}/{GUIDANCE}/release.parquet", key
    return write_release(
        tools, spec.dataset, target, draw, read_output, lambda: require_usable(tools, written, spec.needed)
    )


def _learned(tools: Tools, kernel: Kernel, written: Sequence[Written]) -> tuple[Kernel, ArtifactRef | None]:
    """Return the kernel fitted to public texts and its basis, None if unfitted."""
    if not kernel.learns:
        return kernel, None
    path = f"runs/{tools.run_id}/{GUIDANCE}/basis.parquet"
    key = step_key("basis", {"map": kernel.name}, {"texts": _content(written)})

    def make() -> ArtifactRef:
        texts = read_texts(tools, written)
        basis = kernel.learn(texts.vectors).basis
        assert basis is not None
        return tools.artifacts.write_matrix(path, basis.astype(np.float32), key)

    ref, _ = make_once(tools.artifacts, path, key, make)
    return replace(kernel, basis=tools.artifacts.read_matrix(ref).astype(np.float64)), ref


def load_kernel(tools: Tools, kernel: Kernel, release: ArtifactRef) -> Kernel:
    """Return the kernel of a release with its learned basis."""
    if not kernel.learns:
        return kernel
    basis = tools.artifacts.read_matrix(ArtifactRef(**tools.artifacts.info(release)["basis"]))
    return replace(kernel, basis=basis.astype(np.float64))


def select_examples(
    tools: Tools, job: SelectJob, release: ArtifactRef, written: Sequence[Written]
) -> tuple[ArtifactRef, str]:
    """Write the examples of each class: by votes (Eq. 7), or by the released density."""
    if job.kernel is None:
        return selection.select_examples(tools, job, release, written)
    kernel, path = job.kernel, f"runs/{tools.run_id}/iteration={job.iteration}/selection.parquet"
    key = step_key(
        "select_matching",
        {"examples": job.examples, "per_hub": job.per_hub, "kernel": kernel.name},
        _inputs(release, written),
    )

    def make() -> ArtifactRef:
        return tools.artifacts.write_table(
            path, choose_examples(_open(tools, kernel, release, written), job.examples, job.per_hub), key
        )

    return make_once(tools.artifacts, path, key, make)


def weigh_models(
    tools: Tools, job: WeighJob, release: ArtifactRef, written: Sequence[Written]
) -> tuple[ArtifactRef, str]:
    """Write the weight of each model (Eq. 8): by votes, or by a density match."""
    if job.kernel is None or not job.weighting:
        return selection.weigh_models(tools, job, release, written)
    kernel, path = job.kernel, f"runs/{tools.run_id}/iteration={job.iteration}/weights.parquet"
    weighting = Weighting("histogram", job.transform, job.temperature)
    parameters: dict[str, object] = {"weighting": asdict(weighting), "kernel": kernel.name, "plms": list(job.plms)}
    key = step_key("weigh_matching", parameters, _inputs(release, written))

    def make() -> ArtifactRef:
        table = weigh_by_density(_open(tools, kernel, release, written), job.plms, weighting)
        return tools.artifacts.write_table(path, table, key)

    return make_once(tools.artifacts, path, key, make)


def settle(tools: Tools, job: SettleJob, release: ArtifactRef, written: Sequence[Written]) -> tuple[Written, str]:
    """Write the final set: the texts that match the density best.

    Class proportions do not change.
    """
    path = f"runs/{tools.run_id}/{MATCHED}/samples.parquet"
    parameters: dict[str, object] = {"keep": job.keep, "kernel": job.kernel.name, "seed": job.seed}
    key = step_key("settle", parameters, _inputs(release, written))
    vectors_path = path.replace("samples", "vectors")

    def make() -> ArtifactRef:
        texts = _open(tools, job.kernel, release, written)
        selected = matched(*texts.with_density, _counts(texts.samples, job.keep), job.seed)
        samples = texts.samples.iloc[selected].reset_index(drop=True)
        tools.artifacts.write_matrix(vectors_path, texts.vectors[selected], key)
        return tools.artifacts.write_table(path, samples[list(ROW_TYPES)], key)

    def stale(_: ArtifactRef) -> str:
        vectors = tools.artifacts.find(vectors_path, key)
        return "" if vectors else "recomputed because the vectors of the final set are incomplete"

    ref, why = make_once(tools.artifacts, path, key, make, stale)
    return Written(MATCHED, job.iteration, ref, tools.artifacts.find(vectors_path, key)), why


def shift_vectors(
    tools: Tools, shift: Shift, written: Sequence[Written], labels: NDArray[Any], vectors: Matrix
) -> Matrix:
    """Return the vectors (n, d) of texts, moved per class towards private rows.

    Each class moves from the mean of its texts to the mean expected from the density, scaled by the mean length of its
    vectors. Classes differ mainly in their means, and the means of synthetic texts are biased. One text in `UNMOVED`
    stays: where texts are as good as private rows, moving all of them loses accuracy.
    """
    expected, points, of_texts = _open(tools, shift.kernel, shift.release, written).with_density
    lengths, shifted = np.linalg.norm(vectors, axis=1), np.array(vectors, dtype=np.float64)
    for label in np.unique(labels):
        own = labels == label
        move = (expected.of(str(label)) - points[of_texts == label].mean(axis=0)) * lengths[own].mean()
        shifted[moved_rows(own)] += move
    return shifted.astype(np.float32)


def moved_rows(own: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the positions of the texts of a class that move, from the mask (n,) of its texts."""
    places = np.flatnonzero(own)
    return places[np.arange(len(places)) % UNMOVED > 0]


def shift_parameters(shift: Shift | None) -> dict[str, object]:
    """Return the parameters of a shift for the key of a step."""
    return {"shift": shift.release.sha256, "unmoved": UNMOVED} if shift else {"shift": ""}


def expected_rows(tools: Tools, shift: Shift, written: Sequence[Written], labels: Sequence[str]) -> NDArray[np.float64]:
    """Return the expected number of private rows of each class of `labels`, from the constant feature."""
    expected, _, _ = _open(tools, shift.kernel, shift.release, written).with_density
    return np.array([expected.rows[expected.labels.index(label)] for label in labels])


def nearest_means(tools: Tools, density: Shift, vectors: Matrix) -> NDArray[Any]:
    """Return the class (n,) whose noisy mean has the smallest angle to each vector (n, d); no text takes part."""
    released = _density(tools, density.release)
    means = body(released.sums)
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), TINY)
    points = body(load_kernel(tools, density.kernel, density.release).features(vectors))
    return np.asarray(np.array(released.labels)[(points @ means.T).argmax(axis=1)])


def _inputs(release: ArtifactRef, written: Sequence[Written]) -> dict[str, str]:
    return {"release": release.sha256, "texts": _content(written)}


def _content(written: Sequence[Written]) -> str:
    return content([ref for entry in written for ref in (entry.samples, entry.vectors) if ref is not None])


def read_texts(tools: Tools, written: Sequence[Written]) -> Texts:
    """Return texts with their vectors, without duplicates in a class."""
    samples = read_samples(tools, written)
    first = ~(samples["label"] + "\x00" + samples["text"].map(normalised)).duplicated().to_numpy()
    return Texts(samples[first].reset_index(drop=True), read_vectors(tools, written)[first])


def relate_to_density(texts: Texts, kernel: Kernel, density: Density) -> Texts:
    """Return the texts with features and expected means of a density."""
    features = body(kernel.features(texts.vectors))
    if not kernel.learns:
        return replace(texts, points=features, expected=expect(density, features, texts.labels))
    points = body(Kernel().features(texts.vectors))
    expected = expect(density, features, texts.labels)
    return replace(texts, points=points, expected=map_expectations(expected, features, points, texts.labels))


def choose_examples(texts: Texts, top: int, per_hub: int = 0) -> pd.DataFrame:
    """Return the examples of each class, in the format of `select`."""
    expected, points, labels = texts.with_density
    missing, parts = witness(expected, points, labels), []
    for label in sorted(set(labels.tolist())):
        own = np.flatnonzero(labels == label)
        target = expected.of(label)
        good, bad = examples(points[own], target, -missing[own], top, per_hub)
        for kind, picked, score in (("good", good, points[own] @ target), ("bad", bad, -missing[own])):
            parts.append(example_table(texts.samples, own[picked], kind, score[picked]))
    return concat_examples(parts)


def weigh_by_density(texts: Texts, plms: Sequence[str], weighting: Weighting) -> pd.DataFrame:
    """Return the model weights (Eq. 8) from the weights of texts in a density match.

    Texts of one model differ so much that the models' means are close together; a power separates them.
    """
    scores = texts.samples[["sample_id"]].assign(near=tilted(*texts.with_density))
    table = weigh(scores, texts.samples, plms, weighting)
    powers = table["weight"] ** WEIGHT_EXPONENT
    return table.assign(weight=powers / powers.sum())


def _open(tools: Tools, kernel: Kernel, release: ArtifactRef, written: Sequence[Written]) -> Texts:
    """Return texts with the features and expected means of a release."""
    return relate_to_density(read_texts(tools, written), load_kernel(tools, kernel, release), _density(tools, release))


def _density(tools: Tools, release: ArtifactRef) -> Density:
    """Return the noisy sums of a release, by class."""
    info = tools.artifacts.info(release)
    labels, steps = tuple(info["labels"]), info["steps"]
    sums = tools.artifacts.read_table(release)["sum"].to_numpy(dtype=np.float64).reshape(len(labels), -1) / steps
    return Density(labels, sums, info["scale_int"] / steps)


def _counts(samples: pd.DataFrame, keep: float) -> dict[str, int]:
    """Return the number of texts to keep per class, in class proportions."""
    sizes = {str(label): float(size) for label, size in samples["label"].value_counts(sort=False).items()}
    return allocate(max(round(keep * len(samples)), min(len(sizes), len(samples))), sizes, floor=0.0)
