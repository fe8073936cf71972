"""Steps of private evolution: lookahead vectors and the survivors of a vote."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from operator import attrgetter

import numpy as np
import pandas as pd

from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.content_keys import digest
from connectors.interfaces.embedding import Matrix
from tasks.guidance.survivors import Survival, survivors
from tasks.steps.reuse import make_once, step_key, table_once
from tasks.steps.step import step
from tasks.steps.tools import Tools
from tasks.steps.values import TextTable
from tasks.writing.generate import ROW_TYPES
from tasks.writing.texts import content, read_samples, read_vectors

SURVIVORS = "survivors"
"""Name in place of a language model for survivors, which mix texts of several models."""


@step(
    "look ahead {texts.plm} {texts.part}", versions={"average": 1}, artifact=attrgetter("vectors")
)
def look_ahead(tools: Tools, texts: TextTable, ahead: Sequence[TextTable]) -> tuple[TextTable, str]:
    """Replace each text's vector by the mean vector of its variations `ahead`.

    A text without variations keeps its vector. The result is only for voting, not for measurements.
    """
    if not ahead:
        return texts, "nothing to vary"
    path = f"runs/{tools.run_id}/iteration={ahead[0].iteration}/{ahead[0].part}/mean.parquet"
    inputs = {
        "texts": content(texts.tables),
        "ahead": content([ref for variations in ahead for ref in variations.tables]),
    }
    # `with_own` was a setting once.
    key = step_key("average", {"with_own": False}, inputs)

    ref, why = make_once(
        tools.artifacts,
        path,
        key,
        lambda: tools.artifacts.write_matrix(path, _means(tools, texts, ahead), key),
    )
    # Hash texts, not vectors: texts are equal on every machine, and a run without its cache must find the same vote.
    return replace(
        texts,
        vectors=ref,
        vector_inputs=digest([False, *(variations.samples.sha256 for variations in ahead)]),
    ), why


@step("survive t={iteration}", versions={"survive": 1}, artifact=attrgetter("samples"))
def survive(
    tools: Tools,
    iteration: int,
    survival: Survival,
    release: ArtifactRef,
    population: Sequence[TextTable],
) -> tuple[TextTable, str]:
    """Write the surviving texts with their own vectors (not the lookahead means)."""
    folder = f"runs/{tools.run_id}/iteration={iteration}"
    inputs = {
        "release": release.sha256,
        "texts": content([ref for entry in population for ref in entry.tables]),
    }
    key = step_key("survive", asdict(survival), inputs)

    def make() -> ArtifactRef:
        samples = read_samples(tools, population)
        sigma_int = float(tools.artifacts.info(release)["sigma_int"])
        chosen = survivors(tools.artifacts.read_table(release), samples, survival, sigma_int)
        indices = pd.Index(samples["sample_id"]).get_indexer(pd.Index(chosen["sample_id"]))
        tools.artifacts.write_matrix(
            f"{folder}/survivors.vectors.parquet", read_vectors(tools, population, indices), key
        )
        return tools.artifacts.write_table(f"{folder}/survivors.parquet", chosen, key)

    def stale(_: ArtifactRef) -> str:
        vectors = tools.artifacts.find(f"{folder}/survivors.vectors.parquet", key)
        if vectors is None:
            return "recomputed because the survivors' vectors are incomplete"
        return ""

    ref, why = make_once(tools.artifacts, f"{folder}/survivors.parquet", key, make, stale)
    vectors = tools.artifacts.find(f"{folder}/survivors.vectors.parquet", key)
    return TextTable(SURVIVORS, iteration, ref, vectors), why


@step("unite survivors")
def unite(tools: Tools, entries: Sequence[TextTable]) -> tuple[ArtifactRef, str]:
    """Write the distinct survivors of several iterations for PrE-Text to expand."""
    path = f"runs/{tools.run_id}/seeds.parquet"
    key = step_key(
        "survive", {"union": True}, {"survivors": content([entry.samples for entry in entries])}
    )

    def seeds() -> pd.DataFrame:
        tables = [tools.artifacts.read_table(entry.samples) for entry in entries]
        # A text that survived several iterations keeps its rank of the last one.
        distinct = pd.concat(tables, ignore_index=True).drop_duplicates("sample_id", keep="last")
        return distinct.sort_values("sample_id", ignore_index=True)[
            [*ROW_TYPES, "kind", "rank", "score"]
        ]

    return table_once(tools.artifacts, path, key, seeds)


def _means(tools: Tools, texts: TextTable, ahead: Sequence[TextTable]) -> Matrix:
    assert texts.vectors is not None
    own = tools.artifacts.read_matrix(texts.vectors).astype(np.float64)
    ids = pd.Index(tools.artifacts.read_table(texts.samples)["sample_id"])
    total = np.zeros_like(own)
    number = np.zeros(len(own))
    for variations in ahead:
        assert variations.vectors is not None
        indices = ids.get_indexer(
            pd.Index(tools.artifacts.read_table(variations.samples)["parent_id"])
        )
        # add.at, because a text has several variations.
        np.add.at(
            total, indices, tools.artifacts.read_matrix(variations.vectors).astype(np.float64)
        )
        np.add.at(number, indices, 1)
    alone = number == 0
    total[alone] += own[alone]
    number[alone] += 1
    means: Matrix = (total / number[:, None]).astype(np.float32)
    return means
