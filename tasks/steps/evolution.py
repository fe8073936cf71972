"""Steps of private evolution: vectors that look ahead, and the survivors of a vote. Artifacts in, artifacts out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import pandas as pd

from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.content_keys import digest
from connectors.interfaces.embedding import Matrix
from tasks.core.refs import Written
from tasks.core.reuse import make_once, step_key
from tasks.core.tools import Tools
from tasks.selection.survivors import Survival, survivors
from tasks.steps.generate import ROW_TYPES
from tasks.steps.texts import content, read_samples, read_vectors

SURVIVORS = "survivors"
"""What stands in place of a PLM's name for texts of several that were kept."""


@dataclass(frozen=True, slots=True)
class SurviveJob:
    """Choose the texts of a population that live on by the release of `iteration`."""

    iteration: int
    survival: Survival


def look_ahead(tools: Tools, one: Written, ahead: Sequence[Written], with_own: bool) -> tuple[Written, str]:
    """Give every text of `one` the mean vector of its variations `ahead`; a text without any keeps its own.

    `with_own`: its own vector counts as one more. The result stands for election, it measures nothing.
    """
    if not ahead:
        return one, "nothing to vary"
    path = f"runs/{tools.run_id}/iteration={ahead[0].iteration}/{ahead[0].part}/mean.parquet"
    inputs = {"texts": content(_both(one)), "ahead": content([ref for some in ahead for ref in _both(some)])}
    key = step_key("average", {"with_own": with_own}, inputs)

    def make() -> ArtifactRef:
        means = _means(tools, one, ahead, with_own)
        return tools.artifacts.write_matrix(path, means, key)

    ref, why = make_once(tools.artifacts, path, key, make)
    # Texts, not vectors: those are the same on every machine, and a lost cache must find the same vote again.
    return replace(one, vectors=ref, stands_on=digest([with_own, *(some.samples.sha256 for some in ahead)])), why


def survive(tools: Tools, job: SurviveJob, release: ArtifactRef, population: Sequence[Written]) -> tuple[Written, str]:
    """Write the texts that live on, and their own vectors (not those that looked ahead)."""
    folder = f"runs/{tools.run_id}/iteration={job.iteration}"
    inputs = {"release": release.sha256, "texts": content([ref for one in population for ref in _both(one)])}
    key = step_key("survive", asdict(job.survival), inputs)

    def make() -> ArtifactRef:
        samples = read_samples(tools, population)
        sigma_int = float(tools.artifacts.info(release)["sigma_int"])
        kept = survivors(tools.artifacts.read_table(release), samples, job.survival, sigma_int)
        places = pd.Index(samples["sample_id"]).get_indexer(pd.Index(kept["sample_id"]))
        tools.artifacts.write_matrix(
            f"{folder}/survivors.vectors.parquet", read_vectors(tools, population)[places], key
        )
        return tools.artifacts.write_table(f"{folder}/survivors.parquet", kept, key)

    def stale(_: ArtifactRef) -> str:
        whole = tools.artifacts.find(f"{folder}/survivors.vectors.parquet", key)
        return "" if whole else "computed again because the survivors' vectors are not whole"

    ref, why = make_once(tools.artifacts, f"{folder}/survivors.parquet", key, make, stale)
    vectors = tools.artifacts.find(f"{folder}/survivors.vectors.parquet", key)
    return Written(SURVIVORS, job.iteration, ref, vectors), why


def union(tools: Tools, kept: Sequence[Written]) -> tuple[ArtifactRef, str]:
    """Write the survivors of several iterations as one selection, each text once (PrE-Text expands these)."""
    path = f"runs/{tools.run_id}/seeds.parquet"
    key = step_key("survive", {"union": True}, {"survivors": content([one.samples for one in kept])})

    def make() -> ArtifactRef:
        tables = [tools.artifacts.read_table(one.samples) for one in kept]
        seeds = pd.concat(tables, ignore_index=True).drop_duplicates("sample_id", keep="last")
        columns = [*ROW_TYPES, "kind", "rank", "score"]
        return tools.artifacts.write_table(path, seeds.sort_values("sample_id", ignore_index=True)[columns], key)

    return make_once(tools.artifacts, path, key, make)


def _both(one: Written) -> list[ArtifactRef]:
    return [ref for ref in (one.samples, one.vectors) if ref is not None]


def _means(tools: Tools, one: Written, ahead: Sequence[Written], with_own: bool) -> Matrix:
    assert one.vectors is not None
    own = tools.artifacts.read_matrix(one.vectors).astype(np.float64)
    ids = pd.Index(tools.artifacts.read_table(one.samples)["sample_id"])
    total, number = np.zeros_like(own), np.zeros(len(own))
    for some in ahead:
        assert some.vectors is not None
        places = ids.get_indexer(pd.Index(tools.artifacts.read_table(some.samples)["parent_id"]))
        np.add.at(total, places, tools.artifacts.read_matrix(some.vectors).astype(np.float64))
        np.add.at(number, places, 1)
    alone = (number == 0) | with_own
    total[alone] += own[alone]
    number[alone] += 1
    means: Matrix = (total / number[:, None]).astype(np.float32)
    return means
