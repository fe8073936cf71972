import sys
from dataclasses import replace

import numpy as np
import pytest

from connectors.interfaces.errors import ArtifactError, ConfigError, InputError, MissingPackageError
from tasks.students.loop import accuracy_and_loss, split
from tasks.students.spec import StudentSpec, TrainingRows
from tasks.students.train import evaluate, load_student, train_student, units_of_work
from tests.support.data.student_rows import CLASSES, clouds, sentences, vector_rows
from tests.support.models.tiny import save_bert, save_roberta


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A two-layer BERT with random weights, as a hub model's folder would be."""
    return save_bert(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def tiny_roberta(tmp_path_factory):
    """A two-layer RoBERTa, which counts positions from behind its padding's: one of 66 holds no token."""
    return save_roberta(tmp_path_factory.mktemp("roberta"))


@pytest.fixture(scope="module")
def tiny_encoder(tiny, tmp_path_factory):
    """A sentence encoder of the same size, which has learned the words before; laid out as such models are."""
    folder = tmp_path_factory.mktemp("encoder")
    spec = _tiny_spec(tiny, epochs=12, patience=12)
    train_student(spec, TrainingRows(*sentences(150, 7), CLASSES), folder)
    (folder / "model" / "modules.json").write_text("[]", encoding="utf-8")
    return folder / "model"


def _tiny_spec(folder, **changes):
    return StudentSpec(
        **{"model": str(folder), "epochs": 6, "learning_rate": 5e-3, "batch": 16, **changes}
    )


@pytest.mark.parametrize("layout", ["tiny", "tiny_encoder", "tiny_roberta"])
def test_a_fine_tuned_student_learns_and_predicts_the_same_when_loaded(layout, request, tmp_path):
    texts, labels = sentences(150, 0)
    spec = _tiny_spec(request.getfixturevalue(layout), epochs=12, patience=12)
    train_student(spec, TrainingRows(texts, labels, CLASSES), tmp_path / "student")
    unseen, truth = sentences(60, 1)
    prediction = load_student(tmp_path / "student")(unseen, None)
    assert evaluate(truth, prediction.labels, CLASSES)["accuracy"] > 0.9
    assert prediction.probabilities.shape == (60, 3)
    assert np.allclose(prediction.probabilities.sum(axis=1), 1.0)
    served = pytest.importorskip("connectors.tracking.served_model").transformer(
        tmp_path / "student"
    )
    assert np.mean(served(unseen).argmax(1) == prediction.probabilities.argmax(1)) > 0.95, (
        "as MLflow serves it"
    )
    assert served(["word " * 400]).shape == (1, 3), "longer than the model"


def test_a_standard_model_is_stored_so_that_its_own_library_opens_it(tiny, tmp_path):
    import transformers

    texts, labels = sentences(60, 0)
    train_student(_tiny_spec(tiny, epochs=1), TrainingRows(texts, labels, CLASSES), tmp_path)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "model")
    assert model.config.id2label == dict(enumerate(CLASSES))
    assert not [
        file for file in tmp_path.rglob("*") if file.suffix in {".bin", ".pt", ".pkl", ".pickle"}
    ]


@pytest.mark.parametrize(
    ("kind", "layout"),
    [("linear", "tiny"), ("mlp", "tiny"), ("finetune", "tiny"), ("finetune", "tiny_encoder")],
)
def test_the_same_seed_gives_the_same_student_and_leaves_the_process_random_state_alone(
    kind, layout, request, tmp_path
):
    import torch

    vectors, labels = clouds(60, 0)
    rows = TrainingRows(sentences(60, 0, labels)[0], labels, CLASSES, vectors)
    spec = _tiny_spec(request.getfixturevalue(layout), kind=kind, epochs=2)
    texts, _ = sentences(20, 1)
    torch_before, numpy_before = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    answers = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        train_student(replace(spec, seed=seed), rows, tmp_path / name)
        answers.append(load_student(tmp_path / name)(texts, vectors[:20]).probabilities)
    assert np.array_equal(answers[0], answers[1])
    assert np.array_equal(answers[0], answers[2]) == (kind == "linear"), "its loss has one minimum"
    assert torch.equal(torch_before, torch.random.get_rng_state())
    assert np.array_equal(numpy_before, np.random.get_state()[1])


