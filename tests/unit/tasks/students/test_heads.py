import json

import numpy as np
import pytest

from connectors.interfaces.errors import InputError
from tasks.students.heads import probe_accuracy
from tasks.students.spec import StudentSpec, TrainingRows
from tasks.students.train import evaluate, load_student, train_student
from tests.support.data.student_rows import CLASSES, clouds, vector_rows


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_a_student_on_vectors_learns_whatever_their_scale_and_with_a_constant_column(kind, tmp_path):
    rows, (vectors, truth) = vector_rows(), clouds(300, 1)
    for factor in (0.05, 1.0, 20.0):
        scaled = np.pad(rows.vectors * factor, ((0, 0), (0, 1)), constant_values=3.0)
        learned = TrainingRows(rows.texts, rows.labels, CLASSES, scaled)
        assert train_student(StudentSpec(kind=kind), learned, tmp_path).metrics["accuracy"] > 0.8
        padded = np.pad(vectors * factor, ((0, 0), (0, 1)), constant_values=3.0)
        prediction = load_student(tmp_path)([""] * 300, padded)
        assert evaluate(truth, prediction.labels, CLASSES)["accuracy"] > 0.95
        assert np.allclose(prediction.probabilities.sum(axis=1), 1.0)


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_the_same_seed_gives_the_same_student_on_vectors(kind, tmp_path):
    vectors, _ = clouds(50, 1)
    for name in "ab":
        train_student(StudentSpec(kind=kind, epochs=3), vector_rows(), tmp_path / name)
    first, second = (load_student(tmp_path / name)([""] * 50, vectors).probabilities for name in "ab")
    assert np.array_equal(first, second)


def test_a_student_on_vectors_is_stored_without_pickle(tmp_path):
    train_student(StudentSpec(kind="linear"), vector_rows(), tmp_path)
    with np.load(tmp_path / "head.npz", allow_pickle=False) as stored:
        assert {stored[name].dtype for name in stored.files} == {np.dtype(np.float32)}
    assert json.loads((tmp_path / "student.json").read_text())["classes"] == CLASSES


@pytest.mark.parametrize(
    ("labels", "more", "words"),
    [
        ([0, 1], {}, "2 labels"),
        ([0, 1, "moon"], {}, r"row 2: label 'moon'"),
        ([0, 1, 2], {"vectors": None}, "needs vectors"),
        ([0, 1, 2], {"vectors": np.full((3, 2), np.nan, dtype=np.float32)}, "finite"),
        ([0, 1, 2], {"weights": [1, -1, 1]}, "negative"),
        ([0, 1, 2], {"soft": np.ones((2, len(CLASSES)))}, "2 soft"),
        ([], {"texts": [], "vectors": np.zeros((0, 2), dtype=np.float32)}, "are empty"),
    ],
)
def test_rows_that_do_not_fit_together_are_refused(labels, more, words, tmp_path):
    names = [CLASSES[label] if isinstance(label, int) else label for label in labels]
    usual = {"texts": ["a"] * 3, "vectors": np.zeros((3, 2), dtype=np.float32)}
    with pytest.raises(InputError, match=words):
        train_student(StudentSpec(kind="linear"), TrainingRows(labels=names, classes=CLASSES, **usual | more), tmp_path)


def test_vectors_of_another_embedder_are_refused(tmp_path):
    train_student(StudentSpec(kind="linear"), vector_rows(), tmp_path)
    predict = load_student(tmp_path)
    for vectors in (None, np.zeros((2, 5), dtype=np.float32), np.zeros((3, 12), dtype=np.float32)):
        with pytest.raises(InputError, match="12"):
            predict(["a", "b"], vectors)


def test_the_probe_tells_separate_clouds_from_shuffled_labels():
    vectors, labels = clouds(200, 0)
    test_vectors, test_labels = clouds(200, 1)
    assert probe_accuracy(vectors, labels, test_vectors, test_labels) > 0.95
    shuffled = list(np.random.default_rng(0).permutation(labels))
    assert probe_accuracy(vectors, shuffled, test_vectors, test_labels) < 0.6
    assert probe_accuracy(vectors, ["fruit"] * 200, test_vectors, test_labels) == pytest.approx(67 / 200)
    with pytest.raises(InputError):
        probe_accuracy(vectors[:0], [], test_vectors, test_labels)


def test_labels_absent_from_training_count_as_wrong_for_the_probe():
    vectors, labels = clouds(90, 0)
    kept = [row for row, label in enumerate(labels) if label != "river"]
    assert probe_accuracy(vectors[kept], [labels[row] for row in kept], vectors, labels) <= 2 / 3


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_a_student_learns_soft_labels_instead_of_wrong_ones(kind, tmp_path):
    rows = vector_rows()
    number = {name: place for place, name in enumerate(CLASSES)}
    soft = 0.9 * np.eye(len(CLASSES))[[number[label] for label in rows.labels]] + 0.1 / len(CLASSES)
    shifted = [CLASSES[(number[label] + 1) % len(CLASSES)] for label in rows.labels]
    vectors, truth = clouds(300, 1)
    reached = {}
    for name, given in (("hard", None), ("soft", soft)):
        learned = TrainingRows(rows.texts, shifted if given is None else rows.labels, CLASSES, rows.vectors, soft=given)
        train_student(StudentSpec(kind=kind), learned, tmp_path / name)
        reached[name] = load_student(tmp_path / name)([""] * 300, vectors)
    assert evaluate(truth, reached["soft"].labels, CLASSES)["accuracy"] > 0.95
    assert evaluate(truth, reached["hard"].labels, CLASSES)["accuracy"] < 0.05
    train_student(StudentSpec(kind=kind), rows, tmp_path / "sure")
    sure = load_student(tmp_path / "sure")([""] * 300, vectors)
    assert reached["soft"].probabilities.max(axis=1).mean() < sure.probabilities.max(axis=1).mean()
