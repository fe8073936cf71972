"""Forms of text: what prompts request and cleaning accepts, by a declaration of the owner.

Prose is the form of earlier versions. Other forms change prompts, limits of cleaning, the default of `max_tokens` and
the examples of prompts, because a rule that finds a damaged sentence also finds a line of values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from connectors.interfaces.text_forms import spaced

PROSE: Final = "prose"
MAX_TOKENS: Final = 8192
"""Largest default of `max_tokens`: more than most language models write at once."""
TOKENS_PER_WORD: Final = 2
"""Tokens of a word in the default of `max_tokens`: English words have 1.3 on average, German ones 1.8."""


@dataclass(frozen=True, slots=True)
class Form:
    """A form of text.

    Attributes:
        title: what a text of this form is, for messages.
        request: sentence of prompts; empty for prose.
        max_tokens: default of the task file.
        min_words, min_letters: a text with fewer is left out.
        max_non_letters: part of the characters without blanks that may be no letters.
        min_distinct: part of the trigrams of words that must differ.
        formats: data and pages that may be a text, by the words that name them in a prompt.
        skips: reasons of cleaning that do not apply.
        keeps_lines: a text has its line breaks, also as an example.
        is_verbatim: nothing but a fence and a lead-in is removed from an answer.
        is_whole: an answer is one text, whatever lists it contains.
        is_one_line: of an answer the first line counts.
        repeats: equal texts may occur several times.
        is_fitting: True for a text of this form.
    """

    title: str
    request: str = ""
    max_tokens: int = 256
    min_words: int = 3
    min_letters: int = 8
    max_non_letters: float = 0.35
    min_distinct: float = 0.6
    formats: frozenset[str] = frozenset()
    skips: frozenset[str] = frozenset()
    keeps_lines: bool = False
    is_verbatim: bool = False
    is_whole: bool = False
    is_one_line: bool = False
    repeats: bool = False
    is_fitting: Callable[[str], bool] = bool


_NUMBER = re.compile(r"\d")
_PART = re.compile(r"[;|\n\t]|,(?=\s)")
"""Separators between values; a comma without a blank belongs to a number."""
_VALUE = re.compile(
    r"\s*[^\W\d]\S{0,30}(?:\s[^\W\d]\S{0,30}){0,2}[\s:=<>~]+[+-]?\d[\d.,]*(?:\s*[^\s\d]\S{0,11}){0,3}[\s.]*"
)
"""A part such as `Creatinine 3.2 mg/dl H`: a name of at most three words, one number, and at most three words more."""
_MARK_OF_CODE = re.compile(r"[(){}\[\];=<>/\\|$&+*#@:_-]")
_TURN = re.compile(r"^[ \t>*_-]{0,4}([^\W\d_][\w .'()-]{0,30}?)[*_ ]{0,3}:(?=\s|$)", re.MULTILINE)
_CODE = re.compile(
    r"```|^\s*(?:from \w[\w.]* import \w|import \w[\w.]*(?: as \w+)?\s*$|def \w+\(|class \w+[(:]|#include\b|"
    r"function \w*\(|(?:const|let|var) \w+ ?=|(?:public|private|static) (?:static |class |void )|"
    r"SELECT\b[^\n]{1,200}\bFROM \w|<\?php|#!/)|\A\s*[{<\[][^\n]*\n[\s\S]*[}>\]]\s*\Z",
    re.MULTILINE,
)


def _has_turns(text: str) -> bool:
    """Return True for two or more turns, each with its speaker or on a line of its own."""
    return len(_TURN.findall(text)) > 1 or len([line for line in text.splitlines() if line]) > 1


FORMS: Final[dict[str, Form]] = {
    PROSE: Form("sentences"),
    "short": Form(
        "one word or a few",
        "One word or a few are enough, as people type them into a field; no full sentence is needed.",
        max_tokens=32,
        min_words=1,
        min_letters=1,
        max_non_letters=0.6,
        # A word that a real person would write is also one that another example has.
        skips=frozenset({"copied_example"}),
        is_one_line=True,
        repeats=True,
    ),
    "values": Form(
        "names and values",
        "It is a line of names with their values and units, without sentences around them.",
        min_words=1,
        min_letters=0,
        max_non_letters=1.0,
        formats=frozenset({"table"}),
        skips=frozenset({"repetition", "wrong_language"}),
        is_fitting=lambda text: _NUMBER.search(text) is not None,
    ),
    "code": Form(
        "source code or markup",
        "It is source code or markup alone, in one block, without an explanation.",
        max_tokens=512,
        min_words=1,
        min_letters=1,
        formats=frozenset({"json", "html", "table", "code"}),
        skips=frozenset({"placeholder", "punctuation", "repetition", "wrong_language"}),
        keeps_lines=True,
        is_verbatim=True,
        is_whole=True,
        is_fitting=lambda text: _MARK_OF_CODE.search(text) is not None,
    ),
    "dialogue": Form(
        "a dialogue",
        "It is a dialogue: each turn is a line of its own, which begins with the speaker and a colon.",
        max_tokens=512,
        skips=frozenset({"offer"}),
        keeps_lines=True,
        is_whole=True,
        is_fitting=_has_turns,
    ),
    "long": Form(
        "several paragraphs",
        "It is a whole document of several paragraphs.",
        max_tokens=2048,
        max_non_letters=0.5,
        min_distinct=0.4,
        formats=frozenset({"table"}),
        skips=frozenset({"long_run"}),
        keeps_lines=True,
        is_whole=True,
    ),
}
"""All forms by the name in a task file."""

MIN_SHARE: Final = 0.5
"""Part of the texts that have a form before it is proposed."""
MIN_SHORT: Final = 0.1
"""Part of the texts that are too short for prose before `short` is proposed: a run would never write such texts."""
MIN_STATED: Final = 100
"""Median of words from which on prose states its length: prompts of shorter texts were measured without one."""
LONG_WORDS: Final = 150
"""Median of words above which `long` is proposed: what the default of prose, 256 tokens, leaves room for."""


def form_of(name: str) -> Form:
    """Return the form with a name; prose for an empty one."""
    return FORMS[name or PROSE]


def tokens_for(name: str, words: int) -> int:
    """Return the default of `max_tokens` for a form and a declared number of words; 0: none is declared."""
    return max(form_of(name).max_tokens, min(MAX_TOKENS, TOKENS_PER_WORD * words))


def likely_form(texts: Sequence[str]) -> str:
    """Return the form that most of the texts have; prose if it is none of the others."""
    tests: dict[str, Callable[[str], bool]] = {
        "code": lambda text: _CODE.search(text) is not None,
        "dialogue": _is_dialogue,
        "values": _is_values,
    }
    for name, test in tests.items():
        if sum(map(test, texts)) >= MIN_SHARE * len(texts):
            return name
    if sum(map(_is_short, texts)) >= MIN_SHORT * len(texts):
        return "short"
    if median_words(texts) > LONG_WORDS:
        return "long"
    return PROSE


def median_words(texts: Sequence[str]) -> int:
    """Return the median number of words; a letter of a script without blanks counts as one."""
    return int(median(len(spaced(text).split()) for text in texts))


def stated_words(form: str, words: int) -> int | None:
    """Return the length to propose for a median of words, rounded to one digit; None where prompts need none.

    Rounded, because it becomes public: an exact median would say something about single records.
    """
    if words < (MIN_STATED if form == PROSE else 1):
        return None
    scale: int = 10 ** (len(str(words)) - 1)
    return round(words / scale) * scale


def _is_dialogue(text: str) -> bool:
    speakers = _TURN.findall(text)
    lines = sum(not line.isspace() for line in text.splitlines() if line)
    # A form with fields has as many colons, but each field once; a long letter has a few headings twice.
    is_repeated = 3 * len(set(speakers)) <= 2 * len(speakers)
    return len(speakers) > 2 and is_repeated and 3 * len(speakers) >= lines


def _is_values(text: str) -> bool:
    dense = [character for character in text if not character.isspace()]
    others = sum(not character.isalpha() for character in dense)
    if len(_NUMBER.findall(text)) < 3:
        return False
    if others > FORMS[PROSE].max_non_letters * len(dense):
        return True
    # Lines with long names have as many letters as a sentence.
    parts = [part for part in _PART.split(text) if part.strip()]
    values = sum(_VALUE.fullmatch(part) is not None for part in parts)
    return values > 1 and 2 * values >= len(parts)


def _is_short(text: str) -> bool:
    prose = FORMS[PROSE]
    words = spaced(text).split()
    # Letters of a script without blanks: three say as much as three words.
    is_spaced = len(text.split()) == len(words)
    letters = sum(map(str.isalpha, text))
    return len(words) < prose.min_words or (is_spaced and letters < prose.min_letters)


def limit_of(reason: str, name: str) -> str:
    """Return the limit of a form that left a text out, with what changes it; empty for other reasons."""
    form = form_of(name)
    written = name or PROSE
    if reason == "too_short":
        limit = f"too_short: fewer than {form.min_words} words or {form.min_letters} letters"
        if form.is_one_line:
            return limit
        return f"{limit}. Where the records are as short, write form: short into the task file"
    if reason == "punctuation":
        return (
            f"punctuation: more than {100 * form.max_non_letters:.0f} % of the characters are no letters. Where the "
            "records are lines of values, write form: values into the task file"
        )
    if reason == "wrong_language":
        return (
            "wrong_language: the text is not recognised as the language of the task. Where the records are lines of "
            "values, write form: values into the task file"
        )
    if reason == "format":
        return (
            "format: data, a page or code in place of a text. Where the records are such, write form: code into the "
            "task file"
        )
    if reason == "form":
        return f"form: the text is not of the form {written} ({form.title}). Change the item, or form in the task file"
    return ""
