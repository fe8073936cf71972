"""Text forms for storage and for comparison, with the standard library only."""

import unicodedata


def encodable(text: str) -> str:
    """Return `text` with surrogate pairs joined and lone surrogates replaced.

    Neither SQLite nor Parquet can store surrogates.
    """
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


MOST_MARKS = 30
"""Combining marks in a row after which a joiner is inserted (Unicode Annex 15, stream-safe text format)."""
_SHORT = 2000


def normalizable(text: str) -> str:
    """Return `text` without long runs of combining marks.

    Normalising such a run takes time quadratic in its length: a row of a few megabytes would stop a run for hours.
    """
    if len(text) <= _SHORT or text.isascii():
        return text
    parts, marks = [], 0
    for letter in text:
        marks = marks + 1 if unicodedata.combining(letter) else 0
        if marks > MOST_MARKS:
            parts.append(_JOINER)
            marks = 1
        parts.append(letter)
    return "".join(parts)


_JOINER = "\N{COMBINING GRAPHEME JOINER}"


def normal_form(text: str) -> str:
    """Return the form for comparing texts: NFC, case folded, white space collapsed."""
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", normalizable(text)).casefold())
    return " ".join(folded.split())


def plain_text(text: str) -> str:
    """Return the text in lower case, without punctuation and symbols, with single spaces."""
    letters = (" " if unicodedata.category(letter)[0] in "PS" else letter for letter in text.lower())
    return " ".join("".join(letters).split())
