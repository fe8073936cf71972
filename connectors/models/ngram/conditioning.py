"""Conditioning of an n-gram model on a prompt: label words, topic texts, examples."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from connectors.interfaces.prompts import Prompt
from connectors.models.ngram.kneser_ney import END_ID, Ids, KneserNey, Vector
from connectors.models.ngram.tokens import tokenise

TOPIC_TEXTS = 150
COPY_LENGTH = 8
_MIX = {1: 0.15, 2: 0.3, 3: 0.55}

_STOP_TEXT = (
    "a about after all also an and any are as at be because been but by can could do does each for from had has have "
    "he her his how i if in into is it its me more my no not of on one or our out over please said say she so some "
    "text texts than that the their them there they this to two up us was we were what when where which who why will "
    "with would write writes written you your class label category item new sentence short example"
)
_STOP = frozenset(_STOP_TEXT.split())
_RELATED = {
    "positive": ("good", "great", "excellent", "wonderful", "brilliant", "loved", "perfect", "recommend", "enjoyed"),
    "negative": ("bad", "terrible", "boring", "awful", "worst", "poor", "disappointing", "weak", "avoid"),
    "accept": ("good", "excellent", "strong", "convincing", "fresh"),
    "reject": ("weak", "poor", "unclear", "disappointing", "wrong"),
}
OPENINGS = (
    "{words}:",
    "my question is about {words}.",
    "this is about {words}.",
    "I write because of {words} and",
    "it is {words} again:",
    "regarding {words},",
    "on {words},",
    "is this {words}?",
    "a word on {words}:",
    "I need help with {words}.",
    "what about {words}?",
    "{words} is the matter here,",
    "today it was {words},",
    "as for {words},",
    "nobody told me about {words}.",
    "when it comes to {words},",
    "they call it {words} and",
    "another case of {words}:",
)
LEADS = frozenset(("the", "my", "a", "this", "your", "about", "with", "of", "for", "our"))
"""Words that a label phrase can follow."""


def words_in(text: str) -> list[str]:
    """Return the lower-case words of a label or description.

    Underscores and inner capitals separate words.
    """
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text.replace("_", " "))
    return [token.lower() for token in tokenise(spaced) if token[0].isalnum()]


def stem(word: str) -> str:
    """Remove common English endings, so 'cancelled' and 'cancel' match; crude."""
    word = word.lower()
    for ending in ("ations", "ation", "ings", "ing", "ies", "'s", "ers", "er", "ed", "es", "s", "y", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    return word[:-1] if len(word) > 4 and word[-1] == word[-2] else word


@dataclass(frozen=True, slots=True)
class Topic:
    """The topic of a prompt: phrases to use, and weighted stems to search for."""

    phrases: tuple[tuple[str, ...], ...]
    stems: dict[str, float]

    @classmethod
    def of(cls, prompt: Prompt) -> Topic:
        """Read label, attribute and description.

        Label words have weight 2, attribute words 1, description words 0.5.
        """
        label = words_in(prompt.label)
        content_words = [word for word in label if word not in _STOP] or label
        related = [other for word in label for other in _RELATED.get(word, ())]
        stems: dict[str, float] = defaultdict(float)
        for words, weight in (
            (words_in(prompt.description), 0.5),
            (words_in(prompt.attribute), 1.0),
            (related, 2.0),
            (content_words, 2.0),
        ):
            for word in words:
                if word not in _STOP:
                    stems[stem(word)] = max(stems[stem(word)], weight)
        runs = [tuple(label)] if 0 < len(label) <= 4 else []
        runs += [(word,) for word in content_words] + [(first, second) for first, second in pairwise(content_words)]
        return cls(tuple(runs + [(word,) for word in related]), dict(stems))


class TopicIndex:
    """Finds the texts of a corpus that share words with a topic.

    Rare shared words count more.
    """

    def __init__(self, texts: Sequence[Sequence[str]]) -> None:
        self._texts = texts
        self._positions: dict[str, list[int]] = defaultdict(list)
        stems = {word: stem(word) for text in texts for word in text if word[0].isalnum() and word not in _STOP}
        for position, text in enumerate(texts):
            for text_stem in {stems[word] for word in text if word in stems}:
                self._positions[text_stem].append(position)

    def find(self, topic: Topic) -> list[tuple[int, float]]:
        """Return up to TOPIC_TEXTS pairs (position, score), best first, ties by position.

        The score is a sum of idf weights.
        """
        scores: dict[int, float] = defaultdict(float)
        for topic_stem, weight in sorted(topic.stems.items()):
            positions = self._positions.get(topic_stem, [])
            for position in positions:
                scores[position] += weight * math.log(1 + len(self._texts) / len(positions))
        ranked = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
        return ranked[:TOPIC_TEXTS]

    def learn(self, topic: Topic, general: KneserNey) -> tuple[KneserNey | None, float]:
        """Return a model of the texts on the topic, weighted by match, and its trust."""
        matches = self.find(topic)
        if not matches:
            return None, 0.0
        best = matches[0][1]
        weights = [1 + round(3 * score / best) for _, score in matches]
        texts = [self._texts[position] for position, _ in matches]
        model = KneserNey(texts, general.order, 0.75, weights, general.vocabulary)
        return model, min(1.0, len(matches) / 40)


class ExampleCache:
    """n-gram counts of a few examples, up to three words.

    p(w|h) = sum over n of m_n c(h_n w) / c(h_n), where the shares m_n (0.55, 0.3, 0.15 from long to short) are
    normalised over the lengths whose context occurs.
    """

    def __init__(self, examples: Sequence[Sequence[int]], start: tuple[int, ...]) -> None:
        self._followers: dict[tuple[int, ...], list[int]] = defaultdict(list)
        self._table: dict[tuple[int, ...], tuple[Ids, Vector]] = {}
        for example in examples:
            padded = (*start[:2], *example, END_ID)
            first = len(start[:2])
            for position in range(first, len(padded)):
                for length in _MIX:
                    if length - 1 <= position:
                        self._followers[padded[position - length + 1 : position]].append(padded[position])

    def spread(self, history: Sequence[int], weight: float, out: Vector) -> None:
        """Add weight * p(.|history) to `out`."""
        hits = [
            (share, context)
            for length, share in _MIX.items()
            if (context := tuple(history[len(history) - length + 1 :])) in self._followers
        ]
        total = sum(share for share, _ in hits)
        for share, context in hits:
            words, masses = self._shares(context)
            out[words] += weight * share / total * masses

    def _shares(self, context: tuple[int, ...]) -> tuple[Ids, Vector]:
        # Few contexts of an example ever occur, so compute shares on demand.
        if context not in self._table:
            words, counts = np.unique(self._followers[context], return_counts=True)
            self._table[context] = (words, counts / counts.sum())
        return self._table[context]


class CopyGuard:
    """Finds words that complete a run of COPY_LENGTH words copied from an example."""

    def __init__(self, examples: Sequence[Sequence[int]]) -> None:
        self._next: dict[tuple[int, ...], set[int]] = defaultdict(set)
        for example in examples:
            for end in range(COPY_LENGTH - 1, len(example)):
                self._next[tuple(example[end - COPY_LENGTH + 1 : end])].add(example[end])

    def forbid(self, history: Sequence[int], out: Vector) -> None:
        """Set the masses of copying words to 0; if none is left, allow the text's end."""
        words = self._next.get(tuple(history[-(COPY_LENGTH - 1) :]))
        if words:
            out[list(words)] = 0.0
            if not out.any():
                out[END_ID] = 1.0
