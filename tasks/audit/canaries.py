"""Canaries: synthetic records that are inserted among rows with probability 1/2.

The attack searches for them afterwards. A canary begins like any row and ends in invented words (Meeus et al. 2025).
The beginning makes it take part like a row; the end cannot get into a text from anywhere else.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

RARE_WORDS: Final = 5
_LETTERS: Final = 7
_VOWELS, _CONSONANTS = "aeiou", "bcdfghjklmnpqrstvwxz"


@dataclass(frozen=True, slots=True)
class Canary:
    """One synthetic record: text, label, and the result of the coin."""

    text: str
    label: str
    included: bool


def make_canaries(rows: Sequence[tuple[str, str]], number: int) -> list[Canary]:
    """Return `number` canaries that begin like `rows`, each row equally often.

    `rows`: (text, label). Coins and words use the operating system's randomness: nobody can predict which canaries are
    included.
    """
    order = list(range(len(rows)))
    secrets.SystemRandom().shuffle(order)
    words = _rare_words(number * RARE_WORDS)
    return [
        _canary(*rows[order[index % len(order)]], words[index * RARE_WORDS : (index + 1) * RARE_WORDS])
        for index in range(number)
    ]


def _canary(text: str, label: str, words: Sequence[str]) -> Canary:
    # Half of the characters: scripts without spaces have no words to count.
    begun = text[: max(1, len(text) // 2)].rsplit(" ", 1)[0]
    return Canary(" ".join([begun, *words]), label, bool(secrets.randbits(1)))


def _rare_words(number: int) -> list[str]:
    """Return different made-up words."""
    words: set[str] = set()
    while len(words) < number:
        words.add(_rare_word())
    return list(words)


def _rare_word() -> str:
    return "".join(secrets.choice(_VOWELS if index % 2 else _CONSONANTS) for index in range(_LETTERS))
