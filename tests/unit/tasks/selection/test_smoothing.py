"""Smoothed votes: neighbours tell of each other, noise stays as loud, the best are not all from one place."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tasks.selection.smoothing import choose_dissimilar, select_smoothly, shrink_rates, smooth, weigh_smoothly
from tasks.selection.weights import Weighting


def unit(values: np.ndarray) -> np.ndarray:
    return np.asarray(values / np.linalg.norm(values, axis=1, keepdims=True))


def world(number: int = 300, width: int = 8) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return unit(rng.standard_normal((number, width))), np.repeat(["a", "b"], number // 2)


def test_smoothing_finds_the_place_of_votes_that_noise_hides() -> None:
    points, labels = world()
    wanted = np.exp(points @ points[0] * 3) * (labels == "a")
    ranks = []
    for seed in range(20):
        noisy = wanted / wanted.max() * 2 + 3 * np.random.default_rng(seed).standard_normal(len(points))
        own = labels == "a"
        order = (points[own] @ points[0]).argsort().argsort() / (own.sum() - 1)
        ranks.append([order[np.argsort(-scores[own])[:8]].mean() for scores in (smooth(noisy, points, labels), noisy)])
    smoothed, raw = np.mean(ranks, axis=0)
    assert smoothed > raw + 0.05


def test_smoothed_noise_is_as_loud_as_the_noise_of_one_count_wherever_texts_lie() -> None:
    points, labels = world()
    points[:60] = unit(points[:60] * 0.1 + points[0])  # a dense place
    drawn = np.stack([smooth(np.random.default_rng(seed).standard_normal(300), points, labels) for seed in range(400)])
    assert drawn.std(axis=0) == pytest.approx(np.ones(300), abs=0.2)


def test_another_class_tells_nothing_of_a_text() -> None:
    points, labels = world()
    counts = np.where(labels == "b", 100.0, 0.0)
    assert not smooth(counts, points, labels)[labels == "a"].any()


def test_the_best_of_smoothed_scores_are_not_all_from_one_place() -> None:
    points, _ = world()
    points[:12] = unit(points[:12] * 0.01 + points[0])
    scores = np.zeros(300)
    scores[:12], scores[12:30] = 2.0, 1.0
    taken = choose_dissimilar(scores, points, 6, np.empty(0, dtype=np.int64))
    assert set(taken) < set(range(30))
    assert sum(place < 12 for place in taken) <= 4
    assert not set(choose_dissimilar(scores, points, 6, taken)) & set(taken)


def test_weights_stay_equal_where_noise_explains_how_they_differ() -> None:
    sizes = np.full(4, 100.0)
    loud = np.mean(
        [shrink_rates(50 + 30 * np.random.default_rng(s).standard_normal(4), sizes, 3.0).std() for s in range(50)]
    )
    assert loud < 0.2
    told = shrink_rates(np.array([90.0, 40.0, 40.0, 30.0]), sizes, 0.1)
    assert told == pytest.approx([1.8, 0.8, 0.8, 0.6], rel=0.02)
    assert shrink_rates(np.array([-5.0, 1, 1, 1]), sizes, 1.0) == pytest.approx(np.ones(4))


def test_tables_are_those_of_votes() -> None:
    points, labels = world(40)
    samples = pd.DataFrame({"sample_id": np.arange(40), "label": labels, "text": [f"text {n}" for n in range(40)]})
    samples["plm"] = np.tile(["x", "y"], 20)
    release = pd.DataFrame({"sample_id": np.arange(40), "near": np.arange(40) % 7, "far": np.arange(40) % 5})
    chosen = select_smoothly(release, samples, points, 4)
    assert chosen.groupby(["label", "kind"]).size().tolist() == [4] * 4
    assert not chosen["sample_id"].duplicated().any()
    weights = weigh_smoothly(release, samples, ["x", "y"], Weighting(), 0.0)
    assert weights["weight"].sum() == pytest.approx(1)
    assert weights["plm"].tolist() == ["x", "y"]
