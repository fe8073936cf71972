"""Finds private records that nearly repeat a test row, so that a test measures no copies.

Each record is compared with test rows alone, never with other private records: whether a record is used must not
depend on another one, or one record more would change several.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from connectors.interfaces.text_forms import normal_form

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

RUN: Final = 20
"""Letters of a run, about four words: texts of many pages have nearly all shorter runs in common."""
MIN_SHARED: Final = 0.6
"""Runs that two texts have in common, of all that they have, from which on they are near copies: one other word of
eight letters among 130, or one other letter among 100."""
MIN_LETTERS: Final = 100
"""Letters from which on texts are compared by runs: short texts, such as one word, are alike without being copies."""
_FEATURES = 2**22
"""Number of hashes of runs: large, because two runs of a text must rarely have the same hash."""
_PAIRS = 1 << 12
"""Pairs that are compared at once, which bounds memory."""


def letters_of(text: str) -> str:
    """Return the letters and digits of a text, case folded, for comparing; the text itself if it has none."""
    folded = unicodedata.normalize("NFKC", normal_form(text)).casefold()
    # Combining marks belong to letters in many scripts.
    letters = [c for c in folded if c.isalnum() or unicodedata.category(c).startswith("M")]
    return "".join(letters) or folded


def nearly_repeats(texts: Sequence[str], others: Sequence[str]) -> NDArray[np.bool_]:
    """Return which of `texts` are copies or near copies of one of `others`.

    Copies have the same letters and digits. Near copies have `MIN_LETTERS` or more, and `MIN_SHARED` of their runs of
    `RUN` letters in common (Jaccard index).
    """
    own = [letters_of(text) for text in texts]
    known = {letters_of(text) for text in others}
    is_copy = np.array([text in known for text in own], bool)
    long = [
        index for index, text in enumerate(own) if len(text) >= MIN_LETTERS and not is_copy[index]
    ]
    compared = sorted(text for text in known if len(text) >= MIN_LETTERS)
    if long and compared:
        is_copy[_near([own[index] for index in long], compared, np.array(long))] = True
    return is_copy


def _near(
    texts: Sequence[str], others: Sequence[str], positions: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the positions of the texts that are near one of the others."""
    own = _runs_of(texts)
    known = _runs_of(others)
    sizes = np.diff(own.indptr)
    known_sizes = np.diff(known.indptr)
    near = set()
    for rows, columns in _candidates(own, known):
        shared = np.asarray(own[rows].multiply(known[columns]).sum(axis=1)).ravel()
        either = sizes[rows] + known_sizes[columns] - shared
        near.update(rows[shared >= MIN_SHARED * either].tolist())
    return positions[sorted(near)]


def _runs_of(texts: Sequence[str]) -> csr_matrix:
    """Return one row of zeros and ones per text, with one column per run."""
    from sklearn.feature_extraction.text import HashingVectorizer

    vectorizer = HashingVectorizer(
        analyzer="char",
        ngram_range=(RUN, RUN),
        n_features=_FEATURES,
        binary=True,
        norm=None,
        alternate_sign=False,
        lowercase=False,
    )
    runs: csr_matrix = vectorizer.transform(texts).tocsr()
    return runs


def _candidates(
    own: csr_matrix, known: csr_matrix
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield pairs of rows that may be near, without missing one.

    Two texts with the share s of their runs in common have at least one in common among the rarest 1 - s of each, in
    one order of all runs (prefix filter: Chaudhuri et al. 2006, "A Primitive Operator for Similarity Joins").
    """
    counts = np.bincount(np.concatenate([own.indices, known.indices]), minlength=_FEATURES)
    own_rare = _rarest(own, counts)
    known_rare = _rarest(known, counts).T.tocsr()
    for start in range(0, own_rare.shape[0], _PAIRS):
        pairs = (own_rare[start : start + _PAIRS] @ known_rare).tocoo()
        rows = pairs.row.astype(np.int64) + start
        bounds = [*range(0, len(rows), _PAIRS), len(rows)]
        for first, last in pairwise(bounds):
            yield rows[first:last], pairs.col[first:last].astype(np.int64)


def _rarest(runs: csr_matrix, counts: NDArray[Any]) -> csr_matrix:
    """Return the rows with their rarest runs alone."""
    from scipy.sparse import csr_matrix

    rarest = []
    for start, end in pairwise(runs.indptr.tolist()):
        indices = runs.indices[start:end]
        number = len(indices) - int(np.ceil(MIN_SHARED * len(indices))) + 1
        # By count, then by hash: the order must be the same in both texts of a pair.
        rarest.append(indices[np.lexsort((indices, counts[indices]))[:number]])
    starts = np.concatenate([[0], np.cumsum([len(indices) for indices in rarest])])
    columns = np.concatenate(rarest)
    return csr_matrix((np.ones(len(columns), np.int32), columns, starts), shape=runs.shape)
