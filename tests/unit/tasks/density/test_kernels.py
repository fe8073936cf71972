"""Feature maps: never longer than 1, learned from public texts alone, the same for the same texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from connectors.interfaces.errors import ConfigError
from tasks.density.kernels import LEARNERS, Kernel, body, counted
from tasks.density.matching import Density, expect, map_expectations

NAMES = ["cosine", "gaussian", *LEARNERS]


def texts(number: int = 120, width: int = 24, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((4, width))[rng.integers(4, size=number)] * 2 + rng.standard_normal((number, width))


@pytest.mark.parametrize("name", NAMES)
def test_no_vector_has_features_longer_than_1_and_an_odd_one_has_none(name: Any) -> None:
    kernel = Kernel(name).learn(texts())
    odd = np.array([np.zeros(24), np.full(24, np.nan), np.full(24, np.inf), np.full(24, 1e200)])
    found = kernel.features(np.concatenate([texts(seed=1) * 1e3, -texts(seed=2), odd]))
    assert found.shape == (244, kernel.width(24))
    assert np.linalg.norm(found, axis=1).max() <= 1 + 1e-12
    assert not found[-4:].any()
    assert counted(found[:5].sum(axis=0)) == pytest.approx(5)


@pytest.mark.parametrize("name", list(LEARNERS))
def test_a_map_that_learns_is_made_by_texts_alone_and_the_same_again(name: Any) -> None:
    made = Kernel(name).learn(texts())
    assert np.array_equal(made.basis, Kernel(name).learn(texts()).basis)
    assert not np.array_equal(made.basis, Kernel(name).learn(texts(seed=1)).basis)
    with pytest.raises(ConfigError, match="has learned nothing yet"):
        Kernel(name).features(texts())


@pytest.mark.parametrize("number", [1, 2, 5])
@pytest.mark.parametrize("name", list(LEARNERS))
def test_few_texts_are_enough_to_learn_from(name: Any, number: int) -> None:
    kernel = Kernel(name).learn(texts(number))
    assert np.isfinite(kernel.features(texts())).all()
    assert kernel.basis is not None
    assert len(kernel.basis) <= number


def test_a_sum_of_cluster_features_is_a_histogram() -> None:
    kernel = Kernel("clusters").learn(texts())
    counts = body(kernel.features(texts(seed=3)).sum(axis=0))
    assert counts.sum() == pytest.approx(120)
    assert counts == pytest.approx(np.round(counts))


@pytest.mark.parametrize("name", list(LEARNERS))
def test_what_is_known_in_few_coordinates_tells_of_all_as_far_as_texts_do(name: Any) -> None:
    made, labels = texts(400), np.repeat(["a", "b"], 200)
    rows = texts(400, seed=5)[:100] + 0.7 * (made[0] - made.mean(axis=0))
    kernel, plain = Kernel(name).learn(made), Kernel()
    sums = np.stack([kernel.features(rows).sum(axis=0)] * 2)
    features, points = body(kernel.features(made)), body(plain.features(made))
    found = map_expectations(expect(Density(("a", "b"), sums, 0.0), features, labels), features, points, labels)
    truth = body(plain.features(rows)).mean(axis=0)
    for label in ("a", "b"):
        before = np.linalg.norm(points[labels == label].mean(axis=0) - truth)
        assert np.linalg.norm(found.of(label) - truth) < 0.96 * before
