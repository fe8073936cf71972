"""The audit of a training by DP-SGD: ours passes, and sabotaged ones are caught."""

from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest

from tasks.attacks.bounds import Finding
from tasks.private.training import dp_train, tuned_classifier, tuned_writer
from tasks.private.training.attack import TrainingAttack
from tasks.private.training.dp_train import train_privately
from tasks.private.training.promise import Clipping, Training, TrainingNoise, calibrate_training
from tasks.private.training.recipe import PaidTraining, Recipe, Trained
from tasks.steps.values import ChargedDataset

pytest.importorskip("opacus")
pytest.importorskip("torch")
TRIALS = 500


@pytest.fixture(scope="module")
def noise() -> TrainingNoise:
    return calibrate_training(Training(20, 256, 512), 4.0, 1e-5)


def findings(
    noise: TrainingNoise, trained: Trained = "linear", clipping: Clipping = "hooks"
) -> list[Finding]:
    paid = PaidTraining(ChargedDataset("", ""), noise, 0.1, clipping)
    return TrainingAttack("dp_sgd training", noise, paid, trained).findings(TRIALS)


def no_noise(recipe: Recipe) -> Recipe:
    return replace(recipe, noise_multiplier=1e-6)


def weaker(recipe: Recipe) -> Recipe:
    return replace(recipe, noise_multiplier=0.8 * recipe.noise_multiplier)


def unclipped(recipe: Recipe) -> Recipe:
    """Clip at ten times the norm of the noise."""
    longer = replace(recipe.training, clip=10 * recipe.training.clip)
    return replace(recipe, training=longer, noise_multiplier=recipe.noise_multiplier / 10)


def longer(recipe: Recipe) -> Recipe:
    return replace(recipe, training=replace(recipe.training, steps=recipe.training.steps + 1))


def more_often(recipe: Recipe) -> Recipe:
    return replace(
        recipe, training=replace(recipe.training, declared_rows=recipe.training.batch_rows)
    )


@pytest.mark.parametrize("clipping", get_args(Clipping))
@pytest.mark.parametrize("trained", get_args(Trained))
def test_our_training_passes_and_part_of_the_claim_is_proven(
    noise: TrainingNoise, trained: Trained, clipping: Clipping
) -> None:
    result = findings(noise, trained, clipping)
    assert all(entry.passed for entry in result), result
    assert result[0].bound > 0.3


@pytest.mark.parametrize("trained", get_args(Trained))
@pytest.mark.parametrize(
    "sabotage",
    [no_noise, weaker, unclipped, longer, more_often],
    ids=lambda sabotage: sabotage.__name__,
)
def test_a_sabotaged_training_is_caught(
    noise: TrainingNoise, sabotage: Any, trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(model: Any, rows: Any, recipe: Recipe, *rest: Any) -> int:
        return train_privately(model, rows, sabotage(recipe), *rest)

    for module in (tuned_writer, tuned_classifier):
        monkeypatch.setattr(module, "train_privately", train)
    assert not all(entry.passed for entry in findings(noise, trained))


def test_noise_that_is_the_same_in_every_step_is_caught(
    noise: TrainingNoise, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored: dict[int, Any] = {}

    def repeated(count: int, sigma: float) -> Any:
        return stored.setdefault(count, np.random.default_rng(1).normal(0, sigma, count))

    monkeypatch.setattr(dp_train, "gaussian", repeated)
    assert not findings(noise)[2].passed
