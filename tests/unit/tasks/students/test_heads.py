"""Students on vectors: they learn, adapt, adjust weights, and are read back as they were."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from connectors.interfaces.errors import InputError
from tasks.students.coral import choose_unlabelled, coral
from tasks.students.heads import fit_logistic, fit_parameters, probe_accuracy, tolerance_of
from tasks.students.loop import adjust_weights, beta_of
from tasks.students.spec import StudentSpec, TrainingRows, settings
from tasks.students.train import evaluate, load_student, train_student
from tests.support.data.student_rows import CLASSES, clouds, vector_rows


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_a_student_on_vectors_learns_regardless_of_their_scale_and_with_a_constant_column(
    kind, tmp_path
):
    rows, (vectors, truth) = vector_rows(), clouds(300, 1)
    for factor in (0.05, 1.0, 20.0):
        scaled = np.pad(rows.vectors * factor, ((0, 0), (0, 1)), constant_values=3.0)
        learned = TrainingRows(rows.texts, rows.labels, CLASSES, scaled)
        train_student(StudentSpec(kind=kind), learned, tmp_path)
        padded = np.pad(vectors * factor, ((0, 0), (0, 1)), constant_values=3.0)
        prediction = load_student(tmp_path)([""] * 300, padded)
        assert evaluate(truth, prediction.labels, CLASSES)["accuracy"] > 0.95
        assert np.allclose(prediction.probabilities.sum(axis=1), 1.0)


def many_clouds(classes: int, seed: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return vectors of length 1 (rows, 384) around the centres of classes, and their classes."""
    generator = np.random.default_rng(seed)
    truth = generator.integers(0, classes, rows)
    centres = np.random.default_rng(0).normal(size=(classes, 384))
    vectors = centres[truth] + 3 * generator.normal(size=(rows, 384))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32), truth


@pytest.mark.parametrize("classes", [31, 150, 300])
def test_a_fit_of_many_classes_goes_on_until_it_recognises_them(classes):
    vectors, targets = many_clouds(classes, 1, 20 * classes)
    weight, bias = fit_logistic(vectors, targets, np.ones(len(targets)), classes, 3.0)
    others, truth = many_clouds(classes, 2, 1000)
    assert np.mean((others @ weight.T + bias).argmax(axis=1) == truth) > 0.9


@pytest.mark.parametrize("classes", [2, 10, 14])
def test_soft_labels_that_are_nearly_equal_teach_as_much_as_certain_ones(tmp_path, classes):
    names = [f"class {number}" for number in range(classes)]
    vectors, targets = many_clouds(classes, 1, 600)
    certain = np.eye(classes)[targets]
    reached = []
    for part in (1.0, 0.05, 0.005):
        soft = part * certain + (1 - part) / classes
        labels = [names[target] for target in targets]
        rows = TrainingRows([""] * len(targets), labels, names, vectors, soft=soft)
        train_student(StudentSpec(kind="linear"), rows, tmp_path)
        others, truth = many_clouds(classes, 2, 1000)
        guessed = load_student(tmp_path)([""] * 1000, others).labels
        reached.append(
            np.mean([guess == names[right] for guess, right in zip(guessed, truth, strict=True)])
        )
    assert min(reached) > 0.9


def test_the_tolerance_of_few_classes_with_hard_labels_is_no_part_of_a_key():
    assert fit_parameters(30) == {}
    assert fit_parameters(40) == {"tolerance": tolerance_of(40)}
    assert fit_parameters(2, soft=True) == {"tolerance": "0.05 of the first gradient"}


def test_a_student_on_vectors_is_stored_without_pickle(tmp_path):
    train_student(StudentSpec(kind="linear"), vector_rows(), tmp_path)
    with np.load(tmp_path / "head.npz", allow_pickle=False) as stored:
        assert {stored[name].dtype for name in stored.files} == {np.dtype(np.float32)}
    assert json.loads((tmp_path / "student.json").read_text())["classes"] == CLASSES


@pytest.mark.parametrize(
    ("labels", "more", "words"),
    [
        ([0, 1, "moon"], {}, r"row 2: label 'moon'"),
        ([0, 1, 2], {"vectors": None}, "needs vectors"),
        ([0, 1, 2], {"vectors": np.full((3, 2), np.nan, dtype=np.float32)}, "finite"),
        ([0, 1, 2], {"weights": [1, -1, 1]}, "negative"),
        ([], {"texts": [], "vectors": np.zeros((0, 2), dtype=np.float32)}, "are empty"),
    ],
)
def test_rows_that_teach_nothing_are_refused(labels, more, words, tmp_path):
    names = [CLASSES[label] if isinstance(label, int) else label for label in labels]
    usual = {"texts": ["a"] * 3, "vectors": np.zeros((3, 2), dtype=np.float32)}
    with pytest.raises(InputError, match=words):
        train_student(
            StudentSpec(kind="linear"),
            TrainingRows(labels=names, classes=CLASSES, **usual | more),
            tmp_path,
        )


