"""The training on private records of a configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tasks.accounting.guarantee import Guarantee
from tasks.accounting.promise import Promise
from tasks.private.release import Release
from tasks.private.training.promise import TrainingNoise, calibrate_training
from tasks.private.training.recipe import PaidTraining, Trained
from tasks.private.training.release import TrainingRelease

if TYPE_CHECKING:
    from flows.config.base import RunConfig
    from flows.config.privacy import DpSteps
    from flows.engine.run import Run


def paid_training(run: Run, steps: DpSteps) -> PaidTraining:
    """Return the training that a run makes with its noise and these steps."""
    release = run.prepared.guarantee.of(TrainingRelease)
    assert release is not None
    return steps.paid(run.payer, release.noise)


def training_releases(config: RunConfig, steps: DpSteps, trained: Trained) -> Guarantee[Release]:
    """Return the guarantee of a method whose only release is a training on private records by DP-SGD."""
    privacy = config.privacy
    noise = calibrate_training(steps.tuning, privacy.epsilon, privacy.delta)
    # Always records under add_remove: other choices are refused for these methods (`DP_SGD_RULES`).
    promise = Promise(privacy.epsilon, privacy.delta)
    return Guarantee(promise, (training_release(noise, steps, trained),))


def training_release(noise: TrainingNoise, steps: DpSteps, trained: Trained) -> TrainingRelease:
    """Return the release of a training with these settings."""
    return TrainingRelease(noise, steps.learning_rate, steps.clipping, trained)
