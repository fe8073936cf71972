"""Fills masks with an n-gram model: a word is drawn given the words before it and the word after it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from connectors.interfaces.prompts import Cloze
from connectors.models.ngram.kneser_ney import END_ID, START_ID, KneserNey, Vector, draw
from connectors.models.ngram.tokens import detokenise
from connectors.models.ngram.writer import Voice, Words

MASK_ID = -1
"""Stands for a word that is not known yet; no model has seen it in a context."""


class Filler:
    """Draws masked words anew, one after another in random order, as a masked language model does.

    p(w | before, after) is proportional to p(w | before) p(after | w): the first of the model's whole order, cut where
    a mask stands, the second of neighbouring words. The voice mixes general and special model as in writing.
    """

    def __init__(self, voice: Voice, tokens: Sequence[str], rng: np.random.Generator) -> None:
        self._voice, self._rng = voice, rng
        self._words = Words(voice.general)
        self._text = self._words.ids(tokens)

    def fill(self, cloze: Cloze) -> str:
        """Return the text after all rounds; each masks `mask` of the words anew, one at least."""
        number = max(1, round(cloze.mask * len(self._text)))
        for _ in range(cloze.rounds):
            places = self._rng.permutation(len(self._text))[:number].tolist()
            for place in places:
                self._text[place] = MASK_ID
            for place in places:
                self._text[place] = draw(self._masses(place), self._rng)
        return detokenise([self._words.word(word) for word in self._text])

    def _masses(self, place: int) -> Vector:
        voice = self._voice
        share = voice.special_share if voice.special is not None else 0.0
        masses = (1 - share) * self._between(voice.general, place)
        if voice.special is not None:
            masses += share * self._between(voice.special, place)
        masses[[START_ID, END_ID]] = 0.0
        if not masses.any():
            masses[: len(voice.general.unigrams)] = voice.general.unigrams
            masses[[START_ID, END_ID]] = 0.0
        return masses if voice.style.temperature == 1.0 else (masses / masses.max()) ** (1 / voice.style.temperature)

    def _between(self, model: KneserNey, place: int) -> Vector:
        history = [*model.start, *self._text[:place]]
        known = next((n for n, word in enumerate(reversed(history)) if word == MASK_ID), len(history))
        masses = np.zeros(len(self._words))
        model.spread(history[len(history) - known :], 1.0, masses)
        after = self._text[place + 1] if place + 1 < len(self._text) else END_ID
        if 0 <= after < len(model.unigrams):
            masses[: len(model.unigrams)] *= model.before(after)
        return masses