def test_vectors_of_another_embedder_are_refused(tmp_path):
    train_student(StudentSpec(kind="linear"), vector_rows(), tmp_path)
    predict = load_student(tmp_path)
    for vectors in (None, np.zeros((2, 5), dtype=np.float32), np.zeros((3, 12), dtype=np.float32)):
        with pytest.raises(InputError, match="12"):
            predict(["a", "b"], vectors)


def test_the_probe_distinguishes_separate_clouds_from_shuffled_labels():
    vectors, labels = clouds(200, 0)
    test_vectors, test_labels = clouds(200, 1)
    assert probe_accuracy(vectors, labels, test_vectors, test_labels) > 0.95
    shuffled = list(np.random.default_rng(0).permutation(labels))
    assert probe_accuracy(vectors, shuffled, test_vectors, test_labels) < 0.6
    assert probe_accuracy(vectors, ["fruit"] * 200, test_vectors, test_labels) == pytest.approx(
        67 / 200
    )
    known = [row for row, label in enumerate(labels) if label != "river"]
    absent = probe_accuracy(vectors[known], [labels[row] for row in known], vectors, labels)
    assert absent <= len(known) / len(labels), "labels absent from training count as wrong"
    with pytest.raises(InputError):
        probe_accuracy(vectors[:0], [], test_vectors, test_labels)


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_a_student_learns_soft_labels_instead_of_wrong_ones(kind, tmp_path):
    rows = vector_rows()
    number = {name: position for position, name in enumerate(CLASSES)}
    soft = 0.9 * np.eye(len(CLASSES))[[number[label] for label in rows.labels]] + 0.1 / len(CLASSES)
    shifted = [CLASSES[(number[label] + 1) % len(CLASSES)] for label in rows.labels]
    vectors, truth = clouds(300, 1)
    reached = {}
    for name, arguments in (("hard", None), ("soft", soft)):
        learned = TrainingRows(
            rows.texts,
            shifted if arguments is None else rows.labels,
            CLASSES,
            rows.vectors,
            soft=arguments,
        )
        train_student(StudentSpec(kind=kind), learned, tmp_path / name)
        reached[name] = load_student(tmp_path / name)([""] * 300, vectors)
    assert evaluate(truth, reached["soft"].labels, CLASSES)["accuracy"] > 0.95
    assert evaluate(truth, reached["hard"].labels, CLASSES)["accuracy"] < 0.05
    mostly = np.eye(len(CLASSES))[[0] * len(soft)]
    leaning = TrainingRows(
        rows.texts, CLASSES[:1] * len(soft), CLASSES, rows.vectors, soft=0.6 * mostly + 0.4 * soft
    )
    train_student(StudentSpec(kind=kind), leaning, tmp_path / "leaning")
    assert set(load_student(tmp_path / "leaning")([""] * 300, vectors).labels) == {CLASSES[0]}, (
        "the likeliest of all"
    )
    weight, bias = fit_logistic(
        rows.vectors, np.full(len(soft), 1), np.ones(len(soft)), len(CLASSES), 1.0
    )
    assert not weight.any()
    assert bias.argmax() == 1
    train_student(StudentSpec(kind=kind), rows, tmp_path / "sure")
    sure = load_student(tmp_path / "sure")([""] * 300, vectors)
    assert reached["soft"].probabilities.max(axis=1).mean() < sure.probabilities.max(axis=1).mean()


