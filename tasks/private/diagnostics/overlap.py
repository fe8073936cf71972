"""Whether synthetic texts repeat long passages of private rows word for word; without noise, so not private.

Private rows never reach a language model, so a passage of theirs can only be there because a model knew it from
elsewhere, or because something is broken. Either way it should not be given away unseen. One bit leaves, marked; the
passages go to the rows' owner.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from connectors.interfaces.text_forms import normal_form
from tasks.core.refs import Overlap
from tasks.private.data.quarantine import sealed, write_for_owner
from tasks.private.data.rows import open_rows

if TYPE_CHECKING:
    from tasks.core.tools import Tools

SHORTEST: Final = 8
"""Shorter runs of words than this say nothing: people share them."""

LONGEST: Final = 12
"""A run of so many words is a copy, however much the texts of a field resemble each other."""

_WORD = re.compile(r"[^\W_]+")
_SIGN = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")
_SIGNS_PER_WORD: Final = 2


def passages(text: str, words: int) -> Iterator[str]:
    """Yield every run of so many words of a text, without punctuation and case.

    In writing without spaces (Chinese, Japanese) two signs count as a word.
    """
    plain = normal_form(text)
    found, signs = _WORD.findall(plain), _SIGN.findall(plain)
    length = words * _SIGNS_PER_WORD
    yield from (" ".join(found[start : start + words]) for start in range(len(found) - words + 1))
    yield from ("".join(signs[start : start + length]) for start in range(len(signs) - length + 1))


def chance_words(texts: Iterable[str], public: Sequence[str]) -> int:
    """Return how long a run of words must be to say something: longer than any that texts share with public ones.

    Public rows and instructions are of the same sort as private rows, and what they share with the texts is chance or
    what everybody writes. At least 8; at most 12, so that a text that quotes a public row excuses nothing else.
    """
    kept = list(texts)
    for words in range(SHORTEST, LONGEST):
        written = _every(kept, words)
        if written.isdisjoint(_every(public, words)):
            return words
    return LONGEST


def search_copies(tools: Tools, fingerprint: str, texts: Mapping[int, str], public: Sequence[str]) -> Overlap:
    """Look for passages of private rows in synthetic texts (by their ids) that stand in no public text.

    Opens the rows that the run with this fingerprint took; PrivateInputError (PRIVATE-CHANGED) if they are others now.
    What is found is written into private/problems for the owner; only the answer leaves. It is a function of private
    rows without noise and no part of epsilon.
    """
    words = chance_words(texts.values(), public)
    with sealed(tools.zone.folder):
        rows = open_rows(tools.zone, tools.private, fingerprint)
        known = _every(rows.texts, words) - _every(public, words)
        found = [
            {"sample_id": sample, "passage": passage}
            for sample, text in texts.items()
            for passage in dict.fromkeys(passages(text, words))
            if passage in known
        ]
        return Overlap(not found, words, _tell_owner(tools, words, found) if found else None)


def _every(texts: Iterable[str], words: int) -> set[str]:
    return {passage for text in texts for passage in passages(text, words)}


def _tell_owner(tools: Tools, words: int, found: list[dict[str, object]]) -> Path:
    path = tools.zone.folder / f"overlap-{tools.run_id}.json"
    told = {"code": "PRIVATE-OVERLAP", "run_id": tools.run_id, "words": words, "problems": found}
    write_for_owner(path, json.dumps(told, indent=2, ensure_ascii=False))
    return path
