"""Limit the examples of one hub, a region of many similar texts.

Without a limit one hub could fill a list alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from tasks.density.kernels import Kernel, body
from tasks.selection.examples import join_votes, select

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from connectors.interfaces.embedding import Matrix

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

HUB: Final = 0.8
"""Least cosine similarity of two texts of one hub."""


def spaced(points: Floats, order: Ints, count: int, per_hub: int) -> Ints:
    """Return the first `count` positions of `order`, at most `per_hub` of one hub.

    `points` (n, d): vectors of length 1. Without a limit (`per_hub` 0): the first ones. The result may be shorter: a
    hub supplies no more examples even if nothing else is available.
    """
    if not per_hub:
        return order[:count]
    taken: list[int] = []
    for position in order.tolist():
        if len(taken) == count:
            break
        if np.count_nonzero(points[taken] @ points[position] >= HUB) < per_hub:
            taken.append(position)
    return np.array(taken, dtype=np.int64)


def select_spaced(
    release: pd.DataFrame, samples: pd.DataFrame, vectors: Matrix, top: int, per_hub: int
) -> pd.DataFrame:
    """Return the examples of `select` with a limit on bad examples of one hub.

    `per_hub`: the limit for each hub of a class. `vectors` (n, d): of `samples`, row by row.
    """
    first = select(release, samples, top)
    good = first.loc[first["kind"] == "good", "sample_id"]
    points = dict(zip(samples["sample_id"].tolist(), body(Kernel().features(vectors)), strict=True))
    votes = join_votes(release, samples)
    votes = votes[~votes["sample_id"].isin(good)].sort_values("far", ascending=False, kind="stable")
    selected: list[int] = []
    for _, own in votes.groupby("label"):
        ids = own["sample_id"].tolist()
        positions = spaced(np.stack([points[sample] for sample in ids]), np.arange(len(ids)), top, per_hub)
        selected += [ids[position] for position in positions.tolist()]
    lowest = release["far"].min() - 1
    chosen = select(release.assign(far=release["far"].where(release["sample_id"].isin(selected), lowest)), samples, top)
    return chosen[(chosen["kind"] == "good") | chosen["sample_id"].isin(selected)].reset_index(drop=True)
