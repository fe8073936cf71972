"""Forms of a text: one that every store can hold, one in which texts are compared. Standard library only."""

from __future__ import annotations

import unicodedata


def encodable(text: str) -> str:
    """Return `text` with halves of surrogate pairs joined or replaced: neither SQLite nor Parquet can hold them."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def normal_form(text: str) -> str:
    """Return the form in which texts are compared: NFC, case folded, white space collapsed."""
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
    return " ".join(folded.split())
