"""Step that finds words of which the classes of the private records are, for prompts that have no name to tell.

A number or a code ("queue_3") means nothing to a language model, but the released mean of the class does:
the frequent words of the language that are nearest to it are its topic. This is post-processing of the release, without
further budget, and no word of a record is read.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.content_keys import digest
from tasks.guidance.density import ClassMeans, class_means
from tasks.guidance.matching import TINY
from tasks.private.density.features import body, features_of
from tasks.steps.reuse import step_key, table_once
from tasks.steps.step import step
from tasks.steps.tools import Tools
from tasks.writing.texts import embed_once

FREQUENT = 20_000
"""Terms of a language that are searched, the most frequent ones (measured in docs/results/guidance_auto.md)."""

WORDS = 24
"""Terms of a class (measured in docs/results/guidance_auto.md)."""

LEAST_CLASSES = 6
"""Classes from which on topics help (docs/results/guidance_auto.md): means of a few differ in too few directions."""

CASED_LETTERS, OTHER_LETTERS = 4, 2
"""Least length of a word, which leaves out most words without content: of an alphabet with capital letters, and else.

Arabic, Hebrew and Devanagari write few vowels as letters, Hangul and Chinese a syllable as one.
"""

NEAR_LANGUAGES = 9
"""Largest distance of a language whose list is taken instead, by langcodes: Bosnian is 9 from Serbo-Croatian."""

Floats = NDArray[np.float64]


@step("find topics", versions={"topics": 0})
def find_topics(tools: Tools, density: ArtifactRef, language: str) -> tuple[ArtifactRef, str]:
    """Write topics.parquet: for each class (label) the terms nearest to its released mean, best word first.

    `language`: code of one for which `has_words` is True.
    """
    parameters: dict[str, object] = {
        "words": WORDS,
        "frequent": FREQUENT,
        "language": language,
        "embedder": tools.embedder.identity,
    }
    key = step_key("topics", parameters, {"density": density.sha256})

    def topics() -> pd.DataFrame:
        words = frequent_words(language)
        vectors = np.asarray(tools.artifacts.read_matrix(_vectors(tools, words)))
        return nearest_words(words, vectors, class_means(tools.artifacts, density))

    return table_once(tools.artifacts, topics_path(tools.run_id), key, topics)


def _vectors(tools: Tools, words: list[str]) -> ArtifactRef:
    key = step_key("embed", {"embedder": tools.embedder.identity}, {"words": digest(words)})
    # All runs of a state folder share them: they depend on the language and the encoder alone.
    target = f"embeddings/words/{key.key[:32]}.parquet", key
    return embed_once(tools, tools.embedder, lambda: words, target, "embed words")[0]


def topics_path(run_id: str) -> str:
    """Return the path of a run's topics, relative to the state folder."""
    return f"runs/{run_id}/topics.parquet"


def has_words(language: str) -> bool:
    """Return True if frequent terms of a language, a code of ISO 639-1, are known."""
    return bool(_list_of(language))


def frequent_words(language: str) -> list[str]:
    """Return frequent terms of a language that can be a topic, most frequent first; LookupError without a list."""
    import wordfreq

    # Of a language without a list, the library returns that of another one.
    name = _list_of(language)
    if not name:
        raise LookupError(f"no list of terms of the language '{language}'")
    words = wordfreq.top_n_list(name, FREQUENT)
    return [word for word in words if _can_be_topic(word)]


def _list_of(language: str) -> str:
    import langcodes
    import wordfreq

    known = list(wordfreq.available_languages())
    name, _ = langcodes.closest_match(language, known, max_distance=NEAR_LANGUAGES)
    return name if name in known else ""


def _can_be_topic(word: str) -> bool:
    least = CASED_LETTERS if word.upper() != word.lower() else OTHER_LETTERS
    return len(word) >= least and not any(letter.isdigit() for letter in word)


def nearest_words(
    words: Sequence[str], vectors: NDArray[np.float32], means: ClassMeans
) -> pd.DataFrame:
    """Return the `WORDS` words with the largest cosines to the mean of each class: label, term; best first.

    `vectors` (words, dimension). Terms and means are centred: what all of them, or all classes, have in common is no
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
    return np.asarray(centred / np.maximum(lengths, TINY))
