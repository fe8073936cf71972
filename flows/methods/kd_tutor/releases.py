"""The releases of kd_tutor: label counts, then answers of teachers (Papernot et al. 2018) or a DP-SGD classifier."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from flows.methods.tuning import training_release
from flows.methods.voting import promise_of
from tasks.accounting.guarantee import Guarantee
from tasks.accounting.integer_noise import Kind, SumNoise, calibrate_sums
from tasks.private.release import Release
from tasks.private.teachers.promise import TeacherPrivacy, remaining_epsilon
from tasks.private.teachers.release import LabelCountsRelease, TeacherAnswersRelease
from tasks.private.training.promise import calibrate_training
from tasks.private.training.recipe import Trained
from tasks.private.training.release import TrainingRelease

if TYPE_CHECKING:
    from flows.config.privacy import DpSteps
    from flows.methods.kd_tutor.config import Discriminator, KdTutorConfig

TUTOR_EPSILON = 0.4
"""Epsilon of label counts in the paper."""


def kd_releases(config: KdTutorConfig) -> Guarantee[Release]:
    """Return the guarantee of a kd_tutor run.

    Label counts take a part of epsilon; the release that selects the texts has the rest.
    """
    delta = config.privacy.delta
    counts_labels = config.class_balance != "balanced"
    # A training has a separate delta: with the whole delta for each, both together would exceed the promised one.
    if counts_labels and config.method.training is not None:
        delta /= 2
    releases: list[Release] = []
    spent = []
    if counts_labels:
        labels = _label_counts(config, delta)
        releases.append(labels)
        # Exact counts have no finite epsilon to take off.
        if labels.noise.kind != "none":
            spent.append(labels.noise.epsilon_stated)
    left = remaining_epsilon(config.privacy.epsilon, delta, spent, pure=_epsilons_add_up(config))
    if config.method.training is not None:
        releases.append(_training(config, config.method.training, left, delta))
    if config.filtering is not None:
        releases.append(_teacher_answers(config, config.filtering, left, delta))
    # `config.epsilon` is infinite for exact counts, whatever the privacy settings say.
    promise = replace(promise_of(config), epsilon=config.epsilon)
    return Guarantee(promise, tuple(releases))


def _epsilons_add_up(config: KdTutorConfig) -> bool:
    """Return True if the epsilons of the two releases are added, because not both have Gaussian noise.

    Two releases with Gaussian noise compose like one, by the sum of mu^2; all others by basic composition.
    """
    # The epsilon of a training is that of an accountant, without a mu.
    if config.method.training is not None:
        return True
    return config.filtering is not None and config.filtering.noise == "laplace"


def _label_counts(config: KdTutorConfig, delta: float) -> LabelCountsRelease:
    """Return the release of label counts; exact counts have no noise."""
    privacy = config.privacy
    epsilon = privacy.tutor_epsilon or min(TUTOR_EPSILON, privacy.epsilon / 10)
    kind: Kind = "none" if math.isinf(config.epsilon) else "gaussian"
    noise = _calibrated(config, TeacherPrivacy("labels", epsilon, delta, 1, kind))
    return LabelCountsRelease(noise)


def _teacher_answers(
    config: KdTutorConfig, choice: Discriminator, epsilon: float, delta: float
) -> TeacherAnswersRelease:
    """Return the release of the answers of teachers that select the texts."""
    kind: Kind = "none" if math.isinf(epsilon) else choice.noise
    noise = _calibrated(config, TeacherPrivacy("answers", epsilon, delta, choice.queries, kind))
    return TeacherAnswersRelease(noise, choice.teachers, config.public is not None)


def _training(
    config: KdTutorConfig, steps: DpSteps, epsilon: float, delta: float
) -> TrainingRelease:
    """Return the release of a classifier that is trained by DP-SGD and selects the texts."""
    model: Trained = "finetune" if config.discriminator.kind == "finetune" else "linear"
    noise = calibrate_training(steps.tuning, epsilon, delta)
    # Exact counts void the promise of the run, so its training claims none either.
    if math.isinf(config.epsilon):
        noise = replace(noise, epsilon_stated=math.inf)
    return training_release(noise, steps, model)


def _calibrated(config: KdTutorConfig, promise: TeacherPrivacy) -> SumNoise[TeacherPrivacy]:
    """Return the least noise of a release between the neighbours of a configuration, or the paper's noise."""
    adjacency = config.privacy.neighbours(config.private)
    # The scale that the paper prints; exact counts have none.
    printed = config.privacy.calibration == "paper" and promise.kind != "none"
    return calibrate_sums(replace(promise, adjacency=adjacency, printed=printed))
