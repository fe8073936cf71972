"""Conversion between text and word tokens, for the embedded language models."""

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
    """Split a text into words, numbers and punctuation marks; case is preserved."""
    return _TOKEN.findall(text)


def ends_sentence(token: str) -> bool:
    """Return True for a full stop, exclamation or question marks, not for an ellipsis."""
    return token in SENTENCE_ENDS or token[0] in "!?"


def detokenise(tokens: Sequence[str]) -> str:
    """Join tokens into a text with normal spacing, and capitals at sentence starts."""
    pieces: list[str] = []
    open_quotes: set[str] = set()
    is_joined = is_start = True
    for token in tokens:
        closing = token in open_quotes
        tight = token[0] in _NO_SPACE_BEFORE or token == "/" or closing  # noqa: S105
        pieces.append(("" if is_joined or tight else " ") + (_capital(token) if is_start else token))
        is_joined = token in _NO_SPACE_AFTER or (token in _QUOTES and not closing)
        if token in _QUOTES:
            open_quotes ^= {token}
        elif not is_joined:
            is_start = ends_sentence(token)
    return "".join(pieces)


def _capital(token: str) -> str:
    return token[0].upper() + token[1:]


class Truecaser:
    """Lowercases words that are capitalised only at a sentence start.

    Names and 'I' keep their case. A form counts as a name if, within sentences, the corpus capitalises it at least as
    often as not.
    """

    def __init__(self, texts: Iterable[Sequence[str]]) -> None:
        inside = Counter(token for tokens in texts for before, token in pairwise(tokens) if before not in "!?.")
        self._names = frozenset(
            token for token, count in inside.items() if token[0].isupper() and count >= inside[token.lower()]
        )

    def lower_starts(self, tokens: Sequence[str]) -> list[str]:
        """Return the tokens with sentence-initial words in their case within sentences."""
        result: list[str] = []
        is_start = True
        for token in tokens:
            plain = token[0].isupper() and token[1:] == token[1:].lower() and token not in self._names
            result.append(token.lower() if is_start and plain else token)
            is_start = ends_sentence(token)
        return result
