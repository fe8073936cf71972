"""Steps between votes and next texts: candidates, examples, model weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from connectors.interfaces.artifacts import ArtifactRef
from tasks.core.refs import Weights, Written
from tasks.core.reuse import step_key, table_once
from tasks.core.tools import Tools
from tasks.private.voting.ballot import Candidates
from tasks.selection.examples import select
from tasks.selection.weights import Source, Transform, Weighting, weigh
from tasks.steps.texts import read_samples, read_vectors, read_writers
from tasks.text.cleaning import normalised


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


def candidates(tools: Tools, written: Sequence[Written]) -> Candidates:
    """Return the candidates of a vote: `written` without duplicates in a class.

    Duplicates would split votes, and rounding would decide between equal texts (design: batch effects). The lowest
    sample id remains.
    """
    samples = read_samples(tools, written)
    key = samples["label"] + "\x00" + samples["text"].map(normalised)
    first = ~key.duplicated().to_numpy()
    return Candidates(
        ids=samples["sample_id"].to_numpy(dtype=np.int64)[first],
        labels=samples["label"].to_numpy(dtype=str)[first],
        vectors=read_vectors(tools, written)[first],
    )


def select_examples(
    tools: Tools, iteration: int, number: int, release: ArtifactRef, written: Sequence[Written]
) -> tuple[ArtifactRef, str]:
    """Write the best and worst texts of each class (Eq. 7)."""
    path = f"runs/{tools.run_id}/iteration={iteration}/selection.parquet"
    key = step_key("select", {"examples": number}, {"release": release.sha256})
    read = tools.artifacts.read_table
    return table_once(tools.artifacts, path, key, lambda: select(read(release), read_samples(tools, written), number))


def weigh_models(
    tools: Tools, job: WeighJob, release: ArtifactRef, written: Sequence[Written]
) -> tuple[ArtifactRef, str]:
    """Write the weight of each language model (Eq. 8)."""
    path = f"runs/{tools.run_id}/iteration={job.iteration}/weights.parquet"
    source: Source = "histogram" if job.weighting else "uniform"
    weighting = Weighting(source, job.transform)
    parameters: dict[str, object] = {"weighting": weighting.to_json(), "previous": dict(job.previous)}
    key = step_key("weigh", parameters, {"release": release.sha256})

    def table() -> pd.DataFrame:
        votes = tools.artifacts.read_table(release)
        return weigh(votes, read_writers(tools, written), job.plms, weighting, job.previous)

    return table_once(tools.artifacts, path, key, table)


def read_weights(tools: Tools, ref: ArtifactRef) -> Weights:
    """Return the weights of a weights table by language model."""
    table = tools.artifacts.read_table(ref)
    return dict(zip(table["plm"].tolist(), table["weight"].tolist(), strict=True))
