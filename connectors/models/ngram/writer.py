"""Writes one text with n-gram models, word by word, conditioned on a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from connectors.models.ngram.counts import END, START, Ngrams, Vector, Vocabulary, draw
from connectors.models.ngram.tokens import detokenise, ends_sentence, tokenise

SHORTEST = 8
TEMPERATURE = 0.85
GOOD_SHARE = 0.35
OPENING_RATE, RATE_WITH_GOOD = 0.55, 0.45
PHRASE_RATE, WEAVING_RATE = 0.25, 0.6
MASK = -1
"""Id of a masked word; no model has seen it in a context."""

LONGEST_SENTENCE = 14
"""Number of words after which a sentence with a phrase ends at the next comma, to leave room for all phrases."""

OPENINGS = (
    *(
        "{words}:",
        "I write because of {words} and",
        "it is {words} again:",
        "regarding {words},",
        "what about {words}?",
    ),
    *("my question is about {words}.", "I need help with {words}.", "nobody told me about {words}.", "as for {words},"),
)
LEADS = frozenset(("the", "my", "a", "this", "your", "about", "with", "of", "for", "our"))
"""Words that a phrase can follow."""


@dataclass(frozen=True, slots=True)
class Voice:
    """The models of a text: general, special (of a label or topic, or None) and its share.

    back: word pairs in reverse. lengths: of the corpus texts. phrases: a label's name and words, as words.
    """

    vocabulary: Vocabulary
    general: Ngrams
    back: Ngrams
    lengths: Sequence[int]
    special: Ngrams | None
    share: float
    phrases: Sequence[list[str]] = ()

    def masses(self, history: Sequence[int], size: int) -> Vector:
        """Return (1 - share) p_general + share p_special after `history`, shape (size,)."""
        masses = self.general.masses(history, size)
        if self.special is not None:
            masses *= 1 - self.share
            self.special.add_to(masses, history, self.share)
        return masses


class Writer:
    """Draws words from the conditioned distribution.

    p = (1 - share) p_general + share p_special             (label)
    p = (1 - GOOD_SHARE) p + GOOD_SHARE p_good              (good examples)
    p = p * p / (p + p_bad)                                 (bad examples)
    p = p**(1 / TEMPERATURE), normalised

    `seeds`: phrases for `weave`.
    """

    def __init__(
        self,
        voice: Voice,
        rng: np.random.Generator,
        good: Sequence[list[str]] = (),
        bad: Sequence[list[str]] = (),
        seeds: Sequence[str] = (),
    ) -> None:
        self._voice, self._rng = voice, rng
        vocabulary = Vocabulary(voice.vocabulary)
        good_ids, bad_ids = ([vocabulary.ids(words) for words in side] for side in (good, bad))
        self._good = Ngrams(good_ids, order=3) if good_ids else None
        self._bad = Ngrams(bad_ids, order=3) if bad_ids else None
        self._phrases = [vocabulary.ids(phrase) for phrase in voice.phrases]
        self._pending = [vocabulary.ids(tokenise(phrase)) for phrase in seeds]
        self._openings = [[vocabulary.ids(tokenise(part)) for part in opening.split("{words}")] for opening in OPENINGS]
        self._comma, self._stop = vocabulary[","], vocabulary["."]
        self._words = list(vocabulary)
        self._lengths = [len(words) for words in good] or voice.lengths
        self._history = list(voice.general.start)

    def write(self, most: int) -> tuple[str, bool]:
        """Return a text of at most `most` words, and True if it ended by itself."""
        target = self._length()
        has_opening = self._phrases and self._rng.random() < (OPENING_RATE if self._good is None else RATE_WITH_GOOD)
        text = self._opening(self._phrase())[:most] if has_opening else []
        # Continue as from a text's start, after any opening: the model does not know the opening's words.
        while len(text) < most:
            word = self._next(text)
            if word == END:
                return self._decode(text), True
            takes_phrase = self._phrases and self._leads(text, word) and self._rng.random() < PHRASE_RATE
            text += (self._phrase() if takes_phrase else [word])[: most - len(text)]
            if len(text) >= target and ends_sentence(self._words[text[-1]]):
                return self._decode(text), True
        return self._decode(text), False

    def weave(self, most: int) -> tuple[str, bool]:
        """Return a text of at most `most` words with the seeds, and True if it has every one.

        Each sentence opens with a phrase and inserts further ones after articles.
        """
        text: list[int] = []
        while self._pending and len(text) < most:
            text += self._sentence()[: most - len(text)]
        return self._decode(text), not self._pending

    def _sentence(self) -> list[int]:
        text = self._opening(self._pending.pop(0))
        self._history = list(self._voice.general.start)
        while not ends_sentence(self._words[text[-1]]):
            word = self._next(text)
            if word == END or (len(text) > LONGEST_SENTENCE and word == self._comma):
                return [*text, self._stop]
            takes_phrase = self._pending and self._leads(text, word) and self._rng.random() < WEAVING_RATE
            text += self._pending.pop(0) if takes_phrase else [word]
        return text

    def _length(self) -> int:
        """Draw the length after which the next sentence end is the last, of the corpus or of the good examples."""
        pool = self._lengths if self._rng.random() < 0.5 else self._voice.lengths
        return max(SHORTEST, pool[int(self._rng.random() * len(pool))])

    def _opening(self, phrase: list[int]) -> list[int]:
        before, after = self._openings[int(self._rng.random() * len(self._openings))]
        return before + phrase + after

    def _phrase(self) -> list[int]:
        # The first phrase is the whole label, taken half of the time.
        return self._phrases[0 if self._rng.random() < 0.5 else int(self._rng.random() * len(self._phrases))]

    def _leads(self, text: list[int], word: int) -> bool:
        """Return True if a phrase can follow the text in place of a word."""
        return bool(text) and self._words[text[-1]] in LEADS and self._words[word][0].isalpha()

    def _next(self, text: list[int]) -> int:
        """Draw the word after the history and append it to the history."""
        masses = self._voice.masses(self._history, len(self._words))
        if self._good is not None:
            masses *= 1 - GOOD_SHARE
            self._good.add_to(masses, self._history, GOOD_SHARE)
        if self._bad is not None:
            bad = np.zeros(len(masses))
            self._bad.add_to(bad, self._history)
            (affected,) = np.nonzero(bad)
            masses[affected] *= masses[affected] / (masses[affected] + bad[affected])
        if len(text) < SHORTEST:
            masses[END] = 0.0
        word = draw(masses, self._rng, TEMPERATURE) if masses.any() else END
        self._history.append(word)
        return word

    def _decode(self, text: Sequence[int]) -> str:
        return detokenise([self._words[word] for word in text])


def fill(voice: Voice, words: Sequence[str], mask: float, rounds: int, rng: np.random.Generator) -> str:
    """Redraw masked words in random order, like a masked language model, and return the text.

    Each round masks a share of the words, at least one. p(w | before, after) is proportional to p(w | before)
    p(w | after) / p(w), with the whole order before and word pairs after.
    """
    vocabulary = Vocabulary(voice.vocabulary)
    text = vocabulary.ids(words)
    unigrams = voice.back.masses([], len(vocabulary))
    for _ in range(rounds):
        masked = rng.permutation(len(text))[: max(1, round(mask * len(text)))].tolist()
        for position in masked:
            text[position] = MASK
        for position in masked:
            after = text[position + 1] if position + 1 < len(text) else START
            masses = voice.masses([*voice.general.start, *text[:position]], len(vocabulary))
            masses *= voice.back.masses([after], len(vocabulary)) / np.where(unigrams > 0, unigrams, 1.0)
            masses[END] = 0.0
            text[position] = draw(masses, rng, TEMPERATURE) if masses.any() else draw(unigrams, rng)
    names = list(vocabulary)
    return detokenise([names[word] for word in text])
