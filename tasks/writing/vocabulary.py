"""Keyphrases of texts: the terms of a public vocabulary in order of occurrence.

A term may have several words. Among overlapping terms the one that begins first counts, and of these the longest:
"heart attack" is one keyphrase and neither "heart" nor "attack".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from connectors.interfaces.content_keys import digest
from connectors.interfaces.errors import InputError
from connectors.interfaces.text_forms import normalizable, spaced

if TYPE_CHECKING:
    import pandas as pd

MAX_TERMS: Final = 500_000
"""Largest number of terms of a vocabulary; the ledger stores a noisy count of 8 bytes for each term."""

BETWEEN: Final = ", "
"""Separator of phrases that are shown as one text."""

_WORD: Final = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Vocabulary:
    """Public terms in their original spelling, each once; their order numbers them."""

    terms: tuple[str, ...]

    @cached_property
    def content(self) -> str:
        """Digest of the terms and their order."""
        return digest(self.terms)

    @cached_property
    def matcher(self) -> Matcher:
        """Matcher that finds the terms in texts."""
        return Matcher(self.terms)

    def first(self, text: str, most: int) -> tuple[str, ...]:
        """Return the first `most` different terms of a text, in the vocabulary's spelling."""
        return tuple(self.terms[number] for number in self.matcher.distinct(text, most))


def read_vocabulary(table: pd.DataFrame) -> Vocabulary:
    """Return the vocabulary of a table of terms."""
    return Vocabulary(tuple(table["term"].tolist()))


def vocabulary_of(
    terms: Sequence[str], banned: Sequence[str] = (), shortest: int = 1
) -> Vocabulary:
    """Return a vocabulary of terms in order of rank.

    Equal plain forms ("COVID-19", "covid 19") count once. `banned`: terms that never count, in any spelling.
    `shortest`: least letters and digits of a term. Raises InputError for a vocabulary without a term, or with too many.
    """
    excluded = {plain_form(term) for term in banned}
    unique: dict[str, str] = {}
    for term in terms:
        plain = plain_form(term)
        if plain not in excluded and len(plain.replace(" ", "")) >= max(1, shortest):
            unique.setdefault(plain, " ".join(term.split()))
    if not unique:
        raise InputError(
            "vocabulary: it has no usable term. Name a file with terms, or skip fewer of them."
        )
    if len(unique) > MAX_TERMS:
        raise InputError(
            f"vocabulary: it has {len(unique):,} terms, more than {MAX_TERMS:,}. Name a shorter file."
        )
    return Vocabulary(tuple(unique.values()))


def as_text(phrases: Sequence[str]) -> str:
    """Return phrases as one text."""
    return BETWEEN.join(phrases)


def plain_form(text: str) -> str:
    """Return the words of a text, each between two spaces, for comparisons.

    In scripts without blanks between words, each letter counts as a word.
    """
    folded = unicodedata.normalize("NFKC", normalizable(text)).casefold()
    # A space on either side of every word: "art" is not found in "heart", and "a b" is found in "a b c".
    return "".join(f" {word} " for word in _WORD.findall(spaced(folded)))


class Matcher:
    """Finds any number of terms in one pass over a text (Aho and Corasick 1975)."""

    def __init__(self, terms: Sequence[str]) -> None:
        # Imported here: only methods with phrases need it.
        import ahocorasick

        self._automaton: Any = ahocorasick.Automaton()
        for number, term in enumerate(terms):
            self._automaton.add_word(plain_form(term), number)
        self._automaton.make_automaton()

    def find(self, text: str) -> list[int]:
        """Return the numbers of the terms in a text, in order, with repetitions."""
        return [number for _, number in self._automaton.iter_long(plain_form(text))]

    def distinct(self, text: str, most: int) -> list[int]:
        """Return the first `most` different terms of a text."""
        return list(dict.fromkeys(self.find(text)))[:most]
