"""Cross-model selection: agreement, candidates and influence against computations by hand."""

import numpy as np
import pytest

from tasks.selection.fusegen import DAMPING, Labelled, agreement, candidates, influence
from tasks.students.heads import PROBE_STRENGTH, fit_logistic
from tests.support.data.student_rows import vector_rows


def test_confidence_and_variability_are_mean_and_spread_over_the_students():
    confidence, variability = agreement(np.array([[0.9, 0.2], [0.7, 0.8]]))
    assert confidence == pytest.approx([0.8, 0.5])
    assert variability == pytest.approx([0.1, 0.3])


def test_a_student_without_a_say_is_left_out():
    confidence, variability = agreement(np.array([[np.nan, 0.2], [0.7, 0.8], [0.5, 0.2]]))
    assert confidence == pytest.approx([0.6, 0.4])
    assert variability[0] == pytest.approx(0.1)


def test_candidates_come_from_both_ends_of_variability():
    variability = np.array([0.30, 0.10, 0.20, 0.05, 0.40, 0.25])
    easy, ambiguous = candidates(np.full(6, 0.5), variability, 4)
    assert easy.tolist() == [3, 1]
    assert ambiguous.tolist() == [4, 0]


def test_equal_variability_goes_to_the_more_confident_then_to_the_earlier():
    easy, _ = candidates(np.array([0.2, 0.9, 0.9, 0.1]), np.zeros(4), 4)
    assert easy.tolist() == [1, 2]


def test_with_too_few_texts_each_is_a_candidate_once():
    easy, ambiguous = candidates(np.full(3, 0.5), np.array([0.3, 0.1, 0.2]), 40)
    assert sorted([*easy.tolist(), *ambiguous.tolist()]) == [0, 1, 2]


def by_hand(learned, checks, judged, classes):
    """Influence from whole matrices: the curvature as one block matrix, solved directly."""
    weight, bias = fit_logistic(learned.vectors, learned.targets, learned.weights, classes, PROBE_STRENGTH)
    centre = learned.vectors.mean(axis=0)
    spread = np.sqrt(((learned.vectors - centre) ** 2).sum(axis=1).mean())

    def seen(vectors):
        scores = vectors @ weight.T + bias
        likely = np.exp(scores - scores.max(axis=1, keepdims=True))
        rows = np.hstack([(vectors - centre) / spread, np.ones((len(vectors), 1))])
        return rows, likely / likely.sum(axis=1, keepdims=True)

    rows, likely = seen(learned.vectors)
    size = classes * rows.shape[1]
    curvature = DAMPING * np.eye(size)
    for row, p, share in zip(rows, likely, learned.weights / learned.weights.sum(), strict=True):
        curvature += share * np.kron(np.diag(p) - np.outer(p, p), np.outer(row, row))
    slope = np.zeros(size)
    for row, p, target in zip(*seen(checks.vectors), checks.targets, strict=True):
        unit = np.eye(classes)[target]
        slope += np.kron(p[target] * (p - unit), row) / len(checks.targets)
    steps = np.linalg.solve(curvature, slope)
    return [steps @ np.kron(likely[at] - np.eye(classes)[learned.targets[at]], rows[at]) for at in judged]


def test_influence_is_the_gradient_times_the_inverse_curvature_times_the_gradient():
    rows, more = vector_rows(60, seed=1), vector_rows(30, seed=2)
    weights = np.random.default_rng(3).uniform(0.5, 2, 60)
    learned = Labelled(rows.vectors, rows.targets(), weights)
    checks = Labelled(more.vectors, more.targets(), np.ones(30))
    judged = np.array([4, 17, 33, 59])
    found = influence(learned, checks, judged, 3)
    assert found == pytest.approx(by_hand(learned, checks, judged, 3), rel=1e-3, abs=1e-7)


def test_a_mislabelled_text_has_less_influence_for_the_good_than_a_right_one():
    rows, more = vector_rows(60, seed=1), vector_rows(30, seed=2)
    targets = rows.targets()
    targets[0] = (targets[0] + 1) % 3
    learned = Labelled(rows.vectors, targets, np.ones(60))
    scores = influence(learned, Labelled(more.vectors, more.targets(), np.ones(30)), np.arange(60), 3)
    assert scores[0] < 0
    assert scores[0] == scores.min()
