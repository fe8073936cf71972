"""The public rule that opens private rows, and soft labels."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tasks.density.opening import choose_opening, opening_index, remedies
from tasks.density.soft_labels import class_shares, harden, share_weights, soft_labels

SIGMA = 3.73
"""Sigma at epsilon 1 and delta 1e-5 for sensitivity 1."""


@pytest.mark.parametrize(
    ("rows", "classes", "opening"),
    [
        (100, 10, "none"),
        (300, 10, "cosine"),
        (1000, 10, "cosine"),
        (59, 2, "none"),
        (60, 2, "cosine"),
    ],
)
def test_the_rule_opens_rows_by_public_numbers(rows: int, classes: int, opening: str) -> None:
    assert choose_opening(rows, classes, SIGMA) == opening


def test_the_rule_has_exact_thresholds_and_no_noise_opens_everything() -> None:
    assert choose_opening(80, 10, 1.0) == "cosine"
    assert choose_opening(79, 10, 1.0) == "none"
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
