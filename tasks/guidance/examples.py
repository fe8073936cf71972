"""Select the best and the worst samples of each class by noisy votes.

They are the examples of the next prompts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from connectors.interfaces.errors import ArtifactError
from tasks.writing.cleaning import normalised

COLUMNS = ["label", "kind", "rank", "sample_id", "plm", "text", "score"]
SAMPLE_COLUMNS = ("sample_id", "label", "plm", "text")
"""Columns of the samples from which examples are selected."""


def select(release: pd.DataFrame, samples: pd.DataFrame, top: int) -> pd.DataFrame:
    """Select the samples of each class with most near and most far votes (Eq. 7).

    Those with most near votes are good, those with most far votes are bad, `top` (S) each. `release`: sample_id, near,
    far (noisy, may be negative: raw values are ranked without division). `samples`: sample_id, label, plm, text. Ties
    go to the lower sample_id. A text occurs once per class, in the good list rather than the bad one. A class with few
    texts keeps at least half of S of them as bad, or half of all; it never uses texts of another class. Returns
    COLUMNS, rank from 1. ArtifactError if the tables do not match.
    """
    votes = join_votes(release, samples)
    keys = votes["text"].map(normalised)
    chosen: list[pd.DataFrame] = []
    for _, rows in votes.assign(key=keys).groupby("label"):
        available = rows["key"].nunique()
        bad_count = bad_of(available, top)
        good = _first_distinct(rows, "near", min(top, available - bad_count))
        # A text with many votes of both kinds is a good example, not a bad one.
        bad = _first_distinct(rows[~rows["key"].isin(good["key"])], "far", bad_count)
        chosen += [ranked(good, "good", good["near"]), ranked(bad, "bad", bad["far"])]
    return concat_examples(chosen)


def _first_distinct(rows: pd.DataFrame, score: str, count: int) -> pd.DataFrame:
    """Return `count` rows with different texts and the highest scores; ties keep their order, by sample_id."""
    return (
        rows.sort_values(score, ascending=False, kind="stable").drop_duplicates("key").head(count)
    )


def bad_of(available: int, top: int) -> int:
    """Return the number of bad examples of a class.

    A small class keeps half of S (`top`), or half of its texts.
    """
    return min(top, max(available - top, min(top, available) // 2))


def ranked(
    rows: pd.DataFrame, kind: str, scores: pd.Series[float] | NDArray[np.float64]
) -> pd.DataFrame:
    """Return samples, best first, as examples with scores."""
    return rows.assign(kind=kind, rank=np.arange(1, len(rows) + 1), score=scores)


def concat_examples(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the examples of all classes as one table, with COLUMNS."""
    # pandas refuses to join no tables.
    if not tables:
        return pd.DataFrame(columns=COLUMNS)
    return pd.concat(tables, ignore_index=True)[COLUMNS]


def join_votes(release: pd.DataFrame, samples: pd.DataFrame) -> pd.DataFrame:
    """Return the released rows with the columns of their samples, sorted by sample_id.

    Raises ArtifactError if the tables do not match.
    """
    votes = release.merge(samples, on="sample_id")
    if missing := len(release) - len(votes):
        raise ArtifactError(
            f"{missing} of {len(release)} released sample_ids are not among the samples of the run."
        )
    return votes.sort_values("sample_id", ignore_index=True)
