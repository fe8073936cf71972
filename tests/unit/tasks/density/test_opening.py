"""The public rule that opens private rows, posterior shifts and soft labels."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tasks.density.matching import Density, expect_gated
from tasks.density.opening import choose_opening, opening_index, remedies
from tasks.density.posterior import kept_part, shrink_shifts
from tasks.density.soft_labels import class_shares, harden, share_weights, soft_labels

SIGMA = 3.73
"""Sigma at epsilon 1 and delta 1e-5 for sensitivity 1."""


@pytest.mark.parametrize(
    ("rows", "classes", "opening"),
    [
        (100, 10, "none"),
        (300, 10, "discriminant"),
        (600, 10, "discriminant"),
        (1000, 10, "cosine"),
        (60, 2, "discriminant"),
    ],
)
def test_the_rule_opens_rows_by_public_numbers(rows: int, classes: int, opening: str) -> None:
    assert choose_opening(rows, classes, SIGMA) == opening


def test_the_rule_has_exact_thresholds_and_no_noise_opens_everything() -> None:
    assert choose_opening(80, 10, 1.0) == "discriminant"
    assert choose_opening(79, 10, 1.0) == "none"
    assert choose_opening(180, 10, 1.0) == "cosine"
    assert opening_index(1, 10, 0.0) == math.inf
    assert choose_opening(1, 10, 0.0) == "cosine"


def test_remedies_open_the_rows_and_less_does_not() -> None:
    change = remedies(100, 10, SIGMA)
    assert choose_opening(change.rows, 10, SIGMA) != "none"
    assert choose_opening(change.rows - 1, 10, SIGMA) == "none"
    assert change.classes is not None
    assert choose_opening(100, change.classes, SIGMA) != "none"
    assert choose_opening(100, change.classes + 1, SIGMA) == "none"
    assert choose_opening(100, 10, change.sigma) != "none"
    assert remedies(10, 10, SIGMA).classes is None


def test_pure_noise_is_almost_never_a_shift() -> None:
    rng = np.random.default_rng(0)
    variances = np.full((10, 17), 4.0)
    shrunk = [shrink_shifts(2 * rng.standard_normal((10, 17)), variances) for _ in range(200)]
    assert np.mean([bool(shift.any()) for shift in shrunk]) < 0.1


def test_large_shifts_are_kept_and_are_nearer_to_the_truth_than_observed_ones() -> None:
    rng = np.random.default_rng(1)
    truth = rng.standard_normal(17) * 2 + rng.standard_normal((10, 17))
    observed = truth + rng.standard_normal((10, 17))
    shrunk = shrink_shifts(observed, np.ones((10, 17)))
    assert ((shrunk - truth) ** 2).sum() < 0.8 * ((observed - truth) ** 2).sum()
    assert shrink_shifts(observed, np.zeros((10, 17))) == pytest.approx(observed, abs=1e-6)


def test_a_common_shift_is_kept_when_own_shifts_are_noise() -> None:
    rng = np.random.default_rng(2)
    shifts = 1.5 + rng.standard_normal((10, 17))
    shrunk = shrink_shifts(shifts, np.ones((10, 17)))
    assert shrunk == pytest.approx(np.tile(shrunk[0], (10, 1)))
    assert shrunk.mean() == pytest.approx(1.5, abs=0.2)
    assert shrink_shifts(shifts[:1], np.full((1, 17), 100.0)).tolist() == np.zeros((1, 17)).tolist()


def test_the_gate_is_two_standard_errors_above_the_expectation_of_noise() -> None:
    limit = 50 + 2 * math.sqrt(100)
    assert kept_part(np.full(50, math.sqrt((limit - 0.01) / 50)), 50) == 0
    assert kept_part(np.full(50, math.sqrt((limit + 0.01) / 50)), 50) == pytest.approx(1 - 48 / limit, abs=1e-3)


def test_expected_features_without_noise_are_the_means_of_rows() -> None:
    rng = np.random.default_rng(4)
    texts, rows = rng.uniform(-0.3, 0.3, (200, 5)), rng.uniform(-0.1, 0.5, (4000, 5))
    labels = np.repeat(["a", "b"], 100)
    body = math.sqrt(0.9) * rows.sum(axis=0)
    sums = np.stack([np.concatenate([[math.sqrt(0.1) * len(rows)], body])] * 2)
    expected = expect_gated(Density(("a", "b"), sums, 0.0), texts, labels)
    assert expected.of("a") == pytest.approx(rows.mean(axis=0), abs=0.01)
    quiet = expect_gated(Density(("a", "b"), sums, 1e6), texts, labels)
    assert quiet.of("b") == pytest.approx(texts[100:].mean(axis=0))


def test_soft_labels_follow_the_boundary_of_moved_vectors() -> None:
    rng = np.random.default_rng(5)
    labels = np.repeat(["a", "b"], 150)
    vectors = rng.standard_normal((300, 4)) + np.where(labels == "a", -1.5, 1.5)[:, None] * np.eye(4)[0]
    plain = soft_labels(vectors, vectors, labels, ("a", "b"))
    moved = soft_labels(vectors, vectors + 2 * np.eye(4)[0], labels, ("a", "b"))
    assert plain.sum(axis=1) == pytest.approx(np.ones(300))
    assert (moved[:, 0] > plain[:, 0] - 1e-9).all()
    assert harden(moved, ("a", "b")).count("a") > harden(plain, ("a", "b")).count("a")


def test_class_shares_pull_soft_labels_and_one_class_is_certain() -> None:
    rng = np.random.default_rng(6)
    labels = np.repeat(["a", "b"], 100)
    vectors = rng.standard_normal((200, 4)) + np.where(labels == "a", -0.5, 0.5)[:, None]
    shares = class_shares(np.array([90.0, 10.0]))
    plain, pulled = (soft_labels(vectors, vectors, labels, ("a", "b"), given) for given in (None, shares))
    assert pulled[:, 0].mean() > plain[:, 0].mean() + 0.2
    assert share_weights(np.array([0, 0, 1, 1]), shares) == pytest.approx([1.8, 1.8, 0.2, 0.2])
    assert soft_labels(vectors[:3], vectors[:3], labels[:3], ("a", "b")).tolist() == [[1, 0]] * 3
