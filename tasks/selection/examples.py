"""Select the best and the worst samples of each class by noisy votes.

They are the examples of the next prompts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from connectors.interfaces.errors import ArtifactError
from tasks.text.cleaning import normalised

COLUMNS = ["label", "kind", "rank", "sample_id", "plm", "text", "score"]

Examples = dict[str, tuple[str, ...]]
"""Texts per class, best first (or worst first)."""


def select(release: pd.DataFrame, samples: pd.DataFrame, top: int) -> pd.DataFrame:
    """Select the samples of each class with most near and most far votes (Eq. 7).

    Those with most near votes are good, those with most far votes are bad, `top` (S) each. `release`: sample_id, near,
    far (noisy, may be negative: raw values are ranked without division). `samples`: sample_id, label, plm, text. Ties
    go to the lower sample_id. A text occurs once per class, in the good list rather than the bad one. A class with few
    texts keeps at least half of S of them as bad, or half of all; it never uses texts of another class. Returns
    COLUMNS, rank from 1. ArtifactError if the tables do not match.
    """
    positions = match_rows(release, samples)
    order = sort_order(release["sample_id"].to_numpy())
    positions = positions[order]
    votes = {score: release[score].to_numpy()[order] for score in ("near", "far")}
    codes, names = pd.factorize(samples["label"].take(positions), sort=True)
    by_class = np.argsort(codes.astype(np.min_scalar_type(max(len(names), 1))), kind="stable")
    chosen: list[pd.DataFrame] = []
    for rows in np.split(by_class, np.cumsum(np.bincount(codes, minlength=len(names)))[:-1]):
        scores = {score: values[rows] for score, values in votes.items()}
        chosen += _of_class(samples, positions[rows], scores, top) if len(rows) else []
    return concat_examples(chosen)


def bad_of(available: int, top: int) -> int:
    """Return the number of bad examples of a class.

    A small class keeps half of S (`top`), or half of its texts.
    """
    return min(top, max(available - top, min(top, available) // 2))


def example_table(samples: pd.DataFrame, positions: NDArray[np.int64], kind: str, scores: NDArray[Any]) -> pd.DataFrame:
    """Return the samples at `positions`, best first, as examples with scores."""
    rows = samples[["label", "sample_id", "plm", "text"]].take(positions)
    return rows.assign(kind=kind, rank=np.arange(1, len(rows) + 1), score=scores)


def concat_examples(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the examples of all classes as one table, with COLUMNS."""
    return pd.concat(tables, ignore_index=True)[COLUMNS] if tables else pd.DataFrame(columns=COLUMNS)


def match_rows(release: pd.DataFrame, samples: pd.DataFrame) -> NDArray[np.int64]:
    """Return the row among `samples` of each released sample_id.

    Raises ArtifactError if the tables do not match.
    """
    released, available = (frame["sample_id"].to_numpy() for frame in (release, samples))
    order, rising = sort_order(available), sort_order(released)
    ordered = available[order]
    if _repeats(ordered, order) or _repeats(released[rising], rising):
        raise ArtifactError("sample_id: an id occurs twice in the release or in the samples. Run the iteration again.")
    inside, absent = _positions(released, ordered)
    missing = np.count_nonzero(absent)
    if missing:
        raise ArtifactError(f"{missing} of {len(release)} released sample_ids are not among the samples of the run.")
    return inside if isinstance(order, slice) else order[inside]


def _positions(released: NDArray[np.int64], ordered: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the position of each released id among sorted ones, and missing ids."""
    size = len(ordered)
    if size and ordered[-1] - ordered[0] == size - 1:  # consecutive ids need no search
        positions = released - ordered[0]
        return positions, (positions < 0) | (positions >= size)
    positions = np.minimum(np.searchsorted(ordered, released), max(size - 1, 0))
    return positions, ordered[positions] != released if size else np.ones(len(released), dtype=bool)


def sort_order(ids: NDArray[Any]) -> Any:
    """Return the order that sorts ids.

    A full slice if they are sorted already, as in most tables.
    """
    return slice(None) if (ids[1:] > ids[:-1]).all() else np.argsort(ids, kind="stable")


def _repeats(ordered: NDArray[Any], order: Any) -> bool:
    return not isinstance(order, slice) and bool((ordered[1:] == ordered[:-1]).any())


def join_votes(release: pd.DataFrame, samples: pd.DataFrame) -> pd.DataFrame:
    """Return the released rows with label, plm and text, sorted by sample_id."""
    order = sort_order(release["sample_id"].to_numpy())
    votes = release.take(np.arange(len(release))[order]).reset_index(drop=True)
    columns = samples[["label", "plm", "text"]].take(match_rows(release, samples)[order]).reset_index(drop=True)
    return pd.concat([votes, columns], axis=1)


def examples_of(selection: pd.DataFrame) -> tuple[Examples, Examples]:
    """Return the (good, bad) texts per class of a selection, by rank."""
    ordered = selection.sort_values(["label", "kind", "rank"])
    both: dict[str, Examples] = {"good": {}, "bad": {}}
    for (label, kind), group in ordered.groupby(["label", "kind"], sort=False):
        both[str(kind)][str(label)] = tuple(group["text"])
    return both["good"], both["bad"]


def _of_class(
    samples: pd.DataFrame, positions: NDArray[np.int64], scores: dict[str, NDArray[Any]], top: int
) -> list[pd.DataFrame]:
    """Return the good and the bad examples of one class.

    Its rows are at `positions`, sorted by sample_id.
    """
    keys = _Texts(samples["text"], positions)
    available = len(_first_distinct(scores["near"], keys, 2 * top, set()))
    bad_count = bad_of(available, top)
    taken: set[str] = set()
    good = _first_distinct(scores["near"], keys, min(top, available - bad_count), taken)
    bad = _first_distinct(scores["far"], keys, bad_count, taken)
    return [
        example_table(samples, positions[good], "good", scores["near"][good]),
        example_table(samples, positions[bad], "bad", scores["far"][bad]),
    ]


class _Texts:
    """Normalised texts of a class, computed only for the rows that are read, and once."""

    def __init__(self, texts: pd.Series[str], positions: NDArray[np.int64]) -> None:
        self._texts, self._positions = texts, positions
        self._cache: dict[int, str] = {}

    def __getitem__(self, row: int) -> str:
        if row not in self._cache:
            self._cache[row] = normalised(str(self._texts.iat[self._positions[row]]))
        return self._cache[row]


def _first_distinct(values: NDArray[Any], keys: _Texts, count: int, taken: set[str]) -> list[int]:
    """Return the first `count` rows by descending value whose texts are new.

    Adds these texts to `taken`.
    """
    chosen: list[int] = []
    for row in _descending(values, 2 * count + len(taken)):
        if len(chosen) == count:
            break
        key = keys[row]
        if key not in taken:
            taken.add(key)
            chosen.append(row)
    return chosen


def _descending(values: NDArray[Any], guess: int) -> Iterator[int]:
    """Yield rows by descending value; ties keep their order, which is by sample_id.

    Avoids a full sort: it ranks the largest `guess` values first, and more only if the caller needs them.
    """
    yielded, size = 0, max(guess, 1)
    while yielded < len(values):
        size = min(size, len(values))
        least = np.partition(values, len(values) - size)[len(values) - size]
        rows = np.flatnonzero(values >= least)
        ranked = rows[len(rows) - 1 - np.argsort(values[rows][::-1], kind="stable")[::-1]]
        yield from ranked[yielded:].tolist()
        yielded, size = len(ranked), 4 * len(ranked)
