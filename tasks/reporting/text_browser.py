"""The synthetic texts of a report: all of them to browse, and their quality by class."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

MAX_BYTES = 3_000_000
"""Largest text data in a page; of larger sets an even part is shown."""
NEAR_COPY = 0.9
"""Cosine of TF-IDF vectors from which a text counts as a near copy of another."""
_BLOCK = 1000


@dataclass(frozen=True, slots=True)
class TextBrowser:
    """Data of the text browser.

    Attributes:
        data: JSON for a script element: classes, models, and rows [text, class, model, iteration].
        shown: number of rows in `data`.
        total: number of texts of the run.
        classes: name, number of texts, median words and share of near copies of each class.
        models: names of the models.
    """

    data: str
    shown: int
    total: int
    classes: list[dict[Any, Any]]
    models: list[Any]


def browse(rows: pd.DataFrame) -> TextBrowser:
    """Return the data of all texts (text, label, plm, iteration), or of an even part if they are too large."""
    texts = rows["text"].tolist()
    # Every n-th text instead of the first ones: all models and iterations are shown. 16 bytes for the other columns.
    step = max(1, -(-sum(len(text.encode()) + 16 for text in texts) // MAX_BYTES))
    labels, names = rows["label"].factorize()
    models, plms = rows["plm"].factorize()
    columns = (texts, labels.tolist(), models.tolist(), rows["iteration"].tolist())
    table = list(zip(*columns, strict=True))[::step]
    values = {"labels": names.tolist(), "models": plms.tolist(), "rows": table}
    data = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    measured = rows.assign(
        words=[len(text.split()) for text in texts], copy=near_copies(texts)
    ).rename(columns={"label": "name"})
    quality = {"texts": ("text", "size"), "words": ("words", "median"), "copies": ("copy", "mean")}
    classes = measured.groupby("name", sort=False, as_index=False).agg(**quality)
    # "<" ends a script element or begins a comment; JSON reads the escape as the character.
    data = data.replace("<", "\\u003c")
    return TextBrowser(data, len(table), len(rows), classes.to_dict("records"), plms.tolist())


def near_copies(texts: Sequence[str]) -> list[bool]:
    """Return for each text whether another one has nearly the same words."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    if len(texts) < 2:
        return [False] * len(texts)
    try:
        vectors = TfidfVectorizer().fit_transform(texts)
    except ValueError:
        # No text has a word.
        return [False] * len(texts)
    result: list[bool] = []
    # In blocks: the products of all pairs of many texts would not fit into memory.
    for start in range(0, len(texts), _BLOCK):
        products = (vectors[start : start + _BLOCK] @ vectors.T).tocsr()
        for row in range(products.shape[0]):
            part = slice(products.indptr[row], products.indptr[row + 1])
            # Each text is a copy of itself.
            others = products.indices[part] != start + row
            result.append(bool((products.data[part][others] >= NEAR_COPY).any()))
    return result
