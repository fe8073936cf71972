"""Step that finds words of which the classes of the private records are, for prompts that have no name to tell.

A number or a code ("queue_3") tells a language model nothing about its class, but the released mean of the class does:
the words nearest to it are its topic. The words are those that language models have written, and the release chooses
among them: post-processing, without further budget, and no word of a record.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from connectors.interfaces.artifacts import ArtifactRef
from tasks.guidance.density import ClassMeans, class_means
from tasks.private.density.features import body, features_of
from tasks.steps.reuse import step_key, table_once
from tasks.steps.step import step
from tasks.steps.tools import Tools
from tasks.steps.values import TextTable
from tasks.writing.texts import content, embed_once, read_samples

WORDS = 24
"""Words of a class (measured in docs/results/guidance_auto.md)."""

AT_LEAST = 2
"""Texts that contain a word: a word of one text is often misspelt."""

WORD = r"[^\W\d_]{4,}"
"""A word that can be a topic: at least four letters, which leaves out most words without content."""

Floats = NDArray[np.float64]


@step("find topics", versions={"topics": 0})
def find_topics(
    tools: Tools, density: ArtifactRef, written: Sequence[TextTable]
) -> tuple[ArtifactRef, str]:
    """Write topics/words.parquet: for each class (label) the words (term) of `written` nearest to its released mean.

    Best word first; no row if the texts repeat no word.
    """
    path = topics_path(tools.run_id)
    parameters: dict[str, object] = {"words": WORDS, "embedder": tools.embedder.identity}
    inputs = {"density": density.sha256}
    inputs["samples"] = content([entry.samples for entry in written])
    key = step_key("topics", parameters, inputs)

    def topics() -> pd.DataFrame:
        texts = read_samples(tools, written, ["sample_id", "text"])["text"].tolist()
        words = words_of(texts)
        means = class_means(tools.artifacts, density)
        if not words:
            return pd.DataFrame({"label": [], "term": []}, dtype="str")
        target = f"runs/{tools.run_id}/topics/vectors.parquet", key
        vectors, _ = embed_once(tools, tools.embedder, lambda: words, target, "embed words")
        return nearest_words(words, np.asarray(tools.artifacts.read_matrix(vectors)), means)

    return table_once(tools.artifacts, path, key, topics)


def topics_path(run_id: str) -> str:
    """Return the path of a run's topics, relative to the state folder."""
    return f"runs/{run_id}/topics/words.parquet"


def words_of(texts: Sequence[str]) -> list[str]:
    """Return the different words of texts in alphabetical order, in lower case."""
    from sklearn.feature_extraction.text import CountVectorizer

    reader = CountVectorizer(token_pattern=WORD, binary=True)
    try:
        counts = np.asarray(reader.fit_transform(texts).sum(axis=0)).ravel()
    except ValueError:
        # No text has a word.
        return []
    names = reader.get_feature_names_out()
    return [str(word) for word in names[counts >= AT_LEAST]]


def nearest_words(
    words: Sequence[str], vectors: NDArray[np.float32], means: ClassMeans
) -> pd.DataFrame:
    """Return the `WORDS` words with the largest cosines to the mean of each class: label, term; best first.

    `vectors` (words, dimension). Words and means are centred: what all words, or all classes, have in common is no
    topic of one class.
    """
    points = body(features_of(vectors))
    scores = _directions(points) @ _directions(means.means).T
    parts = []
    for number, label in enumerate(means.labels):
        best = np.argsort(-scores[:, number], kind="stable")[:WORDS]
        parts.append(pd.DataFrame({"label": label, "term": [words[index] for index in best]}))
    return pd.concat(parts, ignore_index=True)


def _directions(rows: Floats) -> Floats:
    centred = rows - rows.mean(axis=0)
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    return np.asarray(centred / np.maximum(lengths, 1e-12))
