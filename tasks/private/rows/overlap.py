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
_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")
_VALUES_PER_WORD: Final = 5 / 8
"""Five named values in a row are a copy as eight words are: names and units are the same in all records."""
VALUES: Final = "values"
"""The form of texts (tasks/writing/forms.py) whose passages are values, not words."""


def values_in(words: int) -> int:
    """Return the number of named values that is as long as `words` words: 5 for 8, 8 for 12."""
    return round(words * _VALUES_PER_WORD)


def passages(text: str, words: int, form: str = "") -> Iterator[str]:
    """Yield every sequence of `words` words of a text, without punctuation and case.

    In scripts without spaces (Chinese, Japanese) two characters count as a word. In texts of the form `values` five
    numbers, each with the word before it, count as eight words, and words count where no number is between them.
    """
    for tokens, joint, size in _sequences(text, form):
        length = round(words * size)
        yield from (
            joint.join(tokens[start : start + length]) for start in range(len(tokens) - length + 1)
        )


def copied_passages(
    text: str, words: int, private: Set[str], public: Set[str], form: str = ""
) -> Iterator[str]:
    """Yield the passages of a text that are private and have at least `MIN_PASSAGE` words that no public passage has.

    A standard sentence that public rows have too is no copy, and neither is its beginning with a few words before it,
    which texts of one domain share by chance.

    Args:
        text: the text that is searched.
        words: length of the passages in `private`.
        private: passages of the private rows.
        public: passages of `MIN_PASSAGE` words of public texts.
        form: form of the texts.
    """
    for tokens, joint, size in _sequences(text, form):
        length = round(words * size)
        least = round(MIN_PASSAGE * size)
        is_own = [True] * len(tokens)
        # First all words that public texts have, in passages of any place, then the copies with enough other words.
        for start in range(len(tokens) - least + 1):
            if joint.join(tokens[start : start + least]) in public:
                is_own[start : start + least] = [False] * least
        for start in range(len(tokens) - length + 1):
            passage = joint.join(tokens[start : start + length])
            if passage in private and sum(is_own[start : start + length]) >= least:
                yield passage


_Sequence = tuple[list[str], str, float]
"""Tokens, what joins them, and how many of them count as a word."""


def _sequences(text: str, form: str) -> list[_Sequence]:
    """Return the words of a text, and the characters of scripts without spaces; of values also the named values."""
    plain = normal_form(text)
    if form != VALUES:
        return _words_and_characters(plain)
    parts = _NUMBER.split(plain)
    # A comment between values is searched as any other text.
    words = [sequence for part in parts for sequence in _words_and_characters(part)]
    names = [(_WORD.findall(part) or [""])[-1] for part in parts]
    values = [
        f"{name} {number}" for name, number in zip(names, _NUMBER.findall(plain), strict=False)
    ]
    return [*words, (values, "; ", _VALUES_PER_WORD)]


def _words_and_characters(plain: str) -> list[_Sequence]:
    return [(_WORD.findall(plain), " ", 1), (_CHARACTER.findall(plain), "", _CHARACTERS_PER_WORD)]


def chance_words(texts: Iterable[str], public: Sequence[str], form: str = "") -> int:
    """Return the number of words from which on a shared passage counts as a copy.

    It is longer than any passage that the texts share with public texts. Public rows and instructions resemble private
    rows; passages that they share with the texts are coincidence or common phrases. The result is at least 8. It is at
    most 12: a text that quotes a public row must not excuse other passages.
    """
    samples = list(texts)
    for words in range(MIN_PASSAGE, MAX_PASSAGE):
        if _all_passages(samples, words, form).isdisjoint(_all_passages(public, words, form)):
            return words
    return MAX_PASSAGE


def search_copies(
    tools: Tools, fingerprint: str, texts: Mapping[int, str], public: Sequence[str], form: str = ""
) -> Overlap:
    """Search texts (by id) for passages of private rows that no public text has.

    Reads the rows of the run with this fingerprint; PrivateInputError (PRIVATE-CHANGED) if they changed. The passages
    are written to private/problems for the owner; only the yes/no result leaves. It is a function of private rows
    without noise and not part of epsilon. The same texts are searched once: their stored answer is read back.
    """
    path = tools.zone.folder / f"overlap-{tools.run_id}.json"
    searched = [fingerprint, {str(sample): text for sample, text in texts.items()}, list(public)]
    # Stored answers of earlier versions, which searched all texts for words, stay valid for other forms.
    if form == VALUES:
        searched.append(form)
    key = digest(searched)
    # A second search would be a second look at the rows, which the ledger has to record.
    if path.exists():
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored.get("key") == key:
            return _overlap(stored["problems"], stored["words"], path, form)
    words = chance_words(texts.values(), public, form)
    with sealed(tools.zone.folder):
        rows = open_rows(tools.zone, tools.private, fingerprint)
        private = _all_passages(rows.texts, words, form)
        standard = _all_passages(public, MIN_PASSAGE, form)
        copies = [
            {"sample_id": sample, "passage": passage}
            for sample, text in texts.items()
            for passage in dict.fromkeys(copied_passages(text, words, private, standard, form))
        ]
        details = {
            "code": "PRIVATE-OVERLAP",
            "run_id": tools.run_id,
            "words": words,
            "key": key,
            "problems": copies,
        }
        write_for_owner(path, json.dumps(details, indent=2, ensure_ascii=False))
        return _overlap(copies, words, path, form)


def _overlap(copies: Sequence[object], words: int, path: Path, form: str) -> Overlap:
    """Return the result of a search, with the file that lists copies if there are any."""
    values = values_in(words) if form == VALUES else 0
    if copies:
        return Overlap(False, words, path, values)
    return Overlap(True, words, None, values)


def _all_passages(texts: Iterable[str], words: int, form: str) -> set[str]:
    return {passage for text in texts for passage in passages(text, words, form)}
