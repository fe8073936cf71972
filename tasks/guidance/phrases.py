"""Steps of DP-KPS that post-process its two releases and cost no privacy: terms, sequences, texts of phrases."""

import json
from dataclasses import asdict
from operator import attrgetter

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.errors import InputError
from connectors.interfaces.models import Usage
from tasks.guidance.sequences import draw_sequences
from tasks.private.phrases.step import (
    DensitySpec,
    Terms,
    VocabularySpec,
    members,
    public_vocabulary,
)
from tasks.steps.allocation import per_class
from tasks.steps.reuse import make_once, step_key, table_once
from tasks.steps.step import step
from tasks.steps.tools import Tools
from tasks.steps.values import TextTable
from tasks.writing.generate import ROW_TYPES
from tasks.writing.keyphrase_prompts import read_sequences
from tasks.writing.prompts import seed_of
from tasks.writing.texts import embed_once
from tasks.writing.vocabulary import as_text


@step("choose terms", versions={"choose_terms": 1}, artifact=attrgetter("table"))
def choose_terms(tools: Tools, spec: VocabularySpec, release: ArtifactRef) -> tuple[Terms, str]:
    """Select the terms with the highest noisy counts and embed them."""
    path = f"runs/{tools.run_id}/vocabulary/terms.parquet"
    parameters: dict[str, object] = {"kept": spec.kept, "threshold": spec.threshold}
    # Left out at 0: an added value would change the keys of earlier runs.
    if spec.at_least:
        parameters["at_least"] = spec.at_least
    key = step_key("choose_terms", parameters, {"release": release.sha256})
    table, why = table_once(tools.artifacts, path, key, lambda: _chosen(tools, spec, release))
    return Terms(table, _vectors(tools, table)), why


@step("draw sequences", versions={"draw_phrases": 1})
def draw_phrases(
    tools: Tools, spec: DensitySpec, terms: Terms, density: ArtifactRef
) -> tuple[ArtifactRef, str]:
    """Draw sequences of phrases per class and write sequences.parquet."""
    path = f"runs/{tools.run_id}/sequences.parquet"
    parameters: dict[str, object] = {
        "shape": spec.shape.parameters,
        "choice": asdict(spec.choice),
        "count": spec.count,
    }
    parameters |= {
        "labels": list(spec.labels),
        "seed": spec.seed,
        "embedder": tools.term_embedder.identity,
    }
    key = step_key(
        "draw_phrases", parameters, {"terms": terms.table.sha256, "density": density.sha256}
    )

    def table() -> pd.DataFrame:
        flat = (
            tools.artifacts.read_table(density)["sum"].to_numpy()
            / tools.artifacts.info(density)["steps"]
        )
        sums = flat.reshape(len(spec.labels), -1).astype(np.float64)
        rng = np.random.default_rng(seed_of("sequences", spec.seed))
        drawn = draw_sequences(
            spec.shape, members(tools, spec, terms), sums, spec.count, spec.choice, rng
        )
        return _table(tools, spec, terms, drawn)

    return table_once(tools.artifacts, path, key, table)


def _chosen(tools: Tools, spec: VocabularySpec, release: ArtifactRef) -> pd.DataFrame:
    vocabulary = public_vocabulary(tools, spec.where)
    info = tools.artifacts.info(release)
    counts = tools.artifacts.read_table(release)["sum"].to_numpy() / info["steps"]
    least = spec.threshold * spec.noise.scale
    best = np.argsort(-counts, kind="stable")[: spec.kept]
    # Without a threshold a negative count may be among the best; 0 as a threshold would exclude it.
    if spec.threshold:
        reached = int((counts[best] >= least).sum())
        best = best[: max(reached, spec.at_least)]
    if not len(best):
        raise InputError(
            f"method.threshold: no term of the vocabulary reached {least:.1f} documents (threshold x noise). Lower it "
            "or use a vocabulary that fits the texts. The release is charged."
        )
    terms = [vocabulary.terms[number] for number in best]
    return pd.DataFrame({"number": best, "term": terms, "count": counts[best]})


def _vectors(tools: Tools, table: ArtifactRef) -> ArtifactRef:
    key = step_key("embed", {"embedder": tools.term_embedder.identity}, {"terms": table.sha256})
    target = f"embeddings/terms/{key.key[:32]}.parquet", key

    def terms() -> list[str]:
        return tools.artifacts.read_table(table)["term"].tolist()

    return embed_once(tools, tools.term_embedder, terms, target, "embed terms")[0]


def _table(tools: Tools, spec: DensitySpec, terms: Terms, drawn: NDArray[np.int64]) -> pd.DataFrame:
    words = tools.artifacts.read_table(terms.table)["term"].tolist()
    phrases = [json.dumps([words[number] for number in row], ensure_ascii=False) for row in drawn]
    labels = np.repeat(np.array(spec.labels, dtype=object), spec.count)
    return pd.DataFrame({"sequence_id": range(len(phrases)), "label": labels, "phrases": phrases})


WRITER = "phrases"
"""Value of the language model column for these texts."""


@step("phrases as texts", versions={"phrases": 1}, artifact=attrgetter("samples"))
def phrases_as_texts(
    tools: Tools, sequences: ArtifactRef, labels: tuple[str, ...], count: int
) -> tuple[TextTable, str]:
    """Write `count` sequences, balanced, as texts of iteration 0, without duplicates in a class."""
    path = f"runs/{tools.run_id}/iteration=0/plm={WRITER}/samples.parquet"
    key = step_key(
        "phrases", {"labels": list(labels), "count": count}, {"sequences": sequences.sha256}
    )

    def make() -> ArtifactRef:
        counts = per_class(count, labels)
        # Equal sequences of a class are one text, so some may be missing; they are recorded, not filled up.
        table = _table_phrase(tools, sequences, counts)
        missing = {
            label: count - int((table["label"] == label).sum()) for label, count in counts.items()
        }
        info = {"usage": asdict(Usage()), "failures": {}, "down": ""}
        info["shortfall"] = {label: count for label, count in missing.items() if count}
        return tools.artifacts.write_table(path, table, key, info)

    ref, why = make_once(tools.artifacts, path, key, make)
    return TextTable(WRITER, 0, ref), why


def _table_phrase(tools: Tools, sequences: ArtifactRef, counts: dict[str, int]) -> pd.DataFrame:
    drawn = read_sequences(tools.artifacts.read_table(sequences))
    rows = [
        {
            "text": text,
            "label": label,
            "attribute": "",
            "plm": WRITER,
            "iteration": 0,
            "prompt_key": "",
        }
        for label, count in counts.items()
        for text in dict.fromkeys(as_text(phrases) for phrases in drawn[label][:count])
    ]
    defaults = {"finish_reason": "stop", "tokens_in": 0, "tokens_out": 0}
    numbered = [{"sample_id": number, **row, **defaults} for number, row in enumerate(rows)]
    return pd.DataFrame(numbered, columns=list(ROW_TYPES)).astype(ROW_TYPES)
