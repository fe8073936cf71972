"""The exam: a row counts once, by itself, and the interval covers the truth."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.accounting.teachers import TeacherPrivacy, calibrate_part
from tasks.private.releases.exam import MARKS, PublicHead, marks_of
from tasks.private.releases.label_counts import clean_labels
from tasks.steps.exam import exam_result

HEAD = PublicHead(np.array([[1.0, 0.0], [-1.0, 0.0]]), np.zeros(2), ("a", "b"))


def test_a_row_is_marked_by_itself_and_moves_one_count_by_one() -> None:
    draw = np.random.default_rng(0)
    vectors = draw.standard_normal((50, 2)).astype(np.float32)
    vectors[3] = np.nan
    vectors[4] = 1e38
    labels = [str(label) for label in draw.choice(["a", "b", "unknown"], 50)]
    noise = calibrate_part(TeacherPrivacy("exam", 1.0, 1e-5, 1))
    assert noise.sensitivity == 1.0
    whole = clean_labels(marks_of(vectors, labels, HEAD), MARKS, noise).sums
    for row in range(50):
        left = np.arange(50) != row
        others = [label for place, label in enumerate(labels) if place != row]
        moved = whole - clean_labels(marks_of(vectors[left], others, HEAD), MARKS, noise).sums
        assert sorted(moved.ravel().tolist()) == [0, noise.steps]
    replaced = calibrate_part(TeacherPrivacy("exam", 1.0, 1e-5, 1, adjacency="replace_one"))
    assert replaced.sensitivity == pytest.approx(2**0.5)


def test_the_head_is_right_where_the_class_fits() -> None:
    vectors = np.array([[2.0, 1.0], [-2.0, 1.0], [2.0, 0.0]], dtype=np.float32)
    assert marks_of(vectors, ["a", "b", "b"], HEAD) == ["right", "right", "wrong"]


def test_the_interval_covers_the_truth_in_about_95_percent() -> None:
    draw, truth, rows, scale = np.random.default_rng(1), 0.7, 200, 8.0
    covered = 0
    for _ in range(2000):
        right = draw.binomial(rows, truth)
        result = exam_result(
            right + scale * draw.standard_normal(), rows - right + scale * draw.standard_normal(), scale
        )
        covered += result.low <= truth <= result.high
    assert 0.93 < covered / 2000 < 0.97
    nothing = exam_result(-5.0, -5.0, scale)
    assert (nothing.low, nothing.high) == (0.0, 1.0)