def test_the_best_pass_is_restored_and_training_stops_early(tiny, tmp_path, monkeypatch):
    passes = []

    def record(probabilities, targets):
        passes.append(accuracy_and_loss(probabilities, targets))
        return passes[-1]

    monkeypatch.setattr("tasks.students.loop.accuracy_and_loss", record)
    texts, labels = sentences(90, 0)
    rows = TrainingRows(texts, labels, CLASSES)
    # A rate that destroys the network after a while: the last pass is not the best one.
    spec = _tiny_spec(tiny, epochs=30, learning_rate=0.05, patience=2)
    trained = train_student(spec, rows, tmp_path)
    assert trained.epochs == len(passes) < 30
    assert trained.best_epoch == trained.epochs - 2
    best = max(passes, key=lambda measured: (measured[0], -measured[1]))
    assert passes[trained.best_epoch - 1] == best
    # How good the best pass is depends on the processor, so the restored network is compared with its own passes.
    _, validation = split(rows.targets(), spec.validation_share, spec.seed)
    restored = load_student(tmp_path)([texts[row] for row in validation], None).probabilities
    measured = accuracy_and_loss(restored, rows.targets()[validation])
    assert measured == pytest.approx(best, rel=1e-3)
    assert measured != pytest.approx(passes[-1], rel=1e-3), "the last pass is another network"


def test_passes_that_destroy_a_sentence_encoder_leave_the_fitted_head_as_the_student(
    tiny_encoder, tmp_path
):
    rows, (texts, truth) = TrainingRows(*sentences(150, 0), CLASSES), sentences(120, 1)
    trained = train_student(_tiny_spec(tiny_encoder, learning_rate=3.0), rows, tmp_path)
    assert trained.best_epoch == 0
    assert evaluate(truth, load_student(tmp_path)(texts, None).labels, CLASSES)["accuracy"] > 0.9


def test_without_a_validation_share_every_pass_is_made(tiny, tmp_path):
    rows = TrainingRows(*sentences(30, 0), CLASSES)
    trained = train_student(_tiny_spec(tiny, epochs=3, validation_share=0.0), rows, tmp_path)
    assert (trained.epochs, trained.best_epoch) == (3, 3)


@pytest.mark.parametrize("layout", ["tiny", "tiny_roberta"])
def test_texts_longer_than_the_model_can_read_are_cut(layout, request, tmp_path):
    texts, labels = sentences(30, 0)
    texts[0] = " ".join(["apple"] * 500)
    train_student(
        _tiny_spec(request.getfixturevalue(layout), epochs=1),
        TrainingRows(texts, labels, CLASSES),
        tmp_path,
    )
    assert len(load_student(tmp_path)(texts, None).labels) == 30
    assert load_student(tmp_path)([], None).probabilities.shape == (0, 3)


@pytest.mark.parametrize("kind", ["linear", "mlp", "finetune"])
@pytest.mark.parametrize("lacking", CLASSES)
def test_a_class_without_rows_is_no_obstacle_and_is_never_predicted(
    kind, lacking, tiny_encoder, tmp_path
):
    vectors, labels = clouds(90, 0)
    texts, _ = sentences(90, 0)
    stored = [row for row, label in enumerate(labels) if label != lacking]
    rows = TrainingRows(
        [texts[i] for i in stored], [labels[i] for i in stored], CLASSES, vectors[stored]
    )
    train_student(_tiny_spec(tiny_encoder, kind=kind, epochs=3), rows, tmp_path)
    prediction = load_student(tmp_path)(texts, vectors)
    assert lacking not in prediction.labels
    assert prediction.probabilities.shape == (90, 3)


@pytest.mark.parametrize("kind", ["linear", "mlp", "finetune"])
def test_one_class_alone_is_refused_with_its_name(kind, tmp_path):
    rows = TrainingRows(["a", "b"], ["metal", "metal"], CLASSES, np.zeros((2, 3), dtype=np.float32))
    with pytest.raises(InputError, match=r"'metal'.*two classes"):
        train_student(StudentSpec(kind=kind), rows, tmp_path)


