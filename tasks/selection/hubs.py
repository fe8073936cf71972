"""Hubs: places where many texts lie close together. They can fill a list by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from tasks.density.kernels import Kernel, body
from tasks.selection.examples import joined, select

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from connectors.interfaces.embedding import Matrix

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

HUB: Final = 0.8
"""Cosine similarity from which on two texts are of one hub."""


def spaced(points: Floats, order: Ints, count: int, per_hub: int) -> Ints:
    """Return the first `count` places of `order`, passing over those of which `per_hub` earlier ones lie close.

    `points` (n, d): vectors of length 1. Without a limit (`per_hub` 0): the first ones. There may be fewer: a hub does
    not lend more because nothing else is there.
    """
    if not per_hub:
        return order[:count]
    taken: list[int] = []
    for place in order.tolist():
        if len(taken) == count:
            break
        if np.count_nonzero(points[taken] @ points[place] >= HUB) < per_hub:
            taken.append(place)
    return np.array(taken, dtype=np.int64)


def select_spaced(
    release: pd.DataFrame, samples: pd.DataFrame, vectors: Matrix, top: int, per_hub: int
) -> pd.DataFrame:
    """Return the examples of `select` by votes, with at most `per_hub` bad examples of any hub of a class.

    `vectors` (n, d): of `samples`, row by row.
    """
    first = select(release, samples, top)
    good = first.loc[first["kind"] == "good", "sample_id"]
    points = dict(zip(samples["sample_id"].tolist(), body(Kernel().features(vectors)), strict=True))
    votes = joined(release, samples)
    votes = votes[~votes["sample_id"].isin(good)].sort_values("far", ascending=False, kind="stable")
    stands: list[int] = []
    for _, own in votes.groupby("label"):
        ids = own["sample_id"].tolist()
        places = spaced(np.stack([points[one] for one in ids]), np.arange(len(ids)), top, per_hub)
        stands += [ids[place] for place in places.tolist()]
    lowest = release["far"].min() - 1
    chosen = select(release.assign(far=release["far"].where(release["sample_id"].isin(stands), lowest)), samples, top)
    return chosen[(chosen["kind"] == "good") | chosen["sample_id"].isin(stands)].reset_index(drop=True)
