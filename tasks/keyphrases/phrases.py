"""Keyphrases of texts: which terms of a public vocabulary stand in a text, in which order.

Terms may be several words long. Where terms overlap the one that begins first counts, and of these the longest: "heart
attack" is one keyphrase and neither "heart" nor "attack".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from connectors.interfaces.content_keys import digest
from connectors.interfaces.errors import ConfigError, InputError

MOST_TERMS: Final = 500_000
"""Terms of a vocabulary; the noisy count of each lies in the budget book, 8 bytes a term."""

BETWEEN: Final = ", "
"""Stands between phrases that are a text by themselves."""

_WORD: Final = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Vocabulary:
    """Public terms, as they are written, each once; their order numbers them."""

    terms: tuple[str, ...]

    @cached_property
    def content(self) -> str:
        """What names the terms and their order."""
        return digest(self.terms)

    @cached_property
    def matcher(self) -> Matcher:
        """What finds the terms in texts."""
        return Matcher(self.terms)

    def first(self, text: str, most: int) -> tuple[str, ...]:
        """Return the first `most` different terms of a text, as the vocabulary writes them."""
        return tuple(self.terms[number] for number in self.matcher.distinct(text, most))

    def taken(self, numbers: Sequence[int]) -> Vocabulary:
        """Return the vocabulary of some of the terms, in the order of `numbers`."""
        return Vocabulary(tuple(self.terms[number] for number in numbers))


def vocabulary_of(terms: Sequence[str], banned: Sequence[str] = (), shortest: int = 1) -> Vocabulary:
    """Return a vocabulary of terms in order of rank; terms that read alike ("COVID-19", "covid 19") count once.

    `banned`: terms that never count, however they are written; `shortest`: least letters and digits of a term. Raises
    InputError for a vocabulary without a term, or with too many.
    """
    never = {plain_form(term) for term in banned}
    kept: dict[str, str] = {}
    for term in terms:
        plain = plain_form(term)
        if plain not in never and len(plain.replace(" ", "")) >= max(1, shortest):
            kept.setdefault(plain, " ".join(term.split()))
    if not kept:
        raise InputError("The vocabulary holds no term that counts; name a file with terms, or skip fewer of them.")
    if len(kept) > MOST_TERMS:
        raise InputError(
            f"The vocabulary holds {len(kept):,} terms, at most {MOST_TERMS:,} are counted; set vocabulary.most"
        )
    return Vocabulary(tuple(kept.values()))


def as_text(phrases: Sequence[str]) -> str:
    """Return phrases as one text."""
    return BETWEEN.join(phrases)


def plain_form(text: str) -> str:
    """Return the words of a text, each between two spaces of its own: what terms and texts are compared by."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(f" {word} " for word in _WORD.findall(folded))


class Matcher:
    """Finds terms in texts with one pass over each, however many terms there are (Aho and Corasick 1975)."""

    def __init__(self, terms: Sequence[str]) -> None:
        import ahocorasick

        self._automaton: Any = ahocorasick.Automaton()
        for number, term in enumerate(terms):
            plain = plain_form(term)
            if not plain:
                raise ConfigError(f"Term {number} of the vocabulary has no letter or digit in it.")
            self._automaton.add_word(plain, number)
        self._automaton.make_automaton()

    def find(self, text: str) -> list[int]:
        """Return the numbers of the terms in a text, in order of their places, as often as they stand there."""
        return [number for _, number in self._automaton.iter_long(plain_form(text))]

    def distinct(self, text: str, most: int) -> list[int]:
        """Return the first `most` different terms of a text."""
        return list(dict.fromkeys(self.find(text)))[:most]
