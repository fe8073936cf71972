"""A classifier that learns by DP-SGD: a linear head and a transformer, both clippings, loaded as any student is."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.private.training.classifier_step import classify
from tasks.private.training.dp_train import EncodedRows, train_privately
from tasks.private.training.promise import Training
from tasks.private.training.recipe import Recipe
from tasks.private.training.tuned_classifier import _encoded, vector_head
from tasks.students.spec import StudentSpec
from tasks.students.transformer import open_network
from tests.support.models.dp_training import taken
from tests.support.models.tiny import save_roberta

CLUSTERS = np.array([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]])


def rows(number: int = 150) -> EncodedRows:
    draw = np.random.default_rng(0)
    targets = draw.integers(0, 3, number)
    vectors = (CLUSTERS[targets] + 0.3 * draw.standard_normal((number, 3))).astype(np.float32)
    return EncodedRows(vectors, np.ones((number, 1), dtype=np.int64), targets)


def right(model: Any, encoded: EncodedRows) -> float:
    import torch

    with torch.no_grad():
        result = model(torch.from_numpy(encoded.ids)).logits.argmax(dim=1).numpy()
    return float((result == encoded.targets).mean())


def learned(noise: float, clipping: Any, folder: Path) -> float:
    """Return how many rows a head gets right that has learned under `noise`."""
    model = vector_head(3, 3, 0)
    recipe = Recipe(Training(60, 75, 150), noise, 0.1, clipping)
    assert train_privately(model, rows(), recipe, taken(folder)) == 60
    return right(model, rows())


@pytest.mark.parametrize("clipping", ["hooks", "ghost"])
def test_a_head_learns_under_little_noise_and_nothing_under_much(
    clipping: Any, tmp_path: Path
) -> None:
    assert learned(0.2, clipping, tmp_path) > 0.95
    # Each a random head: one in thirty is right by chance.
    assert np.mean([learned(500.0, clipping, tmp_path / str(n)) for n in range(6)]) < 0.85


def test_a_transformer_learns_by_ghost_clipping_and_is_read_back_as_a_student(
    tmp_path: Path,
) -> None:
    from tasks.students.train import load_student
    from tests.support.runs.kd_tutor import opened, written_by

    folder = save_roberta(tmp_path / "roberta")
    steps = {"declared_rows": 40, "batch_rows": 20, "steps": 2, "clipping": "ghost"}
    chosen = {"kind": "finetune", "model": str(folder), "max_length": 16}
    run = opened(
        tmp_path / "run", method={"select": "dp_sgd", "training": steps}, discriminator=chosen
    )
    written = written_by(run)
    trained, _ = classify(run.tools, run.classify_spec(), written)
    message = load_student(run.tools.artifacts.read_folder(trained.model))(
        ["a parcel", "the light"], None
    )
    assert message.classes == ("generated", "private")
    assert message.probabilities.shape == (2, 2)
    again, why = classify(run.tools, run.classify_spec(), written)
    assert again.model.reused
    assert "reused" in why


def test_first_weights_come_from_the_seed() -> None:
    first, second = vector_head(4, 2, 7), vector_head(4, 2, 7)
    assert np.array_equal(first.layer.weight.detach().numpy(), second.layer.weight.detach().numpy())


def test_rows_of_a_transformer_are_as_long_as_its_limit_however_short_their_texts_are(
    tmp_path: Path,
) -> None:
    """Else one long row would change the shape, and so the gradients, of all others."""
    network = open_network(
        StudentSpec("finetune", str(save_roberta(tmp_path / "roberta")), max_length=16), ["a", "b"]
    )
    encoded = [
        _encoded(network, texts, np.zeros(len(texts), np.int64))
        for texts in (["a"], ["a", "a long text " * 9])
    ]
    assert [part.ids.shape[1] for part in encoded] == [16, 16]
    assert np.array_equal(encoded[0].ids[0], encoded[1].ids[0])
