"""Embedded n-gram language models: stubs that run without download, key or accelerator.

They exercise the pipeline in tests and offline. Their texts are rarely grammatical; use another connector for results.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, ClassVar

from connectors.interfaces.content_keys import canonical, digest
from connectors.interfaces.errors import ConfigError
from connectors.interfaces.models import Completion, Keep, ModelSpec, keep_nothing
from connectors.interfaces.prompts import Cloze, Prompt, Seeded
from connectors.models.ngram.counts import (
    END,
    Ngrams,
    detokenise,
    ends_sentence,
    lower_starts,
    tokenise,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction.text import TfidfVectorizer

VERSION = 3
"""Part of `identity`; raise it whenever the same prompt would get another completion."""

CORPORA = Path(__file__).parents[2] / "data" / "corpora"

LABEL_SHARE = 0.5
"""Share of the words drawn from the label's own model."""
GOOD_SHARE = 0.35
"""Share of the words drawn from the model of the good examples; the others divide the rest."""

TOPIC_TEXTS = 150
"""Number of texts from which a label is learned that the corpus does not have."""

OPENING_RATE = 0.75
"""Share of the texts that open with the words of a label that the corpus does not have."""

EXAMPLE_SETS = 128
"""Sets of good examples whose words and models are kept."""

MIN_WORDS = 8
"""Fewest words after which a text may end without the end of a sentence."""

OPENINGS = (
    "{}:",
    "I write because of {} and",
    "it is {} again:",
    "regarding {},",
    "what about {}?",
    "as for {},",
    "my question is about {}.",
    "I need help with {}.",
    "nobody told me about {}.",
)


class NgramModel:
    """A language model of word n-grams, trained on a small corpus on first use.

    It lets every pipeline run anywhere in seconds; it does not write well. It follows the label with a model of the
    label's own texts. For labels that the corpus does not have, it uses the texts that share words with label,
    attribute and description, and opens with the label's words. It moves towards good examples, redraws words (a
    `Cloze`), and opens a sentence with each phrase (a `Seeded`). The completion of a prompt does not depend on the
    batch.
    """

    model_type: ClassVar[object] = str

    def __init__(self, name: str, corpus: str = "helpdesk") -> None:
        self.name = name
        self._corpus = corpus
        names = sorted(file.stem for file in CORPORA.glob("*.parquet"))
        if corpus not in names:
            raise ConfigError(
                f"Model '{name}': no corpus '{corpus}'. Set model to one of {', '.join(names)}. "
                "The demo's voices are files of texts: recorded:builtin:recordings/NAME.parquet"
            )
        self._texts, self._labels, content = _read_corpus(corpus)
        self.identity = canonical({"connector": "ngram", "version": VERSION, "corpus": content})
        self._topics: dict[str, Ngrams] = {}

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
            text, finished = self._write(prompt, Random(prompt.stream_seed(self.identity)))
            reason = "stop"
            if not finished:
                reason = "length"
            tokens_in = len(prompt.text.split())
            completions.append(Completion(text, reason, tokens_in, tokens_out=len(text.split())))
            keep(position, completions[-1])
        return completions

    def _write(self, prompt: Prompt, rng: Random) -> tuple[str, bool]:
        """Return a text of at most the prompt's number of words, and True if it ended by itself."""
        models = self._models_of(prompt)
        most = max(1, prompt.max_tokens)
        if isinstance(prompt, Cloze):
            return detokenise(_redraw(_words(prompt.source), prompt, models, rng)), True
        words: list[str] = []
        if isinstance(prompt, Seeded):
            for phrase in prompt.phrases:
                words += _continue(_opening(phrase, rng), 0, models, rng)
        else:
            label = _plain(prompt.label)
            opening = list[str]()
            # The order of the draws is part of `identity`: a known label draws nothing here.
            if label not in ("", *self._labels) and rng.random() < OPENING_RATE:
                opening = _opening(label.replace("_", " "), rng)
            # As long as a random text; one word above the limit shows that the limit ended the text.
            enough = min(most + 1, len(rng.choice(_read(prompt.good) or self._words)))
            words = _continue(opening, enough, models, rng)
        return detokenise(words[:most]), len(words) <= most

    def _models_of(self, prompt: Prompt) -> list[tuple[Ngrams, float]]:
        """Return the models of all texts, of the label's or topic's, and of the good examples, with their shares."""
        topic = label = _plain(prompt.label)
        if label not in self._labels:
            topic = f"{label.replace('_', ' ')} {prompt.attribute} {prompt.description}"
        if topic not in self._topics:
            if topic in self._labels:
                texts = [
                    words
                    for words, owner in zip(self._words, self._labels, strict=True)
                    if owner == topic
                ]
            else:
                texts = self._resembling(topic)
            model = self._general
            if texts:
                model = Ngrams(texts)
            # Stored once it is complete: another thread may write with it at once.
            self._topics[topic] = model
        models = [(self._general, 1 - LABEL_SHARE), (self._topics[topic], LABEL_SHARE)]
        good = _model_of_examples(prompt.good)
        if good is not None:
            models = [(model, share * (1 - GOOD_SHARE)) for model, share in models]
            models.append((good, GOOD_SHARE))
        return models

    def _resembling(self, topic: str) -> list[list[str]]:
        """Return the texts that share the most significant words with a topic."""
        search, rows = self._search
        scores = (rows @ search.transform([topic]).T).toarray().ravel()
        best = (-scores).argsort(kind="stable")[:TOPIC_TEXTS]
        return [self._words[row] for row in best if scores[row] > 0]

    @cached_property
    def _words(self) -> list[list[str]]:
        return [_words(text) for text in self._texts]

    @cached_property
    def _general(self) -> Ngrams:
        return Ngrams(self._words)

    @cached_property
    def _search(self) -> tuple[TfidfVectorizer, csr_matrix]:
        from sklearn.feature_extraction.text import TfidfVectorizer

        search = TfidfVectorizer(stop_words="english")
        return search, search.fit_transform(self._texts)


