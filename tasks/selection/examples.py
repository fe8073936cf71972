"""The best and the worst samples of each class by noisy votes: the examples of the next prompts."""

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
    """Take the `top` (S) samples of each class with most near votes as good, with most far votes as bad (Eq. 7).

    `release`: sample_id, near, far (noisy, may be negative: raw values are ranked, nothing is divided).
    `samples`: sample_id, label, plm, text. A tie goes to the lower sample_id; a text stands once per class, in the
    good list rather than the bad one. A class with few texts keeps at least half of S of them as bad, or half of all;
    another class never lends any. Returns COLUMNS, rank from 1. ArtifactError if the tables do not fit together.
    """
    places = placed(release, samples)
    order = in_order(release["sample_id"].to_numpy())
    places = places[order]
    votes = {score: release[score].to_numpy()[order] for score in ("near", "far")}
    codes, names = pd.factorize(samples["label"].take(places), sort=True)
    by_class = np.argsort(codes.astype(np.min_scalar_type(max(len(names), 1))), kind="stable")
    chosen: list[pd.DataFrame] = []
    for rows in np.split(by_class, np.cumsum(np.bincount(codes, minlength=len(names)))[:-1]):
        scores = {score: found[rows] for score, found in votes.items()}
        chosen += _of_class(samples, places[rows], scores, top) if len(rows) else []
    return together(chosen)


def bad_of(available: int, top: int) -> int:
    """Return how many of the texts of a class are bad examples: a small class keeps half of S (`top`), or of all."""
    return min(top, max(available - top, min(top, available) // 2))


def listed(samples: pd.DataFrame, places: NDArray[np.int64], kind: str, scores: NDArray[Any]) -> pd.DataFrame:
    """Return the samples at `places`, best first, as examples of a kind with their scores."""
    rows = samples[["label", "sample_id", "plm", "text"]].take(places)
    return rows.assign(kind=kind, rank=np.arange(1, len(rows) + 1), score=scores)


def together(found: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the examples of all classes as one table, with COLUMNS."""
    return pd.concat(found, ignore_index=True)[COLUMNS] if found else pd.DataFrame(columns=COLUMNS)


def placed(release: pd.DataFrame, samples: pd.DataFrame) -> NDArray[np.int64]:
    """Return the row among `samples` of each released sample_id; ArtifactError where the tables do not fit together."""
    wanted, known = (frame["sample_id"].to_numpy() for frame in (release, samples))
    order, rising = in_order(known), in_order(wanted)
    ordered = known[order]
    if _repeats(ordered, order) or _repeats(wanted[rising], rising):
        raise ArtifactError("A sample_id stands twice in the release or in the samples. Run the iteration anew.")
    inside, absent = _found(wanted, ordered)
    lost = np.count_nonzero(absent)
    if lost:
        raise ArtifactError(f"{lost} of {len(release)} released sample_ids are not among the samples of the run.")
    return inside if isinstance(order, slice) else order[inside]


def _found(wanted: NDArray[np.int64], ordered: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the place of each wanted id among rising ones, and where there is none."""
    size = len(ordered)
    if size and ordered[-1] - ordered[0] == size - 1:  # none is left out between them: nothing is looked for
        places = wanted - ordered[0]
        return places, (places < 0) | (places >= size)
    places = np.minimum(np.searchsorted(ordered, wanted), max(size - 1, 0))
    return places, ordered[places] != wanted if size else np.ones(len(wanted), dtype=bool)


def in_order(ids: NDArray[Any]) -> Any:
    """Return what puts ids into rising order: all as they are where each is above the last, as in most tables."""
    return slice(None) if (ids[1:] > ids[:-1]).all() else np.argsort(ids, kind="stable")


def _repeats(ordered: NDArray[Any], order: Any) -> bool:
    return not isinstance(order, slice) and bool((ordered[1:] == ordered[:-1]).any())


def joined(release: pd.DataFrame, samples: pd.DataFrame) -> pd.DataFrame:
    """Return the released rows with label, plm and text of their samples, by rising sample_id."""
    order = in_order(release["sample_id"].to_numpy())
    votes = release.take(np.arange(len(release))[order]).reset_index(drop=True)
    told = samples[["label", "plm", "text"]].take(placed(release, samples)[order]).reset_index(drop=True)
    return pd.concat([votes, told], axis=1)


def examples_of(selection: pd.DataFrame) -> tuple[Examples, Examples]:
    """Return the (good, bad) texts per class of a selection, by rank."""
    ordered = selection.sort_values(["label", "kind", "rank"])
    both: dict[str, Examples] = {"good": {}, "bad": {}}
    for (label, kind), group in ordered.groupby(["label", "kind"], sort=False):
        both[str(kind)][str(label)] = tuple(group["text"])
    return both["good"], both["bad"]


def _of_class(
    samples: pd.DataFrame, places: NDArray[np.int64], scores: dict[str, NDArray[Any]], top: int
) -> list[pd.DataFrame]:
    """Return the good and the bad of one class, whose rows stand at `places` by rising sample_id."""
    keys = _Texts(samples["text"], places)
    available = len(_first_distinct(scores["near"], keys, 2 * top, set()))
    bad_count = bad_of(available, top)
    taken: set[str] = set()
    good = _first_distinct(scores["near"], keys, min(top, available - bad_count), taken)
    bad = _first_distinct(scores["far"], keys, bad_count, taken)
    return [
        listed(samples, places[good], "good", scores["near"][good]),
        listed(samples, places[bad], "bad", scores["far"][bad]),
    ]


class _Texts:
    """Normalised texts of a class, worked out only for the rows that are looked at, and once."""

    def __init__(self, texts: pd.Series[str], places: NDArray[np.int64]) -> None:
        self._texts, self._places = texts, places
        self._known: dict[int, str] = {}

    def __getitem__(self, row: int) -> str:
        if row not in self._known:
            self._known[row] = normalised(str(self._texts.iat[self._places[row]]))
        return self._known[row]


def _first_distinct(values: NDArray[Any], keys: _Texts, count: int, taken: set[str]) -> list[int]:
    """Return the first `count` rows by falling value whose texts are new; adds these texts to `taken`."""
    found: list[int] = []
    for row in _falling(values, 2 * count + len(taken)):
        if len(found) == count:
            break
        key = keys[row]
        if key not in taken:
            taken.add(key)
            found.append(row)
    return found


def _falling(values: NDArray[Any], guess: int) -> Iterator[int]:
    """Yield rows by falling value; equal values keep their order, which is that of sample_id.

    The first `guess` are found without putting all of them into order; where more are asked for, twice as many are.
    """
    given, wanted = 0, max(guess, 1)
    while given < len(values):
        wanted = min(wanted, len(values))
        least = np.partition(values, len(values) - wanted)[len(values) - wanted]
        rows = np.flatnonzero(values >= least)
        ranked = rows[len(rows) - 1 - np.argsort(values[rows][::-1], kind="stable")[::-1]]
        yield from ranked[given:].tolist()
        given, wanted = len(ranked), 4 * len(ranked)
