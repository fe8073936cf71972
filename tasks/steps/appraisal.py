"""How well a round was guided, measured against real rows that are not private: its examples and its weights.

The same mechanism is asked with these rows in place of the private ones and without noise; what it would have chosen is
what noise, and a hundred rows instead of all, are held against.
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
from tasks.steps.density import Texts, among, chosen, features_of, mapped, weighed
from tasks.steps.selection import SelectJob, WeighJob, candidates
from tasks.steps.texts import content, read_samples, read_vectors, reference_rows

if TYPE_CHECKING:
    from tasks.accounting.votes import Noise


@dataclass(frozen=True, slots=True)
class AppraiseJob:
    """Appraise a round: how examples and weights were asked for, of which `release`, the weights it got, real rows."""

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
    """Write `picks`, `overlap`, `weights_tv` and `equal_tv` of a round, as appraisal.json.

    `picks`: mean percentile (0 to 1, chance 0.5) of the good examples among the texts of their class by mean cosine
    similarity to the real rows of that class. `overlap`: share of them that the mechanism takes by these rows without
    noise. `weights_tv`, `equal_tv`: total variation between the weights that it gives then and those of the round, or
    equal ones.
    """
    path = f"runs/{tools.run_id}/iteration={job.select.iteration}/appraisal.json"
    parameters: dict[str, object] = {"weights": dict(job.weights), "test": job.test.content, "votes": _votes(job)}
    parameters |= {"embedder": tools.embedder.identity}
    inputs = {"selection": selection.sha256, "texts": content([one.samples for one in written])}
    key = step_key("appraise", parameters, inputs)

    def make() -> ArtifactRef:
        frame, real = reference_rows(tools, job.test)
        ours = tools.artifacts.read_table(selection)
        good = ours[ours["kind"] == "good"]
        best, weights = _ideal(tools, job, written, frame["label"].to_numpy(dtype=str), real)
        found = {
            "picks": _percentile(features_of(tools, written), good, frame["label"].to_numpy(dtype=str), real),
            "overlap": float(good["sample_id"].isin(best).mean()) if len(good) else None,
            "weights_tv": _apart(weights, job.weights),
            "equal_tv": _apart(weights, dict.fromkeys(weights, 1 / len(weights))),
        }
        return tools.artifacts.write_json(path, found, key)

    return make_once(tools.artifacts, path, key, make)


def _votes(job: AppraiseJob) -> list[object]:
    name = job.select.kernel.name if job.select.kernel else "smooth" if job.select.smooth else ""
    return [job.noise.privacy.votes, name, job.select.examples]


def _ideal(
    tools: Tools, job: AppraiseJob, written: Sequence[Written], labels: np.ndarray, real: Matrix
) -> tuple[set[int], Weights]:
    """Return the good examples and the weights that the mechanism gives by these rows without noise."""
    weighting = Weighting("histogram", job.weigh.transform, job.weigh.temperature)
    if job.select.kernel is not None:
        kernel = mapped(tools, job.select.kernel, job.release)
        features = kernel.features(real)
        sums = np.stack([features[labels == label].sum(axis=0) for label in job.labels])
        texts = among(features_of(tools, written), kernel, Density(job.labels, sums, 0.0))
        best, table = chosen(texts, job.select.examples), weighed(texts, job.weigh.plms, weighting)
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
    standing_for = replace(candidates(tools, written), writers=None, models=0)
    privacy = replace(job.noise.privacy, choice_share=0.0)
    ballot = Ballot(np.asarray(real, dtype=np.float32), labels.tolist(), privacy.votes)
    counts = clean_votes(ballot, standing_for, replace(job.noise, privacy=privacy)).counts
    return pd.DataFrame({"sample_id": standing_for.ids, "near": counts[:, 0], "far": counts[:, 1]})


def _percentile(texts: Texts, good: pd.DataFrame, labels: np.ndarray, real: Matrix) -> float | None:
    """Return the mean rank of examples among the texts of their class by closeness to real rows."""
    units = [
        vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12) for vectors in (texts.vectors, real)
    ]
    ranks: list[float] = []
    for label, group in good.groupby("label"):
        own = np.flatnonzero(texts.labels == label)
        wanted = units[1][labels == label]
        if len(own) < 2 or not len(wanted):
            continue
        place = (units[0][own] @ wanted.mean(axis=0)).argsort().argsort() / (len(own) - 1)
        ranks += place[
            pd.Index(texts.samples["sample_id"].to_numpy()[own]).get_indexer(pd.Index(group["sample_id"]))
        ].tolist()
    return float(np.mean(ranks)) if ranks else None


def _apart(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Return the total variation between two weightings."""
    return float(sum(abs(one[plm] - other.get(plm, 0.0)) for plm in one) / 2)
