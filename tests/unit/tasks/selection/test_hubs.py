"""Hubs lend no more bad examples than they may, by votes, by smoothed votes and by a density."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tasks.density.matching import examples
from tasks.selection.examples import select
from tasks.selection.hubs import HUB, select_spaced, spaced
from tasks.selection.smoothing import select_smoothly


def world(hub: int = 30, others: int = 70, width: int = 24) -> Any:
    """Return vectors of length 1, the first of them a hub."""
    rng = np.random.default_rng(0)
    points = np.concatenate(
        [np.eye(width)[0] + 0.02 * rng.standard_normal((hub, width)), rng.standard_normal((others, width))]
    )
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def tables(points: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    ids = np.arange(len(points))
    samples = pd.DataFrame({"sample_id": ids, "label": "a", "plm": "x", "text": [f"text {one}" for one in ids]})
    return pd.DataFrame({"sample_id": ids, "near": ids % 11, "far": (1000 * points[:, 0]).astype(int)}), samples


def crowded(points: Any) -> int:
    """How many lie close to the one that most lie close to."""
    return int((points @ points.T >= HUB).sum(axis=1).max())


@pytest.mark.parametrize("per_hub", [1, 2, 3])
def test_no_hub_lends_more_bad_examples_than_it_may(per_hub: int) -> None:
    points = world()
    release, samples = tables(points)
    by_votes = select_spaced(release, samples, points, 8, per_hub)
    smoothed = select_smoothly(release, samples, points, 8, per_hub)
    _, by_density = examples(points, points.mean(axis=0), points[:, 0], 8, per_hub)
    for bad in (_bad(by_votes), _bad(smoothed), by_density):
        assert len(bad) == 8
        assert crowded(points[bad]) <= per_hub


def test_without_a_limit_one_hub_lends_all_and_good_examples_stay_as_they_were() -> None:
    points = world()
    release, samples = tables(points)
    plain = select(release, samples, 8)
    assert crowded(points[_bad(plain)]) == 8
    limited = select_spaced(release, samples, points, 8, 2)
    good = [frame.loc[frame["kind"] == "good", "sample_id"].tolist() for frame in (plain, limited)]
    assert good[0] == good[1]
    assert spaced(points, np.arange(len(points)), 8, 0).tolist() == list(range(8))


def test_where_there_is_nothing_but_a_hub_fewer_are_bad() -> None:
    points = world(20, 0)
    release, samples = tables(points)
    assert len(_bad(select_spaced(release, samples, points, 4, 2))) == 2


def _bad(selection: pd.DataFrame) -> Any:
    return selection.loc[selection["kind"] == "bad", "sample_id"].to_numpy()
