"""The synthetic texts of a report: all of them to browse, and their quality by class."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd
    from scipy.sparse import csr_matrix

MAX_BYTES = 3_000_000
"""Largest text data in a page; of larger sets an even part is shown."""
NEAR_COPY = 0.9
"""Cosine of TF-IDF vectors from which a text counts as a near copy of another."""
FREQUENT = 0.7
"""Largest length of the frequent words of a vector, below NEAR_COPY."""
MAX_SEARCHED = 20_000
"""Largest number of texts whose near copies are searched among all; of more texts an even part."""
_PRODUCTS = 2_000_000
"""Products of a block of texts with all texts."""
_PAIRS = 20_000
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class TextBrowser:
    """Data of the text browser.

    Attributes:
        data: JSON for a script element: classes, models, and rows [text, class, model, iteration].
        shown: number of rows in `data`.
        total: number of texts of the run.
        classes: name, number of texts, median words and share of near copies of each class; NaN if none was searched.
        searched: number of texts whose near copies were searched.
        models: names of the models.
    """

    data: str
    shown: int
    total: int
    classes: list[dict[Any, Any]]
    searched: int
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
    searched = np.arange(0, len(texts), max(1, -(-len(texts) // MAX_SEARCHED)))
    copies = np.full(len(texts), np.nan)
    copies[searched] = near_copies(texts, searched)
    measured = rows.assign(words=[len(text.split()) for text in texts], copy=copies).rename(
        columns={"label": "name"}
    )
    quality = {"texts": ("text", "size"), "words": ("words", "median"), "copies": ("copy", "mean")}
    classes = measured.groupby("name", sort=False, as_index=False).agg(**quality)
    # "<" ends a script element or begins a comment; JSON reads the escape as the character.
    data = data.replace("<", "\\u003c")
    return TextBrowser(
        data, len(table), len(rows), classes.to_dict("records"), len(searched), plms.tolist()
    )


def near_copies(texts: Sequence[str], searched: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return for each text at the positions `searched` whether another of all texts has nearly the same words."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    result = np.zeros(len(texts), dtype=bool)
    if len(texts) < 2:
        return result[searched]
    try:
        vectors = TfidfVectorizer().fit_transform(texts)
    except ValueError:
        # No text has a word.
        return result[searched]
    for rows, others in _candidates(vectors, searched):
        is_copy = vectors[rows].multiply(vectors[others]).sum(axis=1) >= NEAR_COPY
        result[rows[np.asarray(is_copy).ravel()]] = True
    return result[searched]


def _candidates(
    vectors: csr_matrix, searched: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield all pairs of a searched text and another that may be near copies, as two arrays of rows.

    The frequent words of a text x, whose vector x_f is at most FREQUENT long, are left out of the products: x . y is at
    most x_r . y + |x_f| for a vector y of length 1. The products of all pairs with all words would be quadratic.
    """
    counts = np.bincount(vectors.indices, minlength=vectors.shape[1])
    sizes = np.diff(vectors.indptr)
    of_row = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((-counts[vectors.indices], of_row))
    squares = np.cumsum(vectors.data[order] ** 2)
    before = np.concatenate([[0.0], squares])[vectors.indptr[:-1]]
    lengths = squares - before[of_row]
    is_frequent = np.zeros(len(order), dtype=bool)
    is_frequent[order] = lengths <= FREQUENT**2
    rare = vectors.copy()
    rare.data[is_frequent] = 0.0
    rare.eliminate_zeros()
    rare = rare[searched]
    # Cumulated products of the rows: a block has a bounded number of them.
    products = np.cumsum(rare.astype(bool).astype(np.int64) @ counts)
    blocks = np.searchsorted(products, np.arange(0, products[-1], _PRODUCTS), side="right")
    bounds = np.unique([*blocks.tolist(), len(searched)])
    transposed = vectors.T.tocsr()
    for start, end in pairwise([0, *bounds.tolist()]):
        part = (rare[start:end] @ transposed).tocoo()
        rows = searched[part.row.astype(np.int64) + start]
        others = part.col.astype(np.int64)
        # Each text is a copy of itself.
        chosen = np.flatnonzero((part.data >= NEAR_COPY - FREQUENT - _ROUNDING) & (rows != others))
        for first in range(0, len(chosen), _PAIRS):
            pairs = chosen[first : first + _PAIRS]
            yield rows[pairs], others[pairs]
