"""Turn a completion into a text of the data set, or name the reason to drop it."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from connectors.interfaces.languages import ENGLISH
from connectors.interfaces.prompts import Prompt
from tasks.writing import cleaning_rules as patterns
from tasks.writing.forms import PROSE, Form, form_of
from tasks.writing.language_check import is_foreign
from tasks.writing.prompts import CONTRASTIVE, GOOD_ONLY, ZERO_SHOT
from tasks.writing.several_texts import first_of_several

ECHO_WORDS = 8
MAX_NON_LATIN = 0.03
MIN_FUNCTION_WORDS = 0.12
CACHED = 512
"""Instructions and examples whose words are kept."""

_WORD = re.compile(r"\w+(?:'\w+)?")
_BLANK_LINES = re.compile(r"\n{3,}")
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
    form: Form

    @cached_property
    def text(self) -> str:
        body = self.body
        if not self.form.is_verbatim:
            body = _unquoted(body)
        if self.form.keeps_lines:
            return _with_lines(body)
        return " ".join(body.split())

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


def clean(
    text: str,
    prompt: Prompt,
    language: str = "en",
    is_recognised: bool = False,
    form: str = PROSE,
) -> Cleaned:
    """Trim a completion and judge it.

    `is_recognised`: leave out texts in another language than `language`, if it is not English. Texts in another
    language than English are always left out of an English task. `form`: the form of text (`tasks/writing/forms.py`),
    which decides on limits.

    Trimmed: control characters, fences, lead-ins, list markers, enclosing quotes, closing remarks, white space, and
    all texts after the first of several.
    Reasons, first match: empty, format, too_short, placeholder, garbled, refusal, meta, prompt_echo, copied_example,
    punctuation, repetition, wrong_language, form.
    """
    limits = form_of(form)
    body, is_first_of_several = _trimmed(text, prompt, limits)
    answer = _Answer(body, prompt, language, is_recognised, limits)
    reason = next(
        (reason for reason, applies in _CHECKS if reason not in limits.skips and applies(answer)),
        None,
    )
    return Cleaned(answer.text, reason, is_first_of_several)


# --- trimming
def _trimmed(text: str, prompt: Prompt, form: Form) -> tuple[str, bool]:
    """Return the first text of a completion, with its line breaks, and True if others follow it."""
    if form.is_verbatim:
        return _verbatim(text), False
    text, is_first_of_several = _first_text(text, prompt, form)
    if not form.is_one_line:
        return text, is_first_of_several
    lines = [line for line in text.splitlines() if line.strip()]
    return "".join(lines[:1]), is_first_of_several or len(lines) > 1


def _verbatim(text: str) -> str:
    """Return the first block of code of a completion, or all of it without a lead-in."""
    text = patterns.INVISIBLE.sub("", text.replace("\r\n", "\n"))
    if block := patterns.FENCED.search(text):
        return block[1]
    # Not stripped on the left: the first line may be indented.
    for pattern in patterns.LEAD_INS_OF_CODE:
        if match := pattern.match(_straight(text)):
            text = text[match.end() :]
    return text.strip("\n")


def _with_lines(text: str) -> str:
    """Return a text with its line breaks, without blanks at the ends of lines and with at most one blank line."""
    lines = "\n".join(line.rstrip() for line in text.splitlines())
    return _BLANK_LINES.sub("\n\n", lines).strip("\n")


def _first_text(text: str, prompt: Prompt, form: Form) -> tuple[str, bool]:
    """Return the first text of a completion, with its line breaks, and True if others follow it."""
    prompt_words = frozenset(_words_of(_instruction(prompt)))
    topic = _words(f"{prompt.label} {prompt.description} {prompt.attribute}")
    text = patterns.INVISIBLE.sub("", text.replace("\r\n", "\n"))
    for pattern, replacement in patterns.MARKUP:
        text = pattern.sub(replacement, text)
    names = prompt_words.difference(topic, _USUAL_WORDS, _words(form.request))
    text = text.strip()
    is_first_of_several = False
    # Before the lead-ins: `Review 1:` is a heading that they remove, and the sign of a list.
    if not form.is_whole:
        text, is_first_of_several = first_of_several(text, names)
    text = patterns.FENCE.sub(r"\1", _without_lead_ins(text.strip(), prompt_words))
    # A lead-in can precede a list.
    if not is_first_of_several and not form.is_whole:
        text, is_first_of_several = first_of_several(text, names)
    for pattern in patterns.TAILS:
        if form.is_whole and pattern is patterns.RULE:
            continue
        # From the second character on: a text that is nothing but such a remark stays, to be judged as one.
        if pattern.search(text, 1):
            text = pattern.split(text, maxsplit=1)[0]
    text = text.strip()
    if not form.is_whole:
        text = patterns.LIST_MARKER.sub("", text, count=1)
    return text, is_first_of_several


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
        # On one line, or as it is: prompts of some forms show examples with their line breaks.
        text = text.replace(" ".join(example.split()), " ").replace(example, " ")
    return text


def _is_markup(answer: _Answer) -> bool:
    """Detect data, code and pages in place of a text, unless the prompt names their form."""
    allowed = answer.form.formats.union(answer.prompt_words)
    return any(
        names.isdisjoint(allowed) and pattern.search(answer.body)
        for names, pattern in patterns.FORMATS
    )


def _too_short(answer: _Answer) -> bool:
    # Without blanks a sentence is one word, and a character says as much as a word.
    if answer.language in patterns.UNSPACED:
        return len(answer.letters) < min(answer.form.min_words, answer.form.min_letters)
    return (
        len(answer.words) < answer.form.min_words or len(answer.letters) < answer.form.min_letters
    )


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
    if "long_run" not in answer.form.skips and patterns.LONG_RUN.search(answer.text):
        return True
    dense = len(answer.text) - answer.text.count(" ")
    marks = 0
    # Combining marks belong to letters in many scripts.
    if not answer.text.isascii():
        marks = sum(unicodedata.category(c).startswith("M") for c in answer.text)
    return dense - len(answer.letters) - marks > answer.form.max_non_letters * dense


def _loops(answer: _Answer) -> bool:
    if patterns.SAME_WORD.search(answer.text):
        return True
    trigrams = len(answer.words) - 2
    return trigrams >= 12 and len(_runs(answer.words, 3)) < answer.form.min_distinct * trigrams


def _any(table: tuple[re.Pattern[str], ...]) -> Callable[[_Answer], bool]:
    return lambda answer: any(pattern.search(_straight(answer.text)) for pattern in table)


_is_meta = _any(patterns.META)
_is_offer = _any(patterns.OFFERS)


def _comments(answer: _Answer) -> bool:
    """Detect comments on the request in place of its result."""
    return _is_meta(answer) or ("offer" not in answer.form.skips and _is_offer(answer))


# The first match names the reason, so what is certain comes before what is likely, and causes before their effects.
_CHECKS: tuple[tuple[str, Callable[[_Answer], bool]], ...] = (
    ("empty", lambda answer: not answer.text),
    ("format", _is_markup),
    ("too_short", _too_short),
    ("placeholder", _any(patterns.PLACEHOLDERS)),
    ("garbled", _any(patterns.GARBLED)),
    ("refusal", _any(patterns.REFUSALS)),
    ("meta", _comments),
    ("prompt_echo", _echoes),
    ("copied_example", _copies),
    ("punctuation", _noisy),
    ("repetition", _loops),
    ("wrong_language", _foreign),
    ("form", lambda answer: not answer.form.is_fitting(answer.text)),
)
