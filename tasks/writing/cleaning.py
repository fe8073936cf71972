"""Turn a completion into a text of the data set, or name the reason to drop it."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from connectors.interfaces.languages import ENGLISH
from connectors.interfaces.prompts import Prompt
from tasks.writing import cleaning_rules as patterns
from tasks.writing.language_check import is_foreign
from tasks.writing.prompts import CONTRASTIVE, GOOD_ONLY, ZERO_SHOT
from tasks.writing.several_texts import first_of_several

MIN_WORDS = 3
MIN_LETTERS = 8
ECHO_WORDS = 8
MAX_NON_LATIN = 0.03
MAX_NON_LETTERS = 0.35
MIN_FUNCTION_WORDS = 0.12
MIN_DISTINCT_TRIGRAMS = 0.6
CACHED = 512
"""Instructions and examples whose words are kept."""

_WORD = re.compile(r"\w+(?:'\w+)?")
_USUAL_WORDS = patterns.FUNCTION_WORDS.union(
    _WORD.findall(f"{ZERO_SHOT} {CONTRASTIVE} {GOOD_ONLY}".casefold())
)
"""Words of an instruction that do not name its item."""


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A cleaned text; `reason` excludes it from the data set, None if it may enter.

    `is_first_of_several`: the completion contains further texts, which are left out.
    """

    text: str
    reason: str | None = None
    is_first_of_several: bool = False


@dataclass(frozen=True)
class _Answer:
    """A trimmed text and its prompt, tokenised once for all checks. `body`: the text with its line breaks."""

    body: str
    prompt: Prompt
    language: str
    is_recognised: bool

    @cached_property
    def text(self) -> str:
        return " ".join(_unquoted(self.body).split())

    @cached_property
    def words(self) -> list[str]:
        return _words(self.text)

    @cached_property
    def prompt_words(self) -> tuple[str, ...]:
        return _words_of(_instruction(self.prompt))

    @cached_property
    def letters(self) -> list[str]:
        return [character for character in self.text if character.isalpha()]


def normalised(text: str) -> str:
    """Return the normal form of a text for comparisons: characters, case, blanks."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def clean(text: str, prompt: Prompt, language: str = "en", is_recognised: bool = False) -> Cleaned:
    """Trim a completion and judge it.

    `is_recognised`: leave out texts in another language than `language`, if it is not English. Texts in another
    language than English are always left out of an English task.

    Trimmed: control characters, fences, lead-ins, list markers, enclosing quotes, closing remarks, white space, and
    all texts after the first of several.
    Reasons, first match: empty, format, too_short, placeholder, garbled, refusal, meta, prompt_echo, copied_example,
    punctuation, repetition, wrong_language.
    """
    body, is_first_of_several = _trimmed(text, prompt)
    answer = _Answer(body, prompt, language, is_recognised)
    reason = next((reason for reason, applies in _CHECKS if applies(answer)), None)
    return Cleaned(answer.text, reason, is_first_of_several)


# --- trimming
def _trimmed(text: str, prompt: Prompt) -> tuple[str, bool]:
    """Return the first text of a completion, with its line breaks, and True if others follow it."""
    prompt_words = frozenset(_words_of(_instruction(prompt)))
    topic = _words(f"{prompt.label} {prompt.description} {prompt.attribute}")
    text = patterns.INVISIBLE.sub("", text.replace("\r\n", "\n"))
    for pattern, replacement in patterns.MARKUP:
        text = pattern.sub(replacement, text)
    names = prompt_words.difference(topic, _USUAL_WORDS)
    # Before the lead-ins: `Review 1:` is a heading that they remove, and the sign of a list.
    text, is_first_of_several = first_of_several(text.strip(), names)
    text = patterns.FENCE.sub(r"\1", _without_lead_ins(text.strip(), prompt_words))
    # A lead-in can precede a list.
    if not is_first_of_several:
        text, is_first_of_several = first_of_several(text, names)
    for pattern in patterns.TAILS:
        # From the second character on: a text that is nothing but such a remark stays, to be judged as one.
        if pattern.search(text, 1):
            text = pattern.split(text, maxsplit=1)[0]
    return patterns.LIST_MARKER.sub("", text.strip(), count=1), is_first_of_several


def _without_lead_ins(text: str, prompt_words: frozenset[str]) -> str:
    """Remove 'Sure! Here is ...:' and headings that repeat the prompt.

    Such a heading is 'Better movie review:'.
    """
    for pattern in patterns.LEAD_INS:
        if match := pattern.match(_straight(text)):
            text = text[match.end() :]
    match = patterns.HEADING.match(_straight(text))
    if match:
        words = _words(match[1])
        if len(words) >= 2 and prompt_words.issuperset(
            word for word in words if not word.isdigit()
        ):
            text = text[match.end() :]
    return text.strip()


def _unquoted(text: str) -> str:
    """Remove quotes around the whole text, and an opening quote that is never closed."""
    text = text.strip()
    for opening, closing in patterns.QUOTES:
        if not text.startswith(opening):
            continue
        inner = text[len(opening) :]
        end = inner.find(closing)
        if end < 0:
            return inner.strip()
        if end == len(inner) - 1:
            return inner[:end].strip()
        if inner[end + 1 :].startswith("\n"):
            return inner[:end].strip()
    return text


# --- judging
def _words(text: str) -> list[str]:
    return _WORD.findall(_straight(text).casefold())


@lru_cache(CACHED)
def _words_of(text: str) -> tuple[str, ...]:
    """Return the words of an instruction or example, which many prompts have in common."""
    return tuple(_words(text))


def _straight(text: str) -> str:
    return text.replace("\u2019", "'")


def _instruction(prompt: Prompt) -> str:
    """Return the prompt without its examples: text that must not be repeated."""
    text = prompt.text
    for example in prompt.shown:
        text = text.replace(" ".join(example.split()), " ")
    return text


def _is_markup(answer: _Answer) -> bool:
    """Detect data, code and pages in place of a text, unless the prompt names their form."""
    return any(
        names.isdisjoint(answer.prompt_words) and pattern.search(answer.body)
        for names, pattern in patterns.FORMATS
    )


def _too_short(answer: _Answer) -> bool:
    # Without blanks a sentence is one word, and a character says as much as a word.
    if answer.language in patterns.UNSPACED:
        return len(answer.letters) < MIN_WORDS
    return len(answer.words) < MIN_WORDS or len(answer.letters) < MIN_LETTERS


def _echoes(answer: _Answer) -> bool:
    return not _runs_of(answer.prompt_words).isdisjoint(_runs(answer.words, ECHO_WORDS))


def _runs(words: Sequence[str], size: int) -> set[str]:
    return {" ".join(words[start : start + size]) for start in range(len(words) - size + 1)}


@lru_cache(CACHED)
def _runs_of(words: tuple[str, ...]) -> set[str]:
    """Return the runs of an instruction's words; never change them."""
    return _runs(words, ECHO_WORDS)


