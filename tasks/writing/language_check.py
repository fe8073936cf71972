"""Recognise the language of texts with the package py3langid (Lui and Baldwin 2012, naive Bayes of byte sequences)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from connectors.interfaces.languages import ENGLISH, NAMES
from connectors.interfaces.text_forms import spaced

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

MIN_LETTERS: Final = 24
"""Letters of a text that is judged: a few words can be names, or of many languages."""
UNSPACED_LETTER: Final = 3
"""Letters that one of a script without blanks counts as: it says as much as a syllable."""
MAX_RATIO: Final = 0.2
"""Likelihood of the language of the task, as a part of that of the most likely one, below which a text is in another.

Made-up sentences in English, German, French, Chinese and Arabic have 0.4 to 1 in their language, 0.0004 at most in the
others."""
MIN_OTHER: Final = 0.25
"""Likelihood that another language must have; abbreviations and numbers have less in all of them."""
LATIN: Final = "la"
"""Not another language: terms of medicine and law are Latin in many."""
CLOSE: Final = (
    frozenset({"no", "nb", "nn", "da"}),
    frozenset({"hr", "bs", "sr"}),
    frozenset({"id", "ms"}),
    frozenset({"cs", "sk"}),
    frozenset({"pt", "gl"}),
    frozenset({"nl", "af"}),
    frozenset({"de", "lb"}),
    frozenset({"zh", "wuu", "yue"}),
    frozenset({"ar", "ary", "arz"}),
)
"""Languages that short texts do not tell apart: a text in one of a group may be in each of them."""
MIN_PROPOSED: Final = 0.5
"""Likelihood of a language above which it is proposed instead of English."""
READ_CHARACTERS: Final = 2000
"""Beginning of a text that decides."""


def is_recognised(language: str) -> bool:
    """Return True if texts in a language can be told from texts in others."""
    return not _close_to(language).isdisjoint(_identifier().labels)


def is_foreign(text: str, language: str) -> bool:
    """Return True if a text is in another language; False for a few words, or if the language is not recognised."""
    if not is_recognised(language) or _letters(text) < MIN_LETTERS:
        return False
    likely = dict(_ranked(text[:READ_CHARACTERS]))
    own = sum(likely.pop(code, 0.0) for code in _close_to(language))
    likely.pop(LATIN, None)
    other = max(likely.values())
    return other >= MIN_OTHER and own < MAX_RATIO * other


def likely_language(texts: Sequence[str]) -> str:
    """Return the most likely language of texts as a code of ISO 639-1; 'en' if none is likely."""
    ranked = _ranked(" ".join(text[:READ_CHARACTERS] for text in texts))
    # The library also knows languages that have a code of three letters alone.
    code, share = next((code, share) for code, share in ranked if code in NAMES)
    if share < MIN_PROPOSED:
        return ENGLISH
    return code


def _close_to(language: str) -> frozenset[str]:
    """Return the languages that a text in `language` may be taken for."""
    return next((group for group in CLOSE if language in group), frozenset({language}))


def _letters(text: str) -> int:
    """Return the letters of a text; one of a script without blanks counts as several."""
    unspaced = (len(spaced(text)) - len(text)) // 2
    return sum(map(str.isalpha, text)) + (UNSPACED_LETTER - 1) * unspaced


def _ranked(text: str) -> list[tuple[str, float]]:
    """Return all languages with their likelihood, the most likely one first."""
    ranked: list[tuple[str, float]] = _identifier().rank(text)
    return ranked


@cache
def _identifier() -> LanguageIdentifier:
    # Imported here: it unpacks 20 MB, and no text of an English task needs it.
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