def _draw(models: Sequence[tuple[Ngrams, float]], history: Sequence[str], rng: Random) -> str:
    """Draw a word from the mixture of models."""
    (model,) = rng.choices([model for model, _ in models], [share for _, share in models])
    return model.draw(history, rng)


def _opening(phrase: str, rng: Random) -> list[str]:
    return tokenise(rng.choice(OPENINGS).format(phrase))


def _continue(
    opening: list[str], enough: int, models: Sequence[tuple[Ngrams, float]], rng: Random
) -> list[str]:
    """Return an opening and further words until a sentence ends after `enough` words, or a text does."""
    # The models do not know the words of an opening, so they are no history of the first draws.
    words = opening
    drawn = list[str]()
    while len(words) < max(enough, 1) or not ends_sentence(words[-1]):
        word = _draw(models, drawn, rng)
        if word != END:
            drawn.append(word)
            words.append(word)
        elif len(words) >= MIN_WORDS:
            return words
        else:
            drawn = []
    return words


def _redraw(
    words: list[str], prompt: Cloze, models: Sequence[tuple[Ngrams, float]], rng: Random
) -> list[str]:
    """Redraw a share of the words, at least one, in each round; each depends on the words before it."""
    if not words:
        return words
    number = max(1, round(prompt.mask * len(words)))
    for _ in range(prompt.rounds):
        for position in rng.sample(range(len(words)), number):
            word = _draw(models, words[:position], rng)
            if word != END:
                words[position] = word
    return words


def _words(text: str) -> list[str]:
    return lower_starts(tokenise(text))


@lru_cache(EXAMPLE_SETS)
def _read(texts: tuple[str, ...]) -> tuple[list[str], ...]:
    """Return the words of the texts that have any."""
    return tuple(words for text in texts if (words := _words(text)))


@lru_cache(EXAMPLE_SETS)
def _model_of_examples(texts: tuple[str, ...]) -> Ngrams | None:
    """Return a model of examples, None if they have no words; many prompts show the same ones."""
    good = _read(texts)
    if not good:
        return None
    return Ngrams(good, order=3)


def _plain(label: str) -> str:
    """Return a label's lower-case words joined by underscores; inner capitals separate words."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", label.replace("_", " "))
    return "_".join(token.lower() for token in tokenise(spaced) if token[0].isalnum())


@lru_cache
def _read_corpus(corpus: str) -> tuple[list[str], list[str], str]:
    """Return texts, plain labels ('' if there is none) and a digest of both."""
    import pandas as pd

    table = pd.read_parquet(CORPORA / f"{corpus}.parquet")
    labels = [""] * len(table)
    if "label" in table:
        labels = table["label"].map(_plain).tolist()
    texts = table["text"].tolist()
    return texts, labels, digest(list(zip(texts, labels, strict=True)))
