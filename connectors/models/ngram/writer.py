"""Writes one text with an n-gram model, word by word, conditioned on a prompt."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from connectors.models.ngram.conditioning import LEADS, OPENINGS, CopyGuard, ExampleCache
from connectors.models.ngram.kneser_ney import END_ID, KneserNey, Vector, draw
from connectors.models.ngram.tokens import detokenise, ends_sentence, tokenise

Phrases = tuple[tuple[str, ...], ...]
"""Label phrases as word sequences."""

SHORTEST = 5
OPENING_RATE, OPENING_RATE_WITH_GOOD = 0.55, 0.45
PHRASE_RATE, PHRASE_RATE_WITH_GOOD = 0.3, 0.2


class Words:
    """The model's words and, with higher ids, those that occur only in the prompt."""

    def __init__(self, model: KneserNey) -> None:
        self._model = model
        self._extra: dict[str, int] = {}
        self._extra_words: list[str] = []

    def ids(self, tokens: Iterable[str]) -> list[int]:
        """Return the ids of tokens; unknown ones are added."""
        return [self._model.index[token] if token in self._model.index else self._add(token) for token in tokens]

    def _add(self, token: str) -> int:
        if token not in self._extra:
            self._extra[token] = len(self)
            self._extra_words.append(token)
        return self._extra[token]

    def word(self, word_id: int) -> str:
        """Return the word of an id."""
        size = len(self._model.vocabulary)
        return self._model.vocabulary[word_id] if word_id < size else self._extra_words[word_id - size]

    def __len__(self) -> int:
        return len(self._model.vocabulary) + len(self._extra_words)


@dataclass(frozen=True, slots=True)
class Style:
    """Strengths of the conditions, see `model.NgramOptions`."""

    temperature: float
    cache: float
    discount: float


@dataclass(frozen=True, slots=True)
class Voice:
    """The models of a text: general, special (label or topic, or None) and its share.

    `phrases` are the label's phrases.
    """

    general: KneserNey
    special: KneserNey | None
    special_share: float
    phrases: Phrases
    lengths: tuple[int, ...]
    style: Style


class Writer:
    """Draws words from the conditioned distribution.

    p = (1 - special_share) p_general + special_share p_special      (label)
    p = (1 - cache) p + cache p_good                                 (good examples, n-gram cache)
    p = p * (p / (p + p_bad))**discount                              (bad examples)
    p = p**(1 / temperature), normalised
    """

    def __init__(self, voice: Voice, good: list[list[str]], bad: list[list[str]], rng: np.random.Generator) -> None:
        self._voice, self._rng = voice, rng
        self._words = Words(voice.general)
        good_ids, bad_ids = ([self._words.ids(tokens) for tokens in side] for side in (good, bad))
        self._phrases = [self._words.ids(phrase) for phrase in voice.phrases]
        start = voice.general.start
        self._good = ExampleCache(good_ids, start) if good_ids and voice.style.cache else None
        self._bad = ExampleCache(bad_ids, start) if bad_ids and voice.style.discount else None
        self._guard = CopyGuard(good_ids)
        self._lengths = [len(tokens) for tokens in good] or list(voice.lengths)

    def write(self, max_tokens: int) -> tuple[str, bool]:
        """Return a text of at most `max_tokens` tokens, and True if it ended by itself."""
        target = self._length()
        text = self._opening()[:max_tokens]
        # Continue as from a text's start, after any opening: the model does not know the opening's words.
        history = list(self._voice.general.start)
        finished = False
        while len(text) < max_tokens:
            word = self._next(history, text)
            if word == END_ID:
                finished = True
                break
            text.extend(self._phrase_or(word, text)[: max_tokens - len(text)])
            history.append(word)
            if len(text) >= target and ends_sentence(self._words.word(text[-1])):
                finished = True
                break
        return detokenise([self._words.word(word) for word in text]), finished

    def _length(self) -> int:
        """Draw the length after which the next sentence end is the last.

        It follows the corpus or, with probability 1/2, the good examples.
        """
        pools = (self._voice.lengths, self._lengths)
        pool = pools[int(self._rng.random() * 2)]
        return max(SHORTEST, pool[int(self._rng.random() * len(pool))])

    def _opening(self) -> list[int]:
        rate = OPENING_RATE if self._good is None else OPENING_RATE_WITH_GOOD
        if not self._phrases or self._rng.random() >= rate:
            return []
        before, _, after = OPENINGS[int(self._rng.random() * len(OPENINGS))].partition("{words}")
        return self._words.ids(tokenise(before)) + self._phrase() + self._words.ids(tokenise(after))

    def _phrase(self) -> list[int]:
        # The first phrase is the whole label, taken half of the time.
        half = self._rng.random() < 0.5
        return self._phrases[0 if half else int(self._rng.random() * len(self._phrases))]

    def _phrase_or(self, word: int, text: list[int]) -> list[int]:
        """Return a label phrase instead of a word after an article, else the word."""
        rate = PHRASE_RATE if self._good is None else PHRASE_RATE_WITH_GOOD
        if self._phrases and text and self._words.word(text[-1]) in LEADS and self._rng.random() < rate:
            return self._phrase() if self._words.word(word)[0].isalpha() else [word]
        return [word]

    def _next(self, history: list[int], text: list[int]) -> int:
        masses = self._masses(history)
        if len(text) < SHORTEST:
            masses[END_ID] = 0.0
        self._guard.forbid(text, masses)
        return draw(masses, self._rng)

    def _masses(self, history: list[int]) -> Vector:
        voice, style = self._voice, self._voice.style
        masses = np.zeros(len(self._words))
        cached = style.cache if self._good is not None else 0.0
        special = voice.special_share if voice.special is not None else 0.0
        voice.general.spread(history, (1 - cached) * (1 - special), masses)
        if voice.special is not None:
            voice.special.spread(history, (1 - cached) * special, masses)
        if self._good is not None:
            self._good.spread(history, cached, masses)
        if self._bad is not None:
            bad_masses = np.zeros(len(masses))
            self._bad.spread(history, 1.0, bad_masses)
            (affected,) = np.nonzero(bad_masses)
            masses[affected] *= (masses[affected] / (masses[affected] + bad_masses[affected])) ** style.discount
        return masses if style.temperature == 1.0 else (masses / masses.max()) ** (1 / style.temperature)
