"""How an n-gram model writes a text that contains given phrases: it weaves them in, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from connectors.models.ngram.conditioning import LEADS, OPENINGS
from connectors.models.ngram.kneser_ney import END_ID
from connectors.models.ngram.tokens import detokenise, ends_sentence, tokenise
from connectors.models.ngram.writer import Voice, Writer

WEAVING_RATE = 0.6
LONGEST_SENTENCE = 14
"""Words after which a sentence is ended where it can be, so that all phrases find a place."""


class SeededWriter(Writer):
    """Writes sentences until every phrase has been used: each opens with one, and takes up more behind articles.

    The distribution of words between them is that of `Writer`. A phrase that does not fit into the tokens is left out.
    """

    def __init__(self, voice: Voice, phrases: Sequence[str], good: list[list[str]], rng: np.random.Generator) -> None:
        super().__init__(voice, good, [], rng)
        self._pending = [self._words.ids(tokenise(phrase)) for phrase in phrases]

    def write(self, max_tokens: int) -> tuple[str, bool]:
        """Return a text of at most `max_tokens` tokens and whether every phrase found its place in it."""
        text: list[int] = []
        while self._pending and len(text) < max_tokens:
            text += self._sentence(max_tokens - len(text))
        return detokenise([self._words.word(word) for word in text]), not self._pending

    def _sentence(self, most: int) -> list[int]:
        before, _, after = OPENINGS[int(self._rng.random() * len(OPENINGS))].partition("{words}")
        text = self._words.ids(tokenise(before)) + self._pending.pop(0) + self._words.ids(tokenise(after))
        history = list(self._voice.general.start)
        while len(text) < most and not ends_sentence(self._words.word(text[-1])):
            word = self._next(history, text)
            if word == END_ID or (len(text) > LONGEST_SENTENCE and self._words.word(word) == ","):
                break
            lead = self._words.word(text[-1]) in LEADS and self._words.word(word)[0].isalpha()
            woven = lead and bool(self._pending) and self._rng.random() < WEAVING_RATE
            text += self._pending.pop(0) if woven else [word]
            history.append(word)
        if not ends_sentence(self._words.word(text[-1])):
            text += self._words.ids(["."])
        return text[:most]
