"""The audit of a training by DP-SGD: ours passes, and sabotaged ones are caught."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tasks.accounting.dp_sgd import Training, TrainingNoise, calibrate_training
from tasks.audit.training import Train, TrainingAttack
from tasks.private.training import dp_train
from tasks.private.training.dp_train import EncodedRows, train_privately
from tasks.private.training.progress import StepsTaken
from tasks.students.recipe import Recipe

pytest.importorskip("opacus")
pytest.importorskip("torch")
TRIALS = 500


@pytest.fixture(scope="module")
def noise() -> TrainingNoise:
    return calibrate_training(Training(20, 256, 512), 4.0, 1e-5)


def no_noise(model: Any, rows: EncodedRows, recipe: Recipe, taken: StepsTaken) -> int:
    return train_privately(model, rows, replace(recipe, noise_multiplier=1e-6), taken)


def weaker(model: Any, rows: EncodedRows, recipe: Recipe, taken: StepsTaken) -> int:
    return train_privately(model, rows, replace(recipe, noise_multiplier=0.8 * recipe.noise_multiplier), taken)


def unclipped(model: Any, rows: EncodedRows, recipe: Recipe, taken: StepsTaken) -> int:
    """Clip at ten times the norm of the noise."""
    longer = replace(recipe.training, clip=10 * recipe.training.clip)
    return train_privately(
        model, rows, replace(recipe, training=longer, noise_multiplier=recipe.noise_multiplier / 10), taken
    )


def longer(model: Any, rows: EncodedRows, recipe: Recipe, taken: StepsTaken) -> int:
    plan = replace(recipe.training, steps=recipe.training.steps + 1)
    return train_privately(model, rows, replace(recipe, training=plan), taken)


def test_our_training_passes_and_part_of_the_claim_is_proven(noise: TrainingNoise) -> None:
    found = TrainingAttack("dp_sgd training", noise).findings(TRIALS)
    assert all(one.passed for one in found), found
    assert found[0].bound > 0.3


@pytest.mark.parametrize("train", [no_noise, weaker, unclipped, longer], ids=lambda train: train.__name__)
def test_a_sabotaged_training_is_caught(noise: TrainingNoise, train: Train) -> None:
    assert not all(one.passed for one in TrainingAttack("dp_sgd training", noise, train).findings(TRIALS))


def test_noise_that_is_the_same_in_every_step_is_caught(noise: TrainingNoise, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[int, Any] = {}

    def repeated(count: int, sigma: float) -> Any:
        return kept.setdefault(count, np.random.default_rng(1).normal(0, sigma, count))

    monkeypatch.setattr(dp_train, "gaussian", repeated)
    assert not TrainingAttack("dp_sgd training", noise).findings(TRIALS)[2].passed
