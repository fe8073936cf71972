"""The steps of guidance by a released density: the release, then examples, weights and the final set from it.

Private rows are opened once, in tasks/private/releases/density.py. Where rows vote instead, the steps of
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
from connectors.interfaces.ledger import Release
from tasks.accounting.density import GuidanceNoise
from tasks.core.refs import Written
from tasks.core.reuse import make_once, step_key
from tasks.core.slots import GUIDANCE
from tasks.core.tools import Tools
from tasks.density.kernels import Kernel, body
from tasks.density.matching import Density, Expected, examples, expect, map_expectations, matched, tilted, witness
from tasks.private.releases.density import GuidanceJob, release_guidance
from tasks.selection.examples import concat_examples, example_table
from tasks.selection.weights import Weighting, allocate, weigh
from tasks.steps import selection
from tasks.steps.generate import ROW_TYPES
from tasks.steps.release_artifact import sums_told, write_release
from tasks.steps.selection import SelectJob, WeighJob
from tasks.steps.texts import content, read_samples, read_vectors
from tasks.text.cleaning import normalised
from tasks.text.usable_texts import require_usable

if TYPE_CHECKING:
    from numpy.typing import NDArray

PARTING = 3
"""Power of the PLMs' weights: on three data sets it lowered FID at epsilon 1, at 4 and without noise."""

MATCHED = "matched"
"""What stands in place of a PLM's name for texts of several that were kept as the final set."""


@dataclass(frozen=True, slots=True)
class GuideSpec:
    """The density of the private rows: its noise, its kernel, its classes; other fields as in VoteSpec."""

    dataset: str
    fingerprint: str
    noise: GuidanceNoise
    kernel: Kernel
    labels: tuple[str, ...]
    respend: bool
    needed: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SettleJob:
    """Keep the part `keep` of all texts, the set that matches the released density best; `seed` deals large classes."""

    iteration: int
    kernel: Kernel
    keep: float
    seed: int


@dataclass(frozen=True, slots=True)
class Shift:
    """Move vectors of texts, class by class, to where a released density (`release`, of `kernel`) expects rows."""

    release: ArtifactRef
    kernel: Kernel


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """Public texts, each once in its class: their rows and vectors and, beside a density, features and expectations."""

    samples: pd.DataFrame
    vectors: Matrix
    points: NDArray[np.float64] | None = None
    expected: Expected | None = None

    @property
    def labels(self) -> NDArray[Any]:
        """The class of each."""
        return self.samples["label"].to_numpy(dtype=str)

    @property
    def beside(self) -> tuple[Expected, NDArray[np.float64], NDArray[Any]]:
        """What is expected of private rows, features of the texts, and their classes."""
        assert self.points is not None
        assert self.expected is not None
        return self.expected, self.points, self.labels