@pytest.mark.parametrize("kind", ["linear", "mlp", "finetune"])
def test_a_row_of_weight_zero_teaches_nothing(kind, tiny_encoder, tmp_path):
    vectors, labels = clouds(200, 0)
    texts, _ = sentences(200, 0, [CLASSES[i] for i in range(3)])
    wrong = [
        CLASSES[(CLASSES.index(label) + 1) % 3] if row >= 80 else label
        for row, label in enumerate(labels)
    ]
    rows = TrainingRows(texts, wrong, CLASSES, vectors, [1.0] * 80 + [0.0] * 120)
    spec = _tiny_spec(tiny_encoder, kind=kind, epochs=8, validation_share=0.0, learning_rate=1e-3)
    train_student(spec, rows, tmp_path)
    result = load_student(tmp_path)(texts, vectors).labels
    assert evaluate(labels, result, CLASSES)["accuracy"] > 0.8


@pytest.mark.parametrize("kind", ["linear", "mlp", "finetune"])
def test_progress_ends_at_the_announced_total_even_after_early_stopping(kind, tiny, tmp_path):
    seen = []
    vectors, labels = clouds(60, 0)
    spec = _tiny_spec(tiny, kind=kind, patience=1)
    train_student(
        spec, TrainingRows(sentences(60, 0)[0], labels, CLASSES, vectors), tmp_path, seen.append
    )
    assert sum(seen) == units_of_work(spec, 60)
    assert min(seen) > 0


def test_a_folder_that_holds_no_model_or_no_student_is_named(tmp_path):
    rows = TrainingRows(*sentences(30, 0), CLASSES)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="student.model"):
        train_student(StudentSpec(model=str(tmp_path / "empty")), rows, tmp_path / "student")
    with pytest.raises(ArtifactError, match="no readable|No readable"):
        load_student(tmp_path / "empty")
    train_student(StudentSpec(kind="linear"), vector_rows(), tmp_path / "head")
    (tmp_path / "head" / "head.npz").write_bytes(b"damaged")
    with pytest.raises(ArtifactError, match=r"head\.npz"):
        load_student(tmp_path / "head")


@pytest.mark.parametrize("package", ["torch", "transformers"])
def test_a_missing_package_is_answered_with_the_install_command(package, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackageError, match=rf"'{package}'.*\[local\]"):
        train_student(StudentSpec(), TrainingRows(*sentences(30, 0), CLASSES), tmp_path)


def test_the_validation_split_is_a_share_of_each_class_and_never_its_last_row():
    targets = np.array([0] * 40 + [1] * 20 + [2])
    train, validation = split(targets, 0.1, seed=0)
    assert np.bincount(targets[validation], minlength=3).tolist() == [4, 2, 0]
    assert sorted([*train, *validation]) == list(range(61))
    assert not np.array_equal(validation, split(targets, 0.1, seed=1)[1])
    assert len(split(np.array([0, 0, 1]), 0.1, seed=0)[1]) == 1
    assert len(split(np.array([0, 1]), 0.1, seed=0)[1]) == 0
    assert len(split(targets, 0.0, seed=0)[1]) == 0


def test_scores_count_each_class_and_the_mean_leaves_out_those_that_do_not_occur():
    scores = evaluate(["fruit", "fruit", "metal"], ["fruit", "metal", "metal"], CLASSES)
    assert (scores["accuracy"], scores["macro_f1"]) == pytest.approx((2 / 3, 2 / 3))
    number = {name: CLASSES.index(name) for name in ("fruit", "metal")}
    assert scores["confusion"][number["fruit"]][number["metal"]] == 1
    assert scores["per_class"]["fruit"] == pytest.approx(
        {"precision": 1.0, "recall": 0.5, "f1": 2 / 3, "rows": 2}
    )
    (other,) = set(CLASSES) - set(number)
    assert set(scores["per_class"][other].values()) == {0}
