"""Deep CORAL: the printed formula, unlabelled texts without labels, a student that comes closer to them."""

from pathlib import Path

import numpy as np
import pytest

from tasks.students.coral import choose_unlabelled, coral
from tasks.students.spec import StudentSpec, TrainingRows
from tasks.students.train import load_student, train_student

torch = pytest.importorskip("torch")
CLASSES = ("a", "b", "c")


def test_the_distance_is_the_printed_formula() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((50, 4)), 2 * rng.standard_normal((20, 4))
    apart = np.cov(first.T) - np.cov(second.T)
    found = float(coral(torch.from_numpy(first), torch.from_numpy(second)))
    assert found == pytest.approx((apart**2).sum() / (4 * 4**2), rel=1e-4)
    assert float(coral(torch.from_numpy(first), torch.from_numpy(first + 7))) == pytest.approx(0, abs=1e-8)


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
    rows = TrainingRows(texts, names, CLASSES, vectors, None, ["u"] * 150, other.astype(np.float32))
    return rows, other.astype(np.float32)


def scores_apart(folder: Path, rows: TrainingRows, other: np.ndarray) -> float:
    with np.load(folder / "head.npz") as stored:
        layers = [(stored[f"w{i}"], stored[f"b{i}"]) for i in range(3)]

    def scores(found: np.ndarray) -> np.ndarray:
        for place, (weight, bias) in enumerate(layers):
            found = found @ weight.T + bias
            found = np.maximum(found, 0) if place < 2 else found
        return found

    return float(coral(torch.from_numpy(scores(rows.vectors)), torch.from_numpy(scores(other))))


def test_a_student_with_adaptation_varies_on_both_domains_alike(tmp_path: Path) -> None:
    rows, other = domains()
    apart = {}
    for name in ("none", "coral"):
        spec = StudentSpec("mlp", epochs=20, adaptation=name, validation_share=0.0)
        train_student(spec, rows, tmp_path / name)
        apart[name] = scores_apart(tmp_path / name, rows, other)
        predicted = load_student(tmp_path / name)(rows.texts, rows.vectors).labels
        assert np.mean([one == two for one, two in zip(predicted, rows.labels, strict=True)]) > 0.9
    assert apart["coral"] < apart["none"] / 2
