"""Weights that adjust themselves: the published formula by hand, and that they reach the training."""

import math

import numpy as np
import pytest

from tasks.students.boosting import adjust_weights, beta_of
from tasks.students.spec import StudentSpec, settings
from tasks.students.train import load_student, train_student
from tests.support.data.student_rows import CLASSES, vector_rows


def test_beta_is_the_published_one_held_at_two_for_few_texts_per_round():
    assert beta_of(200, 30) == pytest.approx(1 + math.sqrt(2 * math.log(200 / 30)))
    assert beta_of(200, 30) == pytest.approx(2.9479, abs=1e-4)
    assert beta_of(49, 30) == 2.0
    assert beta_of(5, 30) == 2.0, "the logarithm is negative here"


def test_one_round_by_hand():
    weights = np.array([0.5, 0.5, 0.5])
    likely = np.array([[0.8, 0.2], [0.75, 0.25], [0.1, 0.9]])
    targets = np.array([0, 1, 1])
    # the second is taken for class 0 with 1 - p = 0.75: 0.5 * 2^-0.75 = 0.297302; the sum 1.297302 is scaled to 1.5
    found = adjust_weights(weights, likely, targets, 2.0)
    assert found == pytest.approx([0.578124, 0.343753, 0.578124], abs=1e-6)
    assert found.sum() == pytest.approx(1.5)


def test_nobody_wrong_changes_nothing():
    weights = np.array([0.2, 0.8])
    assert adjust_weights(weights, np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([0, 1]), 2.0) == pytest.approx(weights)


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_mislabelled_rows_weigh_less_in_the_end_and_the_student_is_another(kind, tmp_path):
    rows = vector_rows(120)
    labels = list(rows.labels)
    planted = range(0, 120, 12)
    for row in planted:
        labels[row] = CLASSES[(CLASSES.index(labels[row]) + 1) % 3]
    wrong = type(rows)(rows.texts, labels, rows.classes, rows.vectors)
    plain, boosted = (
        StudentSpec(kind, epochs=8, batch=4, learning_rate=3e-3, seed=1, validation_share=0.0, boost=boost)
        for boost in (False, True)
    )
    unweighted = train_student(plain, wrong, tmp_path / "plain")
    trained = train_student(boosted, wrong, tmp_path / "boosted")
    assert unweighted.weights is None
    assert trained.weights.mean() == pytest.approx(1.0)
    others = np.setdiff1d(np.arange(120), planted)
    assert trained.weights[list(planted)].mean() < 0.5 * trained.weights[others].mean()
    answers = [load_student(tmp_path / name)(rows.texts, rows.vectors).probabilities for name in ("plain", "boosted")]
    assert np.abs(answers[0] - answers[1]).max() > 1e-3


def test_a_spec_without_weights_has_the_key_it_had_before_there_were_any():
    assert "boost" not in settings(StudentSpec("linear"))
    assert settings(StudentSpec("linear", boost=True))["boost"] is True
    assert settings(StudentSpec(head="random"))["head"] == "random"
    assert settings(StudentSpec("mlp", adaptation="coral"))["adaptation"] == "coral"
    assert {"adaptation", "head"}.isdisjoint(settings(StudentSpec("mlp")))
    assert settings(StudentSpec())["precision"] == "auto"
