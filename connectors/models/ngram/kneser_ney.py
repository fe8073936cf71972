"""Interpolated Kneser-Ney n-gram language model over word tokens.

Source: Kneser and Ney 1995; Chen and Goodman 1998, section 2.7 (interpolated form) and 3 (modified discounts).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from connectors.interfaces.errors import ConfigError

START, END = "<s>", "</s>"
START_ID, END_ID = 0, 1

Vector = NDArray[np.float64]
Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Level:
    """All n-grams of one length.

    `contexts`: per context a slice of `words`/`masses` and the share left to shorter contexts.
    """

    contexts: dict[tuple[int, ...], tuple[int, int, float]]
    words: Ids
    masses: Vector


@dataclass(frozen=True, slots=True)
class Pairs:
    """All word pairs by second word: sorted `words`, preceding `contexts`, masses.

    `left`: for each word of the vocabulary, the share that it leaves to single words.
    """

    words: Ids
    contexts: Ids
    masses: Vector
    left: Vector


class KneserNey:
    """An interpolated Kneser-Ney model.

    p(w|h) = max(c(hw) - D, 0) / c(h) + D * N1+(h .) / c(h) * p(w|h'), h' = h without its first word.

    c is the plain count for the longest n-grams and, for shorter ones, the number of different words seen before the
    n-gram (continuation count). Unigrams are continuation counts without discount. An unseen context uses h'. Words
    outside the training texts have probability 0. `discount=None` estimates three discounts per length (modified
    Kneser-Ney). `weights` counts a text several times. Models that share `vocabulary` share word ids.
    """

    def __init__(
        self,
        texts: Sequence[Sequence[str]],
        order: int = 4,
        discount: float | None = 0.75,
        weights: Sequence[int] | None = None,
        vocabulary: Sequence[str] | None = None,
    ) -> None:
        if order < 2:
            raise ConfigError(f"An n-gram model needs order 2 or more, got {order}.")
        if discount is not None and not 0 < discount < 1:
            raise ConfigError(f"A Kneser-Ney discount must be between 0 and 1, got {discount}.")
        if not any(texts):
            raise ConfigError("An n-gram model needs at least one word to learn from; the corpus is empty.")
        self.order = order
        self.vocabulary = tuple(vocabulary) if vocabulary is not None else words_of(texts)
        self.index = {word: position for position, word in enumerate(self.vocabulary)}
        grams = _Grams.count(self._flat(texts), order, len(self.vocabulary), _repeat(texts, weights))
        self._levels = [grams.level(length, discount) for length in range(2, order + 1)]
        self.unigrams = grams.unigrams(len(self.vocabulary))

    def _flat(self, texts: Sequence[Sequence[str]]) -> Ids:
        pad, index = [START_ID] * (self.order - 1), self.index
        flat: list[int] = []
        for text in texts:
            flat += pad
            flat += [index[word] for word in text]
            flat.append(END_ID)
        return np.array(flat, dtype=np.int64)

    @property
    def start(self) -> tuple[int, ...]:
        """The history before the first word."""
        return (START_ID,) * (self.order - 1)

    def spread(self, history: Sequence[int], weight: float, out: Vector) -> None:
        """Add weight * p(.|history) to `out`, shape (at least vocabulary,).

        The history can contain unknown ids.
        """
        for level in range(min(self.order - 1, len(history)), 0, -1):
            table = self._levels[level - 1]
            context = table.contexts.get(tuple(history[-level:]))
            if context is not None:
                first, last, left = context
                out[table.words[first:last]] += weight * table.masses[first:last]
                weight *= left
        out[: len(self.unigrams)] += weight * self.unigrams

    def before(self, word: int) -> Vector:
        """Return p(word | w) for every w of the vocabulary, shape (vocabulary,)."""
        pairs = self._pairs
        matches = slice(*np.searchsorted(pairs.words, [word, word + 1]))
        result: Vector = pairs.left * self.unigrams[word]
        result[pairs.contexts[matches]] += pairs.masses[matches]
        return result

    @cached_property
    def _pairs(self) -> Pairs:
        level = self._levels[0]
        left = np.ones(len(self.unigrams))
        contexts = np.zeros(len(level.words), dtype=np.int64)
        for (context,), (first, last, share) in level.contexts.items():
            left[context] = share
            contexts[first:last] = context
        order = np.argsort(level.words, kind="stable")
        return Pairs(level.words[order], contexts[order], level.masses[order], left)

    def probability(self, word: str, context: Sequence[str] = ()) -> float:
        """Return p(word | context); the context can contain START and unknown words."""
        history = tuple(self.index.get(token, -1) for token in context)
        out = np.zeros(len(self.vocabulary))
        self.spread(history, 1.0, out)
        return float(out[self.index[word]]) if word in self.index else 0.0

    def perplexity(self, texts: Iterable[Sequence[str]]) -> float:
        """Return exp of the mean negative log probability per word.

        Text ends count, unknown words do not.
        """
        total, count = 0.0, 0
        for text in texts:
            history = list(self.start)
            for word in (*text, END):
                word_id = self.index.get(word, -1)
                if word_id >= 0:
                    out = np.zeros(len(self.vocabulary))
                    self.spread(history, 1.0, out)
                    total, count = total - math.log(out[word_id]), count + 1
                history.append(word_id)
        return math.exp(total / count)

    def sample(self, rng: np.random.Generator, max_words: int = 100) -> list[str]:
        """Draw one text word by word, at most `max_words` words."""
        history = list(self.start)
        while len(history) < max_words + self.order - 1:
            out = np.zeros(len(self.vocabulary))
            self.spread(history, 1.0, out)
            word = draw(out, rng)
            if word == END_ID:
                break
            history.append(word)
        return [self.vocabulary[word] for word in history[self.order - 1 :]]


def draw(masses: Vector, rng: np.random.Generator) -> int:
    """Return an index with probability proportional to its mass; any total is allowed."""
    steps = np.cumsum(masses)
    # An index of mass 0 must never be drawn: `right` skips it, the minimum handles rounding at the top.
    return int(min(np.searchsorted(steps, rng.random() * steps[-1], side="right"), np.flatnonzero(masses)[-1]))


def words_of(texts: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Return the vocabulary of texts: START, END, then all words sorted."""
    return (START, END, *sorted({word for text in texts for word in text} - {START, END}))


def _repeat(texts: Sequence[Sequence[str]], weights: Sequence[int] | None) -> Ids:
    lengths = np.array([len(text) + 1 for text in texts])
    return np.repeat(np.ones(len(texts), np.int64) if weights is None else np.asarray(weights, np.int64), lengths)


@dataclass(frozen=True, slots=True)
class _Grams:
    """Distinct n-grams of each length, as their end position in `flat`, with counts."""

    flat: Ids
    ends: dict[int, Ids]
    counts: dict[int, Ids]
    prefixes: dict[int, Ids]

    @classmethod
    def count(cls, flat: Ids, order: int, size: int, weights: Ids) -> _Grams:
        positions = np.flatnonzero(flat != START_ID)
        ranks = {1: flat}
        for length in range(2, order + 1):
            pairs = np.concatenate([[0], ranks[length - 1][:-1]]) * size + flat
            ranks[length] = np.unique(pairs, return_inverse=True)[1]
        ends, counts, prefixes = {}, {}, {}
        grams, first, inverse = np.unique(ranks[order][positions], return_index=True, return_inverse=True)
        tally = np.bincount(inverse, weights=weights, minlength=len(grams)).astype(np.int64)
        for length in range(order, 0, -1):
            ends[length], counts[length] = positions[first], tally
            if length > 1:
                prefixes[length] = ranks[length - 1][ends[length] - 1]
                positions = ends[length]
                _, first, tally = np.unique(ranks[length - 1][positions], return_index=True, return_counts=True)
        return cls(flat, ends, counts, prefixes)

    def unigrams(self, size: int) -> Vector:
        result = np.zeros(size)
        result[self.flat[self.ends[1]]] = self.counts[1]
        return np.asarray(result / result.sum())

    def level(self, length: int, discount: float | None) -> Level:
        by_context = np.argsort(self.prefixes[length], kind="stable")
        ends, counts = self.ends[length][by_context], self.counts[length][by_context].astype(np.float64)
        prefixes = self.prefixes[length][by_context]
        starts = np.flatnonzero(np.concatenate([[True], prefixes[1:] != prefixes[:-1]]))
        stops = np.append(starts[1:], len(ends))
        cuts = np.minimum(_discounts(self.counts[length], discount)[np.minimum(counts, 3).astype(np.int64)], counts)
        totals = np.add.reduceat(counts, starts)
        left = np.add.reduceat(cuts, starts) / totals
        masses = (counts - cuts) / np.repeat(totals, stops - starts)
        windows = self.flat[ends[starts][:, None] + np.arange(1 - length, 0)]
        slices = zip(starts.tolist(), stops.tolist(), left.tolist(), strict=True)
        contexts = dict(zip(map(tuple, windows.tolist()), slices, strict=True))
        return Level(contexts, self.flat[ends], masses)


def _discounts(counts: Ids, discount: float | None) -> Vector:
    """Return discounts for counts 0, 1, 2 and 3 or more.

    Modified discounts: Chen and Goodman 1998, equation 26.
    """
    if discount is not None:
        return np.array([0.0, discount, discount, discount])
    ones, twos, threes, fours = (float(np.sum(counts == value)) for value in (1, 2, 3, 4))
    if not (ones and twos and threes):
        return np.array([0.0, 0.75, 0.75, 0.75])
    base = ones / (ones + 2 * twos)
    raw = [1 - 2 * base * twos / ones, 2 - 3 * base * threes / twos, 3 - 4 * base * fours / threes]
    return np.array([0.0, *(min(max(cut, 0.05), top - 0.05) for cut, top in zip(raw, (1, 2, 3), strict=True))])
