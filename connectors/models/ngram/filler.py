"""Filling of masks with an n-gram model, given the words before and after."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from connectors.interfaces.prompts import Cloze
from connectors.models.ngram.kneser_ney import END_ID, START_ID, KneserNey, Vector, draw
from connectors.models.ngram.tokens import detokenise
from connectors.models.ngram.writer import Voice, Words

MASK_ID = -1
"""Id of a masked word; no model has seen it in a context."""


class Filler:
    """Redraws masked words in random order, like a masked language model.

    p(w | before, after) is proportional to p(w | before) p(after | w): the first with the model's whole order, cut at
    the nearest mask, the second with neighbouring words. The voice mixes general and special model as in writing.
    """

    def __init__(self, voice: Voice, tokens: Sequence[str], rng: np.random.Generator) -> None:
        self._voice, self._rng = voice, rng
        self._words = Words(voice.general)
        self._text = self._words.ids(tokens)

    def fill(self, cloze: Cloze) -> str:
        """Return the text after all rounds; each redraws `mask` of the words, at least 1."""
        number = max(1, round(cloze.mask * len(self._text)))
        for _ in range(cloze.rounds):
            positions = self._rng.permutation(len(self._text))[:number].tolist()
            for position in positions:
                self._text[position] = MASK_ID
            for position in positions:
                self._text[position] = draw(self._masses(position), self._rng)
        return detokenise([self._words.word(word) for word in self._text])

    def _masses(self, position: int) -> Vector:
        voice = self._voice
        share = voice.special_share if voice.special is not None else 0.0
        masses = (1 - share) * self._between(voice.general, position)
        if voice.special is not None:
            masses += share * self._between(voice.special, position)
        masses[[START_ID, END_ID]] = 0.0
        if not masses.any():
            masses[: len(voice.general.unigrams)] = voice.general.unigrams
            masses[[START_ID, END_ID]] = 0.0
        return masses if voice.style.temperature == 1.0 else (masses / masses.max()) ** (1 / voice.style.temperature)

    def _between(self, model: KneserNey, position: int) -> Vector:
        history = [*model.start, *self._text[:position]]
        length = next((n for n, word in enumerate(reversed(history)) if word == MASK_ID), len(history))
        masses = np.zeros(len(self._words))
        model.spread(history[len(history) - length :], 1.0, masses)
        after = self._text[position + 1] if position + 1 < len(self._text) else END_ID
        if 0 <= after < len(model.unigrams):
            masses[: len(model.unigrams)] *= model.before(after)
        return masses