def _copies(answer: _Answer) -> bool:
    text = f" {' '.join(answer.words)} "
    # A short example may occur in a new text by chance, so it counts only as the whole text.
    for example in (*answer.prompt.good, *answer.prompt.bad):
        words = list(_words_of(example))
        if words == answer.words or (len(words) >= ECHO_WORDS and f" {' '.join(words)} " in text):
            return True
    return False


def _foreign(answer: _Answer) -> bool:
    """Detect texts in another language than the one of the task."""
    # The check of English tasks is that of earlier versions: their stored texts and keys stay valid.
    if answer.language == ENGLISH:
        return _is_not_english(answer)
    return answer.is_recognised and is_foreign(answer.text, answer.language)


def _is_not_english(answer: _Answer) -> bool:
    """Detect languages other than English by script, then by function words.

    Names in brackets may have their own script. Short texts fail only if they have no function word at all.
    """
    if not answer.text.isascii():
        outside = patterns.IN_BRACKETS.sub("", answer.text)
        non_latin = sum(map(str.isalpha, outside)) - sum(
            map(str.isalpha, patterns.NON_LATIN.sub("", outside))
        )
        if non_latin > MAX_NON_LATIN * len(answer.letters):
            return True
    if len(answer.words) < 10:
        return False
    share = sum(word in patterns.FUNCTION_WORDS for word in answer.words) / len(answer.words)
    if len(answer.words) < 20:
        return share == 0
    return share < MIN_FUNCTION_WORDS


def _noisy(answer: _Answer) -> bool:
    if patterns.LONG_RUN.search(answer.text):
        return True
    dense = len(answer.text) - answer.text.count(" ")
    marks = 0
    # Combining marks belong to letters in many scripts.
    if not answer.text.isascii():
        marks = sum(unicodedata.category(c).startswith("M") for c in answer.text)
    return dense - len(answer.letters) - marks > MAX_NON_LETTERS * dense


def _loops(answer: _Answer) -> bool:
    if patterns.SAME_WORD.search(answer.text):
        return True
    trigrams = len(answer.words) - 2
    return trigrams >= 12 and len(_runs(answer.words, 3)) < MIN_DISTINCT_TRIGRAMS * trigrams


def _any(table: tuple[re.Pattern[str], ...]) -> Callable[[_Answer], bool]:
    return lambda answer: any(pattern.search(_straight(answer.text)) for pattern in table)


# The first match names the reason, so what is certain comes before what is likely, and causes before their effects.
_CHECKS: tuple[tuple[str, Callable[[_Answer], bool]], ...] = (
    ("empty", lambda answer: not answer.text),
    ("format", _is_markup),
    ("too_short", _too_short),
    ("placeholder", _any(patterns.PLACEHOLDERS)),
    ("garbled", _any(patterns.GARBLED)),
    ("refusal", _any(patterns.REFUSALS)),
    ("meta", _any(patterns.META)),
    ("prompt_echo", _echoes),
    ("copied_example", _copies),
    ("punctuation", _noisy),
    ("repetition", _loops),
    ("wrong_language", _foreign),
)
