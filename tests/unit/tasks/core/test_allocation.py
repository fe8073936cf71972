"""Counts of an unbalanced set follow a Dirichlet draw, and no class gives more rows than it has."""

import numpy as np
import pytest

from tasks.core.allocation import unbalanced


def test_counts_follow_the_draw() -> None:
    counts = unbalanced({"a": 10_000, "b": 10_000, "c": 10_000}, 1000, 1.0, seed=4)
    drawn = np.random.default_rng(4).dirichlet([1.0] * 3)
    assert list(counts.values()) == pytest.approx((1000 * drawn).tolist(), abs=1)
    assert sum(counts.values()) == 1000


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("alpha", [0.01, 1.0, 100.0])
def test_a_class_gives_at_most_its_rows(seed: int, alpha: float) -> None:
    sizes = {"a": 3, "b": 40, "c": 7, "d": 1}
    for count in (0, 1, 20, 51):
        counts = unbalanced(sizes, count, alpha, seed)
        assert sum(counts.values()) == count
        assert all(counts[name] <= sizes[name] for name in sizes)
