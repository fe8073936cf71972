"""Draws recorded rows of one label, each once, guided by the prompt's examples."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from connectors.interfaces.progress import chunks
from connectors.interfaces.prompts import Prompt

FEATURES = 2**16
BLOCK = 256

Scores = NDArray[np.float64]


class ClassDraws:
    """The rows of one label, and their use.

    Without examples, a draw is the first unused row of a permutation. With examples, it is drawn with p proportional
    to exp(score / softness) among the unused rows: the largest score / softness + Gumbel noise, with noise seeded by
    the prompt's key. Rows taken by other prompts never change the order of the remaining rows, so a draw depends on the
    set of used rows only through the row itself.
    """

    def __init__(self, rows: Sequence[int], texts: Sequence[str]) -> None:
        self._rows = np.asarray(rows, dtype=np.int64)
        self._texts = [texts[row] for row in rows]
        self._order = np.random.default_rng(0).permutation(len(rows))
        self._free = np.ones(len(rows), dtype=bool)
        self._next = 0
        self._indices: dict[str, list[int]] = {}
        for index, text in enumerate(self._texts):
            self._indices.setdefault(text, []).append(index)

    def use(self, text: str) -> int | None:
        """Mark the first unused row with this text as used; return its number or None."""
        for index in self._indices.get(text, ()):
            if self._free[index]:
                return self._take(index)
        return None

    def _take(self, index: int) -> int:
        self._free[index] = False
        return int(self._rows[index])

    def next(self) -> int | None:
        """Draw without examples; None if no row is unused."""
        while self._next < len(self._order):
            index = int(self._order[self._next])
            if self._free[index]:
                return self._take(index)
            self._next += 1
        return None

    def follow(self, prompts: Sequence[Prompt], softness: float) -> list[int | None]:
        """Draw one row per prompt, in order, guided by its examples."""
        drawn: list[int | None] = []
        for block in chunks(prompts, BLOCK):
            for prompt, scores in zip(block, self._scores(block), strict=True):
                drawn.append(self._softmax_draw(prompt, scores / softness) if self._free.any() else None)
        return drawn

    def _softmax_draw(self, prompt: Prompt, utility: Scores) -> int:
        noise = np.random.default_rng(prompt.stream_seed("0:")).gumbel(size=len(utility))
        return self._take(int(np.argmax(np.where(self._free, utility + noise, -np.inf))))

    @cached_property
    def _vectorizer(self) -> Any:
        from sklearn.feature_extraction.text import HashingVectorizer

        return HashingVectorizer(n_features=FEATURES, alternate_sign=False, stop_words="english", dtype=np.float64)

    @cached_property
    def _vectors(self) -> Any:
        return self._vectorizer.transform(self._texts)

    def _scores(self, prompts: Sequence[Prompt]) -> Scores:
        """Return mean similarity to good minus to bad examples, shape (prompts, rows).

        Similarity is the cosine of hashed word counts, without stop words.
        """
        from scipy.sparse import csr_matrix

        # Sorted examples fix the order of sums, so scores do not depend on the batch, to the last bit.
        examples = sorted({text for prompt in prompts for text in (*prompt.good, *prompt.bad)})
        if not examples:
            return np.zeros((len(prompts), len(self._texts)))
        columns = {text: column for column, text in enumerate(examples)}
        shares, at_prompt, at_example = [], [], []
        for number, prompt in enumerate(prompts):
            for side, sign in ((prompt.good, 1.0), (prompt.bad, -1.0)):
                for text in side:
                    shares.append(sign / len(side))
                    at_prompt.append(number)
                    at_example.append(columns[text])
        mix = csr_matrix((shares, (at_prompt, at_example)), shape=(len(prompts), len(examples)))
        targets = mix @ self._vectorizer.transform(examples)
        return np.asarray((targets @ self._vectors.T).toarray())
