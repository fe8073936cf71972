"""Canaries: made-up records that are planted among other rows, each if a coin says so, to be looked for afterwards.

A canary begins like any row and ends in words that nobody writes (Meeus et al. 2025): the beginning lets it take part
like a row, the end can come into a text from nowhere else.
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
    """One made-up record: text, label, and whether the coin put it among the rows."""

    text: str
    label: str
    included: bool


def make_canaries(rows: Sequence[tuple[str, str]], number: int) -> list[Canary]:
    """Return so many canaries that begin like `rows` (text, label), each row as often as any other.

    Coins and words come from the operating system's randomness: nobody can know beforehand which will be included.
    """
    order = list(range(len(rows)))
    secrets.SystemRandom().shuffle(order)
    return [_canary(*rows[order[place % len(order)]]) for place in range(number)]


def _canary(text: str, label: str) -> Canary:
    # Half of the signs: writing without spaces has no words to count.
    begun = text[: max(1, len(text) // 2)].rsplit(" ", 1)[0]
    rare = " ".join(_rare_word() for _ in range(RARE_WORDS))
    return Canary(f"{begun} {rare}", label, bool(secrets.randbits(1)))


def _rare_word() -> str:
    return "".join(secrets.choice(_VOWELS if place % 2 else _CONSONANTS) for place in range(_LETTERS))
