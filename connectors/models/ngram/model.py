"""Embedded n-gram language models: stubs that run without download, key or accelerator.

They exercise the pipeline in tests and offline. Their texts are rarely grammatical; use another connector for results.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from connectors.interfaces.content_keys import canonical, digest
from connectors.interfaces.errors import ConfigError
from connectors.interfaces.models import Completion, Keep, ModelSpec, keep_nothing
from connectors.interfaces.prompts import Cloze, Prompt, Seeded
from connectors.models.ngram.counts import Ngrams, Vocabulary
from connectors.models.ngram.tokens import lower_starts, tokenise
from connectors.models.ngram.writer import Voice, Writer, fill

VERSION = 2
"""Part of `identity`; raise it whenever the same prompt would get another completion."""

CORPORA = Path(__file__).parents[2] / "data" / "corpora"

LABEL_SHARE = 0.7
"""Share of the label's own model; of a label that the corpus does not have, at most."""

TOPIC_TEXTS = 150
"""Number of texts from which a label is learned that the corpus does not have."""

RELATED = {
    "positive": "good great excellent wonderful brilliant loved perfect recommend enjoyed",
    "negative": "bad terrible boring awful worst poor disappointing weak avoid",
    "accept": "good excellent strong convincing fresh",
    "reject": "weak poor unclear disappointing wrong",
}
"""Words that belong to a label and are not in its name."""


class NgramModel:
    """A language model of word n-grams, trained on a small corpus on first use.

    It lets every pipeline run anywhere in seconds; it does not write well. It follows the label with a model of the
    label's own texts. For labels that the corpus does not have, it uses the texts that share words with label,
    attribute and description, and puts the label's words into the text. It moves towards good and away from bad
    examples, fills masks (a `Cloze`) and weaves phrases in (a `Seeded`); see `writer`. The completion of a prompt does
    not depend on the batch.
    """

    def __init__(self, name: str, corpus: str = "helpdesk") -> None:
        self.name, self._corpus = name, corpus
        names = sorted(file.stem for file in CORPORA.glob("*.parquet"))
        if corpus not in names:
            raise ConfigError(f"Model '{name}': no corpus '{corpus}'. Set model to one of {', '.join(names)}.")
        self._texts, self._labels, content = _read_corpus(corpus)
        self.identity = canonical({"connector": "ngram", "version": VERSION, "corpus": content})

    @cached_property
    def _learned(self) -> _Learned:
        """The trained model; a plan or a finished run never needs training."""
        return _Learned(self._texts, self._labels)

    @classmethod
    def from_spec(cls, spec: ModelSpec) -> NgramModel:
        """Open the model of a configuration; ConfigError for an unknown corpus or options."""
        if spec.options:
            raise ConfigError(
                f"Model '{spec.name}': the ngram connector has no options ({', '.join(spec.options)}). Remove "
                "them; the field model names the corpus."
            )
        return cls(spec.name, spec.model or "helpdesk")

    def __reduce__(self) -> tuple[type[NgramModel], tuple[str, str]]:
        # Training again is faster than sending the tables to another process.
        return NgramModel, (self.name, self._corpus)

    def complete(self, prompts: Sequence[Prompt], keep: Keep = keep_nothing) -> list[Completion]:
        """Write one text per prompt, in order; pass each to `keep`. Tokens are words."""
        completions = []
        for position, prompt in enumerate(prompts):
            completion = self._complete_one(prompt)
            keep(position, completion)
            completions.append(completion)
        return completions

    def _complete_one(self, prompt: Prompt) -> Completion:
        rng = np.random.default_rng(prompt.stream_seed(self.identity))
        voice = self._learned.voice(prompt)
        if isinstance(prompt, Cloze):
            text, finished = fill(voice, _words(prompt.source), prompt.mask, prompt.rounds, rng), True
        else:
            good, bad = ([words for text in side if (words := _words(text))] for side in (prompt.good, prompt.bad))
            most = max(1, prompt.max_tokens)
            if isinstance(prompt, Seeded):
                text, finished = Writer(voice, rng, good, seeds=prompt.phrases).weave(most)
            else:
                text, finished = Writer(voice, rng, good, bad).write(most)
        reason = "stop" if finished else "length"
        return Completion(text, reason, tokens_in=len(prompt.text.split()), tokens_out=len(text.split()))


class _Learned:
    """Models of all texts of a corpus and of each label; models of other labels are trained on demand."""

    def __init__(self, texts: Sequence[str], labels: Sequence[str]) -> None:
        words = [_words(text) for text in texts]
        vocabulary = Vocabulary()
        self._raw, self._texts = texts, [vocabulary.ids(text) for text in words]
        general, back = Ngrams(self._texts), Ngrams([text[::-1] for text in self._texts], order=2)
        self._shared = (vocabulary, general, back, [len(text) for text in words])
        self._own = {
            label: Ngrams(text for text, owner in zip(self._texts, labels, strict=True) if owner == label)
            for label in sorted(set(labels) - {""})
        }
        self._topics: dict[tuple[str, ...], tuple[Ngrams | None, float]] = {}
        self._search: tuple[Any, Any] | None = None

    def voice(self, prompt: Prompt) -> Voice:
        """Return the models that write for a prompt."""
        label = _plain(prompt.label)
        if label in self._own:
            return Voice(*self._shared, self._own[label], LABEL_SHARE)
        words = label.split("_") if label else []
        more = [other for word in words for other in RELATED.get(word, "").split()]
        key = (*words, *more, prompt.attribute, prompt.description)
        if key not in self._topics:
            self._topics[key] = self._learn_topic(" ".join(key))
        special, share = self._topics[key]
        phrases = [words, *([word] for word in [*words, *more])] if words else []
        return Voice(*self._shared, special, share, phrases)

    def _learn_topic(self, topic: str) -> tuple[Ngrams | None, float]:
        """Return a model of the texts that resemble a topic, better ones counted more often, and its share."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        if self._search is None:
            search = TfidfVectorizer(stop_words="english")
            self._search = search, search.fit_transform(self._raw)
        search, rows = self._search
        scores = (rows @ search.transform([topic]).T).toarray().ravel()
        best = [int(row) for row in np.argsort(-scores, kind="stable")[:TOPIC_TEXTS] if scores[row] > 0]
        if not best:
            return None, 0.0
        repeats = [1 + round(3 * scores[row] / scores[best[0]]) for row in best]
        texts = [self._texts[row] for row, times in zip(best, repeats, strict=True) for _ in range(times)]
        return Ngrams(texts), LABEL_SHARE * min(1.0, len(best) / 40)


def _words(text: str) -> list[str]:
    return lower_starts(tokenise(text))


def _plain(label: str) -> str:
    """Return a label's lower-case words joined by underscores; inner capitals separate words."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", label.replace("_", " "))
    return "_".join(token.lower() for token in tokenise(spaced) if token[0].isalnum())


@lru_cache
def _read_corpus(corpus: str) -> tuple[list[str], list[str], str]:
    """Return texts, plain labels ('' if there is none) and a digest of both."""
    import pandas as pd

    table = pd.read_parquet(CORPORA / f"{corpus}.parquet")
    labels = table["label"].map(_plain).tolist() if "label" in table else [""] * len(table)
    texts = table["text"].tolist()
    return texts, labels, digest(list(zip(texts, labels, strict=True)))
