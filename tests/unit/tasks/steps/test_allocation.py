"""Counts of an unbalanced set follow a Dirichlet draw, and no class gives more rows than it has."""

import numpy as np
import pytest

from tasks.steps.allocation import unbalanced


def test_counts_follow_the_draw() -> None:
    counts = unbalanced({"a": 10_000, "b": 10_000, "c": 10_000}, 1000, 1.0, seed=4)
    drawn = np.random.default_rng(4).dirichlet([1.0] * 3)
    assert list(counts.values()) == pytest.approx((1000 * drawn).tolist(), abs=1)
    assert sum(counts.values()) == 1000


def test_two_classes_have_rows() -> None:
    """A student of the 25 of these 100 first draws that have one class alone could not be trained."""
    drawn = [unbalanced({"a": 1000, "b": 1000}, 100, 0.3, seed) for seed in range(100)]
    assert all(min(counts.values()) > 0 for counts in drawn)
    first = np.array([np.random.default_rng(seed).dirichlet([0.3, 0.3]) for seed in range(100)])
    assert (100 * first.min(axis=1) < 0.5).sum() == 25


def test_the_largest_class_is_at_least_twice_the_smallest() -> None:
    sizes = {"a": 10_000, "b": 10_000}
    drawn = [list(unbalanced(sizes, 300, 10.0, seed).values()) for seed in range(100)]
    assert all(max(counts) >= 2 * min(counts) for counts in drawn)
    first = np.array([np.random.default_rng(seed).dirichlet([10.0, 10.0]) for seed in range(100)])
    assert (first.max(axis=1) >= 2 * first.min(axis=1)).mean() < 0.5, (
        "most of these draws are repeated"
    )


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("alpha", [0.01, 1.0, 10.0])
def test_a_class_gives_at_most_its_rows(seed: int, alpha: float) -> None:
    sizes = {"a": 3, "b": 40, "c": 7, "d": 1}
    for count in (0, 1, 20, 51):
        counts = unbalanced(sizes, count, alpha, seed)
        assert sum(counts.values()) == count
        assert all(counts[name] <= sizes[name] for name in sizes)
