"""Conversion between text and word tokens, for the embedded language models."""

from __future__ import annotations

import re
from collections.abc import Sequence

_TOKEN = re.compile(r"\d+(?:[.,:/]\d+)*%?|\w+(?:[-'\u2019.@&/]\w+)*|\.{2,}|[!?]{2,}|[^\w\s\"']")
_NEEDLESS_SPACE = re.compile(r" (?=[,.!?;:)\]}%…\u2019/])|(?<=[(\[{#£$€/]) ")
_SENTENCE_START = re.compile(r"(?:^|(?<=[^.][.!?] ))\w")


def tokenise(text: str) -> list[str]:
    """Split a text into words, numbers and punctuation marks without quotes; case is preserved."""
    return _TOKEN.findall(text)


def ends_sentence(token: str) -> bool:
    """Return True for a full stop, exclamation or question marks, not for an ellipsis."""
    return token[0] in "!?" or tuple(token) == (".",)


def lower_starts(tokens: Sequence[str]) -> list[str]:
    """Return the tokens with lower-case words at sentence starts; 'I' and 'USB' keep their case."""
    starts = [True, *map(ends_sentence, tokens)]
    return [
        token.lower() if is_start and len(token) > 1 and token[1:].islower() else token
        for token, is_start in zip(tokens, starts, strict=False)
    ]


def detokenise(tokens: Sequence[str]) -> str:
    """Join tokens into a text with normal spacing, and capitals at sentence starts."""
    text = _NEEDLESS_SPACE.sub("", " ".join(tokens))
    return _SENTENCE_START.sub(lambda start: start[0].upper(), text)
