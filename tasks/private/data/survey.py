"""Describes private records to their owner, who sets up a run: classes, number, language.

Computed without noise, and shown to the owner alone. Of it only what the owner confirms becomes public: the names of
the classes, and a rounded number of records.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tasks.private.data.quarantine import sealed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from connectors.interfaces.rows import RowsRef
    from tasks.private.data.rows import Zone

SCRIPTS = {
    "ja": r"[\u3040-\u30ff]",
    "ko": r"[\uac00-\ud7af]",
    "zh": r"[\u4e00-\u9fff]",
    "ru": r"[\u0400-\u04ff]",
    "ar": r"[\u0600-\u06ff]",
    "hi": r"[\u0900-\u097f]",
    "el": r"[\u0370-\u03ff]",
    "th": r"[\u0e00-\u0e7f]",
}
"""Languages by a script that others rarely use; Japanese before Chinese, whose characters it contains."""
FUNCTION_WORDS = {
    "en": "the of and to in is that it was for my with",
    "de": "der die und das ist nicht ich zu ein mit auf den",
    "fr": "le la les et est de que je pas une dans pour",
    "es": "el los y es que en no un por con una para",
    "it": "il che di non è per una sono gli con mi della",
    "pt": "o que não de um uma para com os do é em",
    "nl": "de het een en van is niet dat ik te op zijn",
}
READ_TEXTS = 500


@dataclass(frozen=True, slots=True)
class Survey:
    """A description for the owner; its repr shows no number.

    Attributes:
        rows: number of records with a text and a label.
        classes: records by label.
        language: most likely language (ISO 639-1).
    """

    rows: int = field(repr=False)
    classes: dict[str, int] = field(repr=False)
    language: str

    @property
    def declared_rows(self) -> int:
        """Number of records to declare: rounded down to one significant digit, at least 1."""
        scale = 10 ** int(math.log10(self.rows)) if self.rows else 1
        return max(1, self.rows // scale * scale)


def survey(zone: Zone, where: RowsRef) -> Survey:
    """Read all records once and describe them.

    Raises PrivateInputError for an unreadable source or a missing column; details go to the owner's problems.
    """
    with sealed(zone.folder):
        table = zone.read(replace(where, lenient=True))
        usable = table[(table["text"].str.strip() != "") & (table["label"].str.strip() != "")]
        classes = dict(Counter(usable["label"].str.strip()).most_common())
        return Survey(len(usable), classes, language_of(list(usable["text"].head(READ_TEXTS))))


def language_of(texts: Sequence[str]) -> str:
    """Return the most likely language of texts by script, else by function words; 'en' if neither decides."""
    text = " ".join(texts).lower()
    letters = max(1, len(re.findall(r"[^\W\d_]", text)))
    for language, script in SCRIPTS.items():
        if len(re.findall(script, text)) > letters / 10:
            return language
    words = Counter(re.findall(r"[^\W\d_]+", text))
    scores = {language: sum(words[word] for word in known.split()) for language, known in FUNCTION_WORDS.items()}
    return max(scores, key=lambda language: scores[language])
