"""The synthetic texts of a report: all of them to browse, and their quality by class."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

MOST_BYTES = 3_000_000
"""Largest text data in a page; of larger sets an even part is shown."""
NEAR_COPY = 0.9
"""Cosine of TF-IDF vectors from which a text counts as a near copy of another."""
_BLOCK = 1000


@dataclass(frozen=True, slots=True)
class TextRow:
    """One synthetic text with its class, model and iteration."""

    text: str
    label: str
    plm: str
    iteration: int


@dataclass(frozen=True, slots=True)
class ClassTexts:
    """Texts of a class: number, median length in words, share of near copies of another text of the run."""

    name: str
    texts: int
    words: float
    copies: float


@dataclass(frozen=True, slots=True)
class TextBrowser:
    """Data of the text browser.

    Attributes:
        data: JSON for a script element: classes, models, and rows [text, class, model, iteration].
        shown: number of rows in `data`.
        total: number of texts of the run.
        classes: quality by class.
        labels: names of the classes.
        models: names of the models.
    """

    data: str
    shown: int
    total: int
    classes: tuple[ClassTexts, ...]
    labels: tuple[str, ...]
    models: tuple[str, ...]


def browse(rows: Sequence[TextRow]) -> TextBrowser:
    """Return the data of all texts, or of an even part if they are too large for a page."""
    size = sum(len(row.text.encode()) + 16 for row in rows)
    step = -(-size // MOST_BYTES) if size else 1
    shown = rows[:: max(1, step)]
    labels, models = tuple(dict.fromkeys(r.label for r in rows)), tuple(dict.fromkeys(r.plm for r in rows))
    table = [[row.text, labels.index(row.label), models.index(row.plm), row.iteration] for row in shown]
    data = json.dumps({"labels": labels, "models": models, "rows": table}, ensure_ascii=False, separators=(",", ":"))
    # "<" ends a script element or begins a comment; JSON reads the escape as the character.
    return TextBrowser(data.replace("<", "\\u003c"), len(shown), len(rows), _classes(rows), labels, models)


def _classes(rows: Sequence[TextRow]) -> tuple[ClassTexts, ...]:
    copies = near_copies([row.text for row in rows])
    numbers = Counter(row.label for row in rows)
    return tuple(
        ClassTexts(
            name,
            number,
            median(len(row.text.split()) for row in rows if row.label == name),
            float(np.mean([is_copy for row, is_copy in zip(rows, copies, strict=True) if row.label == name])),
        )
        for name, number in numbers.items()
    )


def near_copies(texts: Sequence[str]) -> list[bool]:
    """Return for each text whether another one has nearly the same words."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    if len(texts) < 2:
        return [False] * len(texts)
    try:
        vectors = TfidfVectorizer().fit_transform(texts)
    except ValueError:  # no text has a word
        return [False] * len(texts)
    result: list[bool] = []
    for start in range(0, len(texts), _BLOCK):
        products = (vectors[start : start + _BLOCK] @ vectors.T).tocsr()
        for row in range(products.shape[0]):
            part = slice(products.indptr[row], products.indptr[row + 1])
            others = products.indices[part] != start + row
            result.append(bool((products.data[part][others] >= NEAR_COPY).any()))
    return result
