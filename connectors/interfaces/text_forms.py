"""Text forms for storage and for comparison, with the standard library only."""

from __future__ import annotations

import unicodedata


def encodable(text: str) -> str:
    """Return `text` with surrogate pairs joined and lone surrogates replaced.

    Neither SQLite nor Parquet can store surrogates.
    """
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def normal_form(text: str) -> str:
    """Return the form for comparing texts: NFC, case folded, white space collapsed."""
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
    return " ".join(folded.split())
