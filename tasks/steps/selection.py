"""Steps between votes and next texts: candidates, examples, model weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd

from connectors.interfaces.artifacts import ArtifactRef
from tasks.core.allocation import allocate
from tasks.core.refs import Weights, Written
from tasks.core.reuse import make_once, step_key
from tasks.core.tools import Tools
from tasks.density.kernels import Kernel
from tasks.private.voting.ballot import Candidates
from tasks.selection.examples import select
from tasks.selection.hubs import select_spaced
from tasks.selection.smoothing import select_smoothly, weigh_smoothly
from tasks.selection.weights import Source, Transform, Weighting, weigh
from tasks.steps.texts import content, read_samples, read_vectors, read_writers
from tasks.text.cleaning import normalised


@dataclass(frozen=True, slots=True)
class SelectJob:
    """Selection of `examples` (S) good and bad texts per class from a release.

    `kernel`: kernel of the released density; None for votes. `smooth`: smooth the votes over neighbouring texts.
    `per_hub`: maximum number of bad examples that are close together; 0 means no limit.
    """

    iteration: int
    examples: int
    kernel: Kernel | None = None
    smooth: bool = False
    per_hub: int = 0


@dataclass(frozen=True, slots=True)
class WeighJob:
    """Conversion of the release of `iteration` to weights.

    The `previous` weights apply if the noisy votes are not informative.
    `transform`, `temperature`: linear, or softmax(w / temperature). `kernel`, `smooth` as in SelectJob.
    """

    iteration: int
    plms: tuple[str, ...]
    weighting: bool
    previous: Mapping[str, float]
    transform: Transform = "linear"
    temperature: float = 1.0
    kernel: Kernel | None = None
    smooth: bool = False


def candidates(tools: Tools, written: Sequence[Written]) -> Candidates:
    """Return the candidates of a vote: `written` without duplicates in a class.

    Duplicates would split votes, and rounding would decide between equal texts (design: batch effects). The lowest
    sample id remains.
    """
    samples = read_samples(tools, written)
    key = samples["label"] + "\x00" + samples["text"].map(normalised)
    first = ~key.duplicated().to_numpy()
    writers = pd.Index(tools.plms).get_indexer(pd.Index(samples["plm"])).astype(np.int64)
    writers_known = bool((writers >= 0).all())  # a model that only varies texts has no count of first choices
    return Candidates(
        ids=samples["sample_id"].to_numpy(dtype=np.int64)[first],
        labels=samples["label"].to_numpy(dtype=str)[first],
        vectors=read_vectors(tools, written)[first],
        writers=writers[first] if writers_known else None,
        models=len(tools.plms) if writers_known else 0,
    )


def select_examples(
    tools: Tools, job: SelectJob, release: ArtifactRef, written: Sequence[Written]
) -> tuple[ArtifactRef, str]:
    """Write the best and worst texts of each class (Eq. 7)."""
    path = f"runs/{tools.run_id}/iteration={job.iteration}/selection.parquet"
    inputs = {"release": release.sha256}
    if job.smooth or job.per_hub:
        inputs["vectors"] = content([entry.vectors for entry in written if entry.vectors is not None])
    step = "select_smoothed" if job.smooth else "select_spaced" if job.per_hub else "select"
    parameters: dict[str, object] = {"examples": job.examples, **({"per_hub": job.per_hub} if job.per_hub else {})}
    key = step_key(step, parameters, inputs)

    def make() -> ArtifactRef:
        votes, samples = tools.artifacts.read_table(release), read_samples(tools, written)
        if job.smooth:
            chosen = select_smoothly(votes, samples, read_vectors(tools, written), job.examples, job.per_hub)
        elif job.per_hub:
            chosen = select_spaced(votes, samples, read_vectors(tools, written), job.examples, job.per_hub)
        else:
            chosen = select(votes, samples, job.examples)
        return tools.artifacts.write_table(path, chosen, key)

    return make_once(tools.artifacts, path, key, make)


def weigh_models(
    tools: Tools, job: WeighJob, release: ArtifactRef, written: Sequence[Written]
) -> tuple[ArtifactRef, str]:
    """Write the weight of each language model (Eq. 8)."""
    path = f"runs/{tools.run_id}/iteration={job.iteration}/weights.parquet"
    choice_counts = tools.artifacts.info(release).get("choices") if job.weighting else None
    source: Source = "uniform" if not job.weighting else "histogram" if choice_counts is None else "choices"
    weighting = Weighting(source, job.transform, job.temperature)
    parameters: dict[str, object] = {"weighting": asdict(weighting), "previous": dict(job.previous)}
    smooth = job.smooth and source == "histogram"
    key = step_key("weigh_smoothed" if smooth else "weigh", parameters, {"release": release.sha256})

    def make() -> ArtifactRef:
        votes = tools.artifacts.read_table(release)
        if smooth:
            sigma = float(tools.artifacts.info(release)["sigma_int"])
            table = weigh_smoothly(votes, read_samples(tools, written), job.plms, weighting, sigma)
            return tools.artifacts.write_table(path, table, key)
        choices = dict(zip(tools.plms, choice_counts, strict=True)) if choice_counts is not None else None
        table = weigh(votes, read_writers(tools, written), job.plms, weighting, job.previous, choices)
        return tools.artifacts.write_table(path, table, key)

    return make_once(tools.artifacts, path, key, make)


def read_weights(tools: Tools, ref: ArtifactRef) -> Weights:
    """Return the weights of a weights table by language model."""
    table = tools.artifacts.read_table(ref)
    return dict(zip(table["plm"].tolist(), table["weight"].tolist(), strict=True))


def shares(total: int, weights: Weights, least_share: float) -> dict[str, int]:
    """Return the texts per model by largest remainder, at least `least_share` of an equal share."""
    return allocate(total, weights, least_share)
