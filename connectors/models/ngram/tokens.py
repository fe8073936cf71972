"""Text to word tokens and back, for the embedded language models."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

_TOKEN = re.compile(r"\d+(?:[.,:/]\d+)*%?|\w+(?:[-'\u2019.@&/]\w+)*|\.{2,}|[!?]{2,}|[^\w\s]")
_NO_SPACE_BEFORE = frozenset(",.!?;:)]}%…\u2019")
_NO_SPACE_AFTER = frozenset("([{#£$€/")
_QUOTES = frozenset("\"'")
SENTENCE_ENDS = frozenset(".!?")


def tokenise(text: str) -> list[str]:
    """Split a text into words, numbers and punctuation marks; case is kept."""
    return _TOKEN.findall(text)


def ends_sentence(token: str) -> bool:
    """Say whether a token is a full stop or made of exclamation and question marks; dots of omission end nothing."""
    return token in SENTENCE_ENDS or token[0] in "!?"


def detokenise(tokens: Sequence[str]) -> str:
    """Join tokens into a text: blanks where writers set them, capitals where sentences begin."""
    pieces: list[str] = []
    open_quotes: set[str] = set()
    joined = begins = True
    for token in tokens:
        closing = token in open_quotes
        tight = token[0] in _NO_SPACE_BEFORE or token == "/" or closing  # noqa: S105
        pieces.append(("" if joined or tight else " ") + (_capital(token) if begins else token))
        joined = token in _NO_SPACE_AFTER or (token in _QUOTES and not closing)
        if token in _QUOTES:
            open_quotes ^= {token}
        elif not joined:
            begins = ends_sentence(token)
    return "".join(pieces)


def _capital(token: str) -> str:
    return token[0].upper() + token[1:]


class Truecaser:
    """Takes away the capitals that words carry only because a sentence begins; keeps names and 'I'.

    A form counts as a name if the corpus writes it with a capital inside sentences at least as often as without.
    """

    def __init__(self, texts: Iterable[Sequence[str]]) -> None:
        inside = Counter(token for tokens in texts for before, token in pairwise(tokens) if before not in "!?.")
        self._names = frozenset(
            token for token, count in inside.items() if token[0].isupper() and count >= inside[token.lower()]
        )

    def lower_starts(self, tokens: Sequence[str]) -> list[str]:
        """Return the tokens with sentence-initial words in the case they have inside sentences."""
        result: list[str] = []
        begins = True
        for token in tokens:
            plain = token[0].isupper() and token[1:] == token[1:].lower() and token not in self._names
            result.append(token.lower() if begins and plain else token)
            begins = ends_sentence(token)
        return result
