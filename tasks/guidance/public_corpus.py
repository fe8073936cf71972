"""Step that turns public texts of a similar domain into texts of a run, classified by a released density.

It opens no private record: the classes are those of the nearest released class means, hence post-processing at no
further charge. Every public text joins, whatever the records are: a choice by records would reveal them.
"""

from collections.abc import Sequence
from operator import attrgetter

import numpy as np
import pandas as pd

from connectors.interfaces.artifacts import ArtifactRef
from tasks.guidance.density import class_means, cosine_to_release
from tasks.steps.reuse import make_once, step_key
from tasks.steps.step import step
from tasks.steps.tools import Tools
from tasks.steps.values import Reference, TextTable
from tasks.students.training_set import NO_MODEL
from tasks.writing.cleaning import normalised
from tasks.writing.generate import ROW_TYPES
from tasks.writing.texts import content, read_samples, read_vectors, reference_rows


@step("label public corpus", versions={"public_corpus": 0}, artifact=attrgetter("samples"))
def label_corpus(
    tools: Tools, corpus: Reference, density: ArtifactRef, written: Sequence[TextTable]
) -> tuple[TextTable, str]:
    """Write the different texts of a corpus with their vectors; their numbers follow those of `written`.

    `label`: the class of the nearest mean of `density`. The artifact's info has `nearness`: the cosine of the mean
    vector to that of the release, of the corpus and of `written` (measured in docs/results/public_corpus.md).
    """
    folder = f"runs/{tools.run_id}/public_corpus"
    parameters: dict[str, object] = {"corpus": corpus.content, "density": density.sha256}
    parameters["embedder"] = tools.embedder.identity
    key = step_key(
        "public_corpus", parameters, {"samples": content([entry.samples for entry in written])}
    )
    places = (f"{folder}/samples.parquet", f"{folder}/vectors.parquet")
    last = max(entry.iteration for entry in written)

    def make() -> ArtifactRef:
        frame, every = reference_rows(tools, corpus)
        is_first = ~frame["text"].map(normalised).duplicated().to_numpy()
        vectors = np.asarray(every)[is_first]
        texts = frame["text"][is_first].tolist()
        labels = class_means(tools.artifacts, density).nearest(vectors)
        before = int(read_samples(tools, written, ["sample_id"])["sample_id"].max())
        rows = _as_samples(texts, labels.tolist(), before + 1, last)
        groups = (vectors, read_vectors(tools, written))
        nearness = [cosine_to_release(tools.artifacts, density, group) for group in groups]
        tools.artifacts.write_matrix(places[1], vectors, key)
        return tools.artifacts.write_table(places[0], rows, key, {"nearness": nearness})

    def stale(_: ArtifactRef) -> str:
        if tools.artifacts.find(places[1], key):
            return ""
        return "recomputed because its vectors are missing"

    samples, why = make_once(tools.artifacts, places[0], key, make, stale)
    return TextTable(NO_MODEL, last, samples, tools.artifacts.find(places[1], key)), why


def _as_samples(
    texts: Sequence[str], labels: Sequence[str], first: int, iteration: int
) -> pd.DataFrame:
    """Return texts as the table of a model that wrote them, with numbers from `first` on."""
    rows = pd.DataFrame({"sample_id": range(first, first + len(texts)), "text": texts})
    rows = rows.assign(label=labels, plm=NO_MODEL, iteration=iteration, tokens_in=0, tokens_out=0)
    rows = rows.assign(attribute="", prompt_key="", finish_reason="")
    return rows[list(ROW_TYPES)].astype(ROW_TYPES)
