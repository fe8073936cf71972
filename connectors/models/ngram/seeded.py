"""Writing of texts that contain phrases, with an n-gram model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from connectors.models.ngram.conditioning import LEADS, OPENINGS
from connectors.models.ngram.kneser_ney import END_ID
from connectors.models.ngram.tokens import detokenise, ends_sentence, tokenise
from connectors.models.ngram.writer import Voice, Writer

WEAVING_RATE = 0.6
LONGEST_SENTENCE = 14
"""Number of words after which a sentence ends at the next chance, to leave room for all phrases."""


class SeededWriter(Writer):
    """Writes sentences until every phrase is used.

    Each sentence opens with a phrase, and inserts further ones after articles. The words between them have the
    distribution of `Writer`. A phrase that does not fit into the tokens is left out.
    """

    def __init__(self, voice: Voice, phrases: Sequence[str], good: list[list[str]], rng: np.random.Generator) -> None:
        super().__init__(voice, good, [], rng)
        self._pending = [self._words.ids(tokenise(phrase)) for phrase in phrases]

    def write(self, max_tokens: int) -> tuple[str, bool]:
        """Return a text of at most `max_tokens` tokens, and True if it has every phrase."""
        text: list[int] = []
        while self._pending and len(text) < max_tokens:
            text += self._sentence(max_tokens - len(text))
        return detokenise([self._words.word(word) for word in text]), not self._pending

    def _sentence(self, limit: int) -> list[int]:
        before, _, after = OPENINGS[int(self._rng.random() * len(OPENINGS))].partition("{words}")
        text = self._words.ids(tokenise(before)) + self._pending.pop(0) + self._words.ids(tokenise(after))
        history = list(self._voice.general.start)
        while len(text) < limit and not ends_sentence(self._words.word(text[-1])):
            word = self._next(history, text)
            if word == END_ID or (len(text) > LONGEST_SENTENCE and self._words.word(word) == ","):
                break
            is_lead = self._words.word(text[-1]) in LEADS and self._words.word(word)[0].isalpha()
            is_woven = is_lead and bool(self._pending) and self._rng.random() < WEAVING_RATE
            text += self._pending.pop(0) if is_woven else [word]
            history.append(word)
        if not ends_sentence(self._words.word(text[-1])):
            text += self._words.ids(["."])
        return text[:limit]
