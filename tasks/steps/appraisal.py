"""Step that measures the examples and weights of a round against public rows.

The step runs the same mechanism without noise on these rows in place of the private ones. The result is the reference
that shows the effect of noise and of the small number of private records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.embedding import Matrix
from tasks.core.refs import Reference, Weights, Written
from tasks.core.reuse import make_once, step_key
from tasks.core.tools import Tools
from tasks.density.matching import Density
from tasks.private.voting.ballot import Ballot
from tasks.private.voting.votes import clean_votes
from tasks.selection.examples import select
from tasks.selection.smoothing import select_smoothly, weigh_smoothly
from tasks.selection.weights import Weighting, weigh
from tasks.steps.density import Texts, choose_examples, load_kernel, read_texts, relate_to_density, weigh_by_density
from tasks.steps.selection import SelectJob, WeighJob, candidates
from tasks.steps.texts import content, read_samples, read_vectors, reference_rows

if TYPE_CHECKING:
    from tasks.accounting.votes import Noise


@dataclass(frozen=True, slots=True)
class AppraiseJob:
    """A round to measure: its settings, `release` and `weights`, and the `test` rows."""

    release: ArtifactRef
    select: SelectJob
    weigh: WeighJob
    noise: Noise
    labels: tuple[str, ...]
    weights: Mapping[str, float]
    test: Reference


def appraise(
    tools: Tools, job: AppraiseJob, selection: ArtifactRef, written: Sequence[Written]
) -> tuple[ArtifactRef, str]:
    """Write the measures of a round to appraisal.json.

    `picks`: mean percentile (0 to 1, chance 0.5) of the good examples among the texts of their class, by mean cosine
    similarity to the real rows of that class. `overlap`: share of the good examples that the mechanism also selects
    from the real rows without noise. `weights_tv`, `equal_tv`: total variation between the weights without noise and
    the weights of the round, or equal weights.
    """
    path = f"runs/{tools.run_id}/iteration={job.select.iteration}/appraisal.json"
    parameters: dict[str, object] = {"weights": dict(job.weights), "test": job.test.content, "votes": _votes(job)}
    parameters |= {"embedder": tools.embedder.identity}
    inputs = {"selection": selection.sha256, "texts": content([entry.samples for entry in written])}
    key = step_key("appraise", parameters, inputs)

    def make() -> ArtifactRef:
        frame, real = reference_rows(tools, job.test)
        selected = tools.artifacts.read_table(selection)
        good = selected[selected["kind"] == "good"]
        best, weights = _without_noise(tools, job, written, frame["label"].to_numpy(dtype=str), real)
        values = {
            "picks": _percentile(read_texts(tools, written), good, frame["label"].to_numpy(dtype=str), real),
            "overlap": float(good["sample_id"].isin(best).mean()) if len(good) else None,
            "weights_tv": _total_variation(weights, job.weights),
            "equal_tv": _total_variation(weights, dict.fromkeys(weights, 1 / len(weights))),
        }
        return tools.artifacts.write_json(path, values, key)

    return make_once(tools.artifacts, path, key, make)


def _votes(job: AppraiseJob) -> list[object]:
    name = job.select.kernel.name if job.select.kernel else "smooth" if job.select.smooth else ""
    return [job.noise.privacy.votes, name, job.select.examples]


def _without_noise(
    tools: Tools, job: AppraiseJob, written: Sequence[Written], labels: np.ndarray, real: Matrix
) -> tuple[set[int], Weights]:
    """Return the good examples and weights that these rows give without noise."""
    weighting = Weighting("histogram", job.weigh.transform, job.weigh.temperature)
    if job.select.kernel is not None:
        kernel = load_kernel(tools, job.select.kernel, job.release)
        features = kernel.features(real)
        sums = np.stack([features[labels == label].sum(axis=0) for label in job.labels])
        texts = relate_to_density(read_texts(tools, written), kernel, Density(job.labels, sums, 0.0))
        best, table = choose_examples(texts, job.select.examples), weigh_by_density(texts, job.weigh.plms, weighting)
    elif job.select.smooth:
        votes, samples = _by_votes(tools, job, written, labels, real), read_samples(tools, written)
        best = select_smoothly(votes, samples, read_vectors(tools, written), job.select.examples)
        table = weigh_smoothly(votes, samples, job.weigh.plms, weighting, 0.0)
    else:
        votes, samples = _by_votes(tools, job, written, labels, real), read_samples(tools, written)
        best, table = select(votes, samples, job.select.examples), weigh(votes, samples, job.weigh.plms, weighting)
    good = best[best["kind"] == "good"]
    return set(good["sample_id"].tolist()), dict(zip(table["plm"], table["weight"], strict=True))


def _by_votes(
    tools: Tools, job: AppraiseJob, written: Sequence[Written], labels: np.ndarray, real: Matrix
) -> pd.DataFrame:
    texts = replace(candidates(tools, written), writers=None, models=0)
    privacy = replace(job.noise.privacy, choice_share=0.0)
    ballot = Ballot(np.asarray(real, dtype=np.float32), labels.tolist(), privacy.votes)
    counts = clean_votes(ballot, texts, replace(job.noise, privacy=privacy)).counts
    return pd.DataFrame({"sample_id": texts.ids, "near": counts[:, 0], "far": counts[:, 1]})


def _percentile(texts: Texts, good: pd.DataFrame, labels: np.ndarray, real: Matrix) -> float | None:
    """Return the mean percentile of the examples by similarity to real rows."""
    units = [
        vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12) for vectors in (texts.vectors, real)
    ]
    ranks: list[float] = []
    for label, group in good.groupby("label"):
        own = np.flatnonzero(texts.labels == label)
        targets = units[1][labels == label]
        if len(own) < 2 or not len(targets):
            continue
        percentiles = (units[0][own] @ targets.mean(axis=0)).argsort().argsort() / (len(own) - 1)
        ranks += percentiles[
            pd.Index(texts.samples["sample_id"].to_numpy()[own]).get_indexer(pd.Index(group["sample_id"]))
        ].tolist()
    return float(np.mean(ranks)) if ranks else None


def _total_variation(first: Mapping[str, float], second: Mapping[str, float]) -> float:
    """Return the total variation distance between two weightings."""
    return float(sum(abs(first[plm] - second.get(plm, 0.0)) for plm in first) / 2)
