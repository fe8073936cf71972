"""Searches synthetic texts for long verbatim passages of private rows; the result has no noise and is not private.

Private rows never reach a language model. A text that contains a private passage means that a model has memorised it
from another source, or that there is a defect. Either way the owner must see it before an export. The only output is
one bit, marked not private; the passages are written for the owner of the rows.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Final

from connectors.interfaces.content_keys import digest
from connectors.interfaces.text_forms import normal_form
from tasks.private.rows.quarantine import sealed, write_for_owner
from tasks.private.rows.rows import open_rows
from tasks.steps.tools import Tools
from tasks.steps.values import Overlap

MIN_PASSAGE: Final = 8
"""Shorter sequences of words are common phrases and prove nothing."""

MAX_PASSAGE: Final = 12
"""A sequence of this many words is a copy, even between very similar texts of one domain."""

_WORD = re.compile(r"[^\W_]+")
_CHARACTER = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")
_CHARACTERS_PER_WORD: Final = 2


def passages(text: str, words: int) -> Iterator[str]:
    """Yield every sequence of `words` words of a text, without punctuation and case.

    In scripts without spaces (Chinese, Japanese) two characters count as a word.
    """
    for tokens, joint, size in _sequences(text):
        length = words * size
        yield from (
            joint.join(tokens[start : start + length]) for start in range(len(tokens) - length + 1)
        )


def copied_passages(text: str, words: int, private: Set[str], public: Set[str]) -> Iterator[str]:
    """Yield the passages of a text that are private and have at least `MIN_PASSAGE` words that no public passage has.

    A standard sentence that public rows have too is no copy, and neither is its beginning with a few words before it,
    which texts of one domain share by chance.

    Args:
        text: the text that is searched.
        words: length of the passages in `private`.
        private: passages of the private rows.
        public: passages of `MIN_PASSAGE` words of public texts.
    """
    for tokens, joint, size in _sequences(text):
        length = words * size
        least = MIN_PASSAGE * size
        is_own = [True] * len(tokens)
        # First all words that public texts have, in passages of any place, then the copies with enough other words.
        for start in range(len(tokens) - least + 1):
            if joint.join(tokens[start : start + least]) in public:
                is_own[start : start + least] = [False] * least
        for start in range(len(tokens) - length + 1):
            passage = joint.join(tokens[start : start + length])
            if passage in private and sum(is_own[start : start + length]) >= least:
                yield passage


def _sequences(text: str) -> tuple[tuple[list[str], str, int], ...]:
    """Return the words and the characters of scripts without spaces, what joins them, and how many count as a word."""
    plain = normal_form(text)
    return (_WORD.findall(plain), " ", 1), (_CHARACTER.findall(plain), "", _CHARACTERS_PER_WORD)


def chance_words(texts: Iterable[str], public: Sequence[str]) -> int:
    """Return the number of words from which on a shared passage counts as a copy.

    It is longer than any passage that the texts share with public texts. Public rows and instructions resemble private
    rows; passages that they share with the texts are coincidence or common phrases. The result is at least 8. It is at
    most 12: a text that quotes a public row must not excuse other passages.
    """
    samples = list(texts)
    for words in range(MIN_PASSAGE, MAX_PASSAGE):
        if _all_passages(samples, words).isdisjoint(_all_passages(public, words)):
            return words
    return MAX_PASSAGE


def search_copies(
    tools: Tools, fingerprint: str, texts: Mapping[int, str], public: Sequence[str]
) -> Overlap:
    """Search texts (by id) for passages of private rows that no public text has.

    Reads the rows of the run with this fingerprint; PrivateInputError (PRIVATE-CHANGED) if they changed. The passages
    are written to private/problems for the owner; only the yes/no result leaves. It is a function of private rows
    without noise and not part of epsilon. The same texts are searched once: their stored answer is read back.
    """
    path = tools.zone.folder / f"overlap-{tools.run_id}.json"
    key = digest([fingerprint, {str(sample): text for sample, text in texts.items()}, list(public)])
    # A second search would be a second look at the rows, which the ledger has to record.
    if path.exists():
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored.get("key") == key:
            return _overlap(stored["problems"], stored["words"], path)
    words = chance_words(texts.values(), public)
    with sealed(tools.zone.folder):
        rows = open_rows(tools.zone, tools.private, fingerprint)
        private = _all_passages(rows.texts, words)
        standard = _all_passages(public, MIN_PASSAGE)
        copies = [
            {"sample_id": sample, "passage": passage}
            for sample, text in texts.items()
            for passage in dict.fromkeys(copied_passages(text, words, private, standard))
        ]
        details = {
            "code": "PRIVATE-OVERLAP",
            "run_id": tools.run_id,
            "words": words,
            "key": key,
            "problems": copies,
        }
        write_for_owner(path, json.dumps(details, indent=2, ensure_ascii=False))
        return _overlap(copies, words, path)


def _overlap(copies: Sequence[object], words: int, path: Path) -> Overlap:
    """Return the result of a search, with the file that lists copies if there are any."""
    if copies:
        return Overlap(False, words, path)
    return Overlap(True, words, None)


def _all_passages(texts: Iterable[str], words: int) -> set[str]:
    return {passage for text in texts for passage in passages(text, words)}
