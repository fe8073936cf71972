"""Detect texts that end in the middle of a sentence, most often at a token limit.

They stay in the data set, are counted by model, and are named wherever the texts are shown or shared.
"""

import re

import pandas as pd

MAX_SIGNATURE_WORDS = 5
"""Words after the last sentence that can be a signature or a title: `Kind regards, the night shift`."""

_END = "[.!?\u2026\u3002\uff01\uff1f\u0964\u061f\u06d4]"
_WHOLE = re.compile(rf"(?:{_END}|[^\w\s,;:(\[{{/&+=\u3001\uff0c-])[\"'\u201d\u2019\u00bb)\]*_\s]*$")
_SENTENCE = re.compile(rf"{_END}[\"'\u201d\u2019\u00bb)\]*_]*(?:\s+|(?<=[\u3002\uff01\uff1f]))")


def ends_in_the_middle(text: str, finish_reason: str) -> bool:
    """Return whether a text ends without the end of a sentence.

    If the server does not report the token limit (finish reason `length`), a text counts only if it contains a whole
    sentence before, so its form has them, and its rest is longer than a signature.
    """
    if _WHOLE.search(text):
        return False
    # Without a reported limit, verses and titles must not count: they end without a full stop as well.
    sentences = _SENTENCE.split(text)
    return finish_reason == "length" or (
        len(sentences) > 1 and len(sentences[-1].split()) > MAX_SIGNATURE_WORDS
    )


CUT_COLUMNS = ("plm", "text", "finish_reason")
"""Columns that `count_cut` reads."""


def count_cut(texts: pd.DataFrame) -> dict[str, int]:
    """Return the number of texts of each language model that end in the middle of a sentence."""
    is_cut = [
        ends_in_the_middle(*pair)
        for pair in zip(texts["text"], texts["finish_reason"], strict=True)
    ]
    return {str(plm): int(number) for plm, number in texts["plm"][is_cut].value_counts().items()}