# --- weights that adjust themselves: the published formula by hand, and that they reach the training
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
    result = adjust_weights(weights, likely, targets, 2.0)
    assert result == pytest.approx([0.578124, 0.343753, 0.578124], abs=1e-6)
    assert result.sum() == pytest.approx(1.5)
    sound = np.array([[0.9, 0.1], [0.4, 0.6]])
    assert adjust_weights(weights[:2], sound, targets[:2], 2.0) == pytest.approx(weights[:2]), (
        "nobody is wrong"
    )


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_mislabelled_rows_weigh_less_in_the_end_and_the_student_is_another(kind, tmp_path):
    rows = vector_rows(120)
    labels = list(rows.labels)
    planted = range(0, 120, 12)
    for row in planted:
        labels[row] = CLASSES[(CLASSES.index(labels[row]) + 1) % 3]
    wrong = type(rows)(rows.texts, labels, rows.classes, rows.vectors)
    plain, boosted = (
        StudentSpec(
            kind, epochs=8, batch=4, learning_rate=3e-3, seed=1, validation_share=0.0, boost=boost
        )
        for boost in (False, True)
    )
    unweighted = train_student(plain, wrong, tmp_path / "plain")
    trained = train_student(boosted, wrong, tmp_path / "boosted")
    assert unweighted.weights is None
    assert trained.weights.mean() == pytest.approx(1.0)
    others = np.setdiff1d(np.arange(120), planted)
    assert trained.weights[list(planted)].mean() < 0.5 * trained.weights[others].mean()
    answers = [
        load_student(tmp_path / name)(rows.texts, rows.vectors).probabilities
        for name in ("plain", "boosted")
    ]
    assert np.abs(answers[0] - answers[1]).max() > 1e-3


def test_a_spec_without_weights_has_the_key_it_had_before_there_were_any():
    assert "boost" not in settings(StudentSpec("linear"))
    assert settings(StudentSpec("linear", boost=True))["boost"] is True
    assert settings(StudentSpec(head="random"))["head"] == "random"
    assert settings(StudentSpec("mlp", adaptation="coral"))["adaptation"] == "coral"
    assert {"adaptation", "head"}.isdisjoint(settings(StudentSpec("mlp")))
    assert settings(StudentSpec())["precision"] == "auto"


# --- deep CORAL: the printed formula, unlabelled texts without labels, a student that comes closer to them
torch = pytest.importorskip("torch")


def test_the_distance_is_the_printed_formula() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((50, 4)), 2 * rng.standard_normal((20, 4))
    apart = np.cov(first.T) - np.cov(second.T)
    result = float(coral(torch.from_numpy(first), torch.from_numpy(second)))
    assert result == pytest.approx((apart**2).sum() / (4 * 4**2), rel=1e-4)
    assert float(coral(torch.from_numpy(first), torch.from_numpy(first + 7))) == pytest.approx(
        0, abs=1e-8
    )


def test_half_as_many_unlabelled_texts_are_used_at_most() -> None:
    taken = choose_unlabelled(100, 60, 0)
    assert len(taken) == len(set(taken.tolist())) == 30
    assert choose_unlabelled(10, 60, 0).tolist() == list(range(10))


def domains() -> tuple[TrainingRows, np.ndarray]:
    """Return rows of three classes, and unlabelled vectors of the same classes that vary differently."""
    rng = np.random.default_rng(1)
    centres = 2 * np.eye(8)[:3]
    labels = rng.integers(0, 3, 240)
    vectors = (centres[labels] + 0.3 * rng.standard_normal((240, 8))).astype(np.float32)
    other = centres[rng.integers(0, 3, 150)] * 3 + rng.standard_normal((150, 8))
    texts = [f"text {n}" for n in range(240)]
    names = [CLASSES[label] for label in labels]
    rows = TrainingRows(texts, names, CLASSES, vectors, unlabelled=other.astype(np.float32))
    return rows, other.astype(np.float32)


def scores_apart(folder: Path, rows: TrainingRows, other: np.ndarray) -> float:
    with np.load(folder / "head.npz") as stored:
        layers = [(stored[f"w{i}"], stored[f"b{i}"]) for i in range(3)]

    def scores(result: np.ndarray) -> np.ndarray:
        for position, (weight, bias) in enumerate(layers):
            result = result @ weight.T + bias
            result = np.maximum(result, 0) if position < 2 else result
        return result

    return float(coral(torch.from_numpy(scores(rows.vectors)), torch.from_numpy(scores(other))))


def test_a_student_with_adaptation_varies_on_both_domains_alike(tmp_path: Path) -> None:
    rows, other = domains()
    apart = {}
    for name in ("none", "coral"):
        spec = StudentSpec("mlp", epochs=20, adaptation=name, validation_share=0.0)
        train_student(spec, rows, tmp_path / name)
        apart[name] = scores_apart(tmp_path / name, rows, other)
        predicted = load_student(tmp_path / name)(rows.texts, rows.vectors).labels
        assert (
            np.mean([entry == two for entry, two in zip(predicted, rows.labels, strict=True)]) > 0.9
        )
    assert apart["coral"] < apart["none"] / 2