def estimate_density(tools: Tools, spec: GuideSpec, written: Sequence[Written]) -> tuple[ArtifactRef, str]:
    """Release the density of the private rows once, and write it as guidance/release.parquet.

    `written`: the texts of the first round with vectors. A map that learns from them is part of what is released, bit
    by bit; of others they tell how long vectors are and nothing else: the same rows, promise, embedder and kernel are
    the same release whatever was written, in any run.
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

    def told(output: bytes) -> tuple[pd.DataFrame, dict[str, Any]]:
        table, info = sums_told(output)
        learned = {"basis": asdict(replace(basis, reused=False))} if basis else {}
        return table, info | {"labels": list(spec.labels)} | learned

    def draw() -> Release:
        return release_guidance(tools, job)

    place = f"runs/{tools.run_id}/{GUIDANCE}/release.parquet", key
    return write_release(tools, spec.dataset, place, draw, told, lambda: require_usable(tools, written, spec.needed))


def _learned(tools: Tools, kernel: Kernel, written: Sequence[Written]) -> tuple[Kernel, ArtifactRef | None]:
    """Return the map as public texts make it, and where what it learned lies; None where it learns nothing."""
    if not kernel.learns:
        return kernel, None
    path = f"runs/{tools.run_id}/{GUIDANCE}/basis.parquet"
    key = step_key("basis", {"map": kernel.name}, {"texts": _content(written)})

    def make() -> ArtifactRef:
        basis = kernel.learn(features_of(tools, written).vectors).basis
        assert basis is not None
        return tools.artifacts.write_matrix(path, basis.astype(np.float32), key)

    ref, _ = make_once(tools.artifacts, path, key, make)
    return replace(kernel, basis=tools.artifacts.read_matrix(ref).astype(np.float64)), ref


def mapped(tools: Tools, kernel: Kernel, release: ArtifactRef) -> Kernel:
    """Return the map of a release, with what it learned."""
    if not kernel.learns:
        return kernel
    basis = tools.artifacts.read_matrix(ArtifactRef(**tools.artifacts.info(release)["basis"]))
    return replace(kernel, basis=basis.astype(np.float64))


def select_examples(
    tools: Tools, job: SelectJob, release: ArtifactRef, written: Sequence[Written]
) -> tuple[ArtifactRef, str]:
    """Write the examples of each class: by votes (Eq. 7), or such as are like private rows and unlike other texts."""
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
            path, chosen(_open(tools, kernel, release, written), job.examples, job.per_hub), key
        )

    return make_once(tools.artifacts, path, key, make)


def weigh_models(
    tools: Tools, job: WeighJob, release: ArtifactRef, written: Sequence[Written]
) -> tuple[ArtifactRef, str]:
    """Write the weight of each PLM (Eq. 8): by votes, or by what its texts weigh in a set that matches the density."""
    if job.kernel is None or not job.weighting:
        return selection.weigh_models(tools, job, release, written)
    kernel, path = job.kernel, f"runs/{tools.run_id}/iteration={job.iteration}/weights.parquet"
    weighting = Weighting("histogram", job.transform, job.temperature)
    parameters: dict[str, object] = {"weighting": asdict(weighting), "kernel": kernel.name, "plms": list(job.plms)}
    key = step_key("weigh_matching", parameters, _inputs(release, written))

    def make() -> ArtifactRef:
        table = weighed(_open(tools, kernel, release, written), job.plms, weighting)
        return tools.artifacts.write_table(path, table, key)

    return make_once(tools.artifacts, path, key, make)


def settle(tools: Tools, job: SettleJob, release: ArtifactRef, written: Sequence[Written]) -> tuple[Written, str]:
    """Write the final set: the part of all texts that matches the density best, classes in the proportions they had."""
    path = f"runs/{tools.run_id}/{MATCHED}/samples.parquet"
    parameters: dict[str, object] = {"keep": job.keep, "kernel": job.kernel.name, "seed": job.seed}
    key = step_key("settle", parameters, _inputs(release, written))
    beside = path.replace("samples", "vectors")

    def make() -> ArtifactRef:
        texts = _open(tools, job.kernel, release, written)
        kept = matched(*texts.beside, _counts(texts.samples, job.keep), job.seed)
        samples = texts.samples.iloc[kept].reset_index(drop=True)
        tools.artifacts.write_matrix(beside, texts.vectors[kept], key)
        return tools.artifacts.write_table(path, samples[list(ROW_TYPES)], key)

    def stale(_: ArtifactRef) -> str:
        whole = tools.artifacts.find(beside, key)
        return "" if whole else "computed again because the vectors of the final set are not whole"

    ref, why = make_once(tools.artifacts, path, key, make, stale)
    return Written(MATCHED, job.iteration, ref, tools.artifacts.find(beside, key)), why


def moved(tools: Tools, shift: Shift, written: Sequence[Written], labels: NDArray[Any], vectors: Matrix) -> Matrix:
    """Return the vectors (n, d) of texts of the classes `labels`, each class moved as a whole to where rows lie.

    The way is that from the mean of its texts to the mean that the density makes one expect, in units of how long its
    vectors are. What tells classes apart is where they lie; this is what texts by themselves get wrong.
    """
    expected, points, of_texts = _open(tools, shift.kernel, shift.release, written).beside
    lengths, found = np.linalg.norm(vectors, axis=1), np.array(vectors, dtype=np.float64)
    for label in np.unique(labels):
        own = labels == label
        found[own] += (expected.of(str(label)) - points[of_texts == label].mean(axis=0)) * lengths[own].mean()
    return found.astype(np.float32)


def _inputs(release: ArtifactRef, written: Sequence[Written]) -> dict[str, str]:
    return {"release": release.sha256, "texts": _content(written)}


def _content(written: Sequence[Written]) -> str:
    return content([ref for one in written for ref in (one.samples, one.vectors) if ref is not None])


def features_of(tools: Tools, written: Sequence[Written]) -> Texts:
    """Read texts with their vectors, each once in its class."""
    samples = read_samples(tools, written)
    first = ~(samples["label"] + "\x00" + samples["text"].map(normalised)).duplicated().to_numpy()
    return Texts(samples[first].reset_index(drop=True), read_vectors(tools, written)[first])


def among(texts: Texts, kernel: Kernel, density: Density) -> Texts:
    """Return the texts beside a density."""
    features = body(kernel.features(texts.vectors))
    expected = expect(density, features, texts.labels)
    if not kernel.learns:
        return replace(texts, points=features, expected=expected)
    points = body(Kernel().features(texts.vectors))
    return replace(texts, points=points, expected=map_expectations(expected, features, points, texts.labels))


def chosen(texts: Texts, top: int, per_hub: int = 0) -> pd.DataFrame:
    """Return the examples of each class, as `tasks.selection.examples.select` has them."""
    expected, points, labels = texts.beside
    missing, found = witness(expected, points, labels), []
    for label in sorted(set(labels.tolist())):
        own = np.flatnonzero(labels == label)
        target = expected.of(label)
        good, bad = examples(points[own], target, -missing[own], top, per_hub)
        for kind, places, score in (("good", good, points[own] @ target), ("bad", bad, -missing[own])):
            found.append(example_table(texts.samples, own[places], kind, score[places]))
    return concat_examples(found)


def weighed(texts: Texts, plms: Sequence[str], weighting: Weighting) -> pd.DataFrame:
    """Return the weights of PLMs (Eq. 8) by what their texts weigh in a set that matches the density.

    Texts of one PLM are so unlike each other that these means lie close together; their power parts them.
    """
    told = texts.samples[["sample_id"]].assign(near=tilted(*texts.beside))
    table = weigh(told, texts.samples, plms, weighting)
    powers = table["weight"] ** PARTING
    return table.assign(weight=powers / powers.sum())


def _open(tools: Tools, kernel: Kernel, release: ArtifactRef, written: Sequence[Written]) -> Texts:
    """Read texts, and what the release makes one expect beside them."""
    info = tools.artifacts.info(release)
    labels, steps = tuple(info["labels"]), info["steps"]
    sums = tools.artifacts.read_table(release)["sum"].to_numpy(dtype=np.float64).reshape(len(labels), -1) / steps
    return among(
        features_of(tools, written), mapped(tools, kernel, release), Density(labels, sums, info["scale_int"] / steps)
    )


def _counts(samples: pd.DataFrame, keep: float) -> dict[str, int]:
    """Return how many texts of each class stay: the part `keep` of all, classes in proportion."""
    sizes = {str(label): float(size) for label, size in samples["label"].value_counts(sort=False).items()}
    return allocate(max(round(keep * len(samples)), min(len(sizes), len(samples))), sizes, floor=0.0)
