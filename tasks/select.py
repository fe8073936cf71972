"""The best and the worst samples of each class by noisy votes: the examples of the next prompts."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from connectors.base import ArtifactError
from tasks.clean import normalised

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
    votes = joined(release, samples)
    chosen: list[pd.DataFrame] = []
    for label in sorted(votes["label"].unique()):
        chosen += _of_class(votes[votes["label"] == label].reset_index(drop=True), top)
    if not chosen:
        return pd.DataFrame(columns=COLUMNS)
    return pd.concat(chosen, ignore_index=True)[COLUMNS]


def joined(release: pd.DataFrame, samples: pd.DataFrame) -> pd.DataFrame:
    """Return the released rows with label, plm and text of their samples, by rising sample_id."""
    if release["sample_id"].duplicated().any() or samples["sample_id"].duplicated().any():
        raise ArtifactError("A sample_id stands twice in the release or in the samples. Run the iteration anew.")
    votes = release.merge(samples[["sample_id", "label", "plm", "text"]], on="sample_id", how="left")
    lost = int(votes["label"].isna().sum())
    if lost:
        raise ArtifactError(f"{lost} of {len(release)} released sample_ids are not among the samples of the run.")
    return votes.sort_values("sample_id", kind="stable").reset_index(drop=True)


def examples_of(selection: pd.DataFrame) -> tuple[Examples, Examples]:
    """Return the (good, bad) texts per class of a selection, by rank."""
    ordered = selection.sort_values(["label", "kind", "rank"])
    both: dict[str, Examples] = {"good": {}, "bad": {}}
    for (label, kind), group in ordered.groupby(["label", "kind"], sort=False):
        both[str(kind)][str(label)] = tuple(group["text"])
    return both["good"], both["bad"]


def _of_class(votes: pd.DataFrame, top: int) -> list[pd.DataFrame]:
    keys = _Texts(votes["text"])
    near = _falling(votes["near"].to_numpy())
    available = len(_first_distinct(near, keys, 2 * top, set()))
    bad_count = min(top, max(available - top, min(top, available) // 2))
    taken: set[str] = set()
    good = _first_distinct(near, keys, min(top, available - bad_count), taken)
    bad = _first_distinct(_falling(votes["far"].to_numpy()), keys, bad_count, taken)
    return [_listed(votes, good, "good", "near"), _listed(votes, bad, "bad", "far")]


def _falling(values: NDArray[np.generic]) -> NDArray[np.int64]:
    """Return positions by falling value; equal values keep their order, which is that of sample_id."""
    return (len(values) - 1 - np.argsort(values[::-1], kind="stable")[::-1]).astype(np.int64)


class _Texts:
    """Normalised texts of a class, worked out only for the rows that are looked at."""

    def __init__(self, texts: pd.Series[str]) -> None:
        self._texts = texts

    def __getitem__(self, position: int) -> str:
        return normalised(str(self._texts.iat[position]))


def _first_distinct(order: NDArray[np.int64], keys: _Texts, count: int, taken: set[str]) -> list[int]:
    """Return the first `count` positions whose texts are new; adds these texts to `taken`."""
    positions: list[int] = []
    for position in order.tolist():
        if len(positions) == count:
            break
        key = keys[position]
        if key not in taken:
            taken.add(key)
            positions.append(position)
    return positions


def _listed(votes: pd.DataFrame, positions: list[int], kind: str, score: str) -> pd.DataFrame:
    rows = votes.iloc[positions]
    return rows.assign(kind=kind, rank=np.arange(1, len(rows) + 1), score=rows[score])
