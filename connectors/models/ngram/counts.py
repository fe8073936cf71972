"""Interpolated n-gram model over word ids, with absolute discounting.

Source: Chen and Goodman 1998, section 2.6 (absolute discounting, Ney et al. 1994).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from connectors.models.ngram.tokens import tokenise

ORDER = 4
DISCOUNT = 0.75
START, END = 0, 1
"""Ids of the start and the end of a text."""

Vector = NDArray[np.float64]


class Vocabulary(dict[str, int]):
    """Word ids; a new word gets the next id."""

    def __init__(self, words: Iterable[str] = ("<s>", "</s>")) -> None:
        super().__init__((word, number) for number, word in enumerate(words))

    def __missing__(self, word: str) -> int:
        self[word] = len(self)
        return self[word]

    def ids(self, words: Iterable[str]) -> list[int]:
        """Return the ids of words."""
        return [self[word] for word in words]


class Ngrams:
    """An n-gram model of texts (word ids).

    p(w|h) = max(c(hw) - D, 0) / c(h) + D N(h) / c(h) * p(w|h'), h' = h without its first word. c are counts, N(h) is
    the number of different words after h. Unigrams have no discount; an unseen context uses h'.
    """

    def __init__(self, texts: Iterable[Sequence[int]], order: int = ORDER) -> None:
        self.order = order
        self._followers: dict[tuple[int, ...], list[int]] = defaultdict(list)
        self._tables: dict[tuple[int, ...], tuple[NDArray[np.int64], Vector, float]] = {}
        for text in texts:
            padded = (*self.start, *text, END)
            for position in range(order - 1, len(padded)):
                for length in range(order):
                    self._followers[padded[position - length : position]].append(padded[position])

    @property
    def start(self) -> tuple[int, ...]:
        """The history before the first word."""
        return (START,) * (self.order - 1)

    def add_to(self, masses: Vector, history: Sequence[int], weight: float = 1.0) -> None:
        """Add weight * p(.|history) to `masses`, shape (vocabulary,)."""
        for length in range(min(self.order - 1, len(history)), -1, -1):
            context = tuple(history[len(history) - length :])
            if context in self._followers:
                words, shares, left = self._table(context)
                masses[words] += weight * shares
                weight *= left

    def masses(self, history: Sequence[int], size: int) -> Vector:
        """Return p(.|history), shape (size,)."""
        masses = np.zeros(size)
        self.add_to(masses, history)
        return masses

    def _table(self, context: tuple[int, ...]) -> tuple[NDArray[np.int64], Vector, float]:
        # Few contexts ever occur in a prompt's texts, so compute their shares on demand.
        if context not in self._tables:
            words, counts = np.unique(self._followers[context], return_counts=True)
            discount = DISCOUNT if context else 0.0
            left = discount * len(words) / counts.sum()
            self._tables[context] = (words, (counts - discount) / counts.sum(), float(left))
        return self._tables[context]


def draw(masses: Vector, rng: np.random.Generator, temperature: float = 1.0) -> int:
    """Return an index with probability proportional to its mass**(1 / temperature); any total is allowed."""
    steps = np.cumsum((masses / masses.max()) ** (1 / temperature))
    # An index of mass 0 must never be drawn: `right` skips it, the minimum handles rounding at the top.
    return int(min(np.searchsorted(steps, rng.random() * steps[-1], side="right"), np.flatnonzero(masses)[-1]))


def fit_likelihood(texts: Sequence[str]) -> Callable[[str], float]:
    """Return a function for the mean log word probability under a model of `texts`.

    An unknown word counts as a tenth of a uniformly drawn word of their vocabulary.
    """
    vocabulary = Vocabulary()
    model = Ngrams(vocabulary.ids(tokenise(text.lower())) for text in texts)
    size = len(vocabulary)

    def score(text: str) -> float:
        words = [*model.start, *(vocabulary.get(word, size) for word in tokenise(text.lower()))]
        ends = range(ORDER - 1, len(words))
        masses = [model.masses(words[:end], size + 1)[words[end]] for end in ends]
        return sum(math.log(max(mass, 0.1 / size)) for mass in masses) / max(len(masses), 1)

    return score
