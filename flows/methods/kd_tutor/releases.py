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
    from flows.methods.kd_tutor.config import KdTutorConfig

TUTOR_EPSILON = 0.4
"""Epsilon of label counts in the paper."""


def kd_releases(config: KdTutorConfig) -> Guarantee[Release]:
    """Return the guarantee of a kd_tutor run; a classifier trained next to label counts has half of delta."""
    privacy = config.privacy
    trains = config.method.training is not None
    counts_labels = config.class_balance != "balanced"
    # The delta of a training is its own; without this the deltas of both releases would add up to more than promised.
    delta = privacy.delta / 2 if trains and counts_labels else privacy.delta
    labels = [_label_counts(config, delta)] if counts_labels else []
    spent = [release.noise.epsilon_stated for release in labels if release.noise.kind != "none"]
    adds_up = trains or (
        config.filtering is not None and config.filtering.noise == "laplace"
    )  # basic composition
    left = remaining_epsilon(privacy.epsilon, delta, spent, adds_up)
    selecting = [*_training(config, left, delta), *_teacher_answers(config, left, delta)]
    promise = replace(promise_of(config), epsilon=config.epsilon)
    return Guarantee(promise, (*labels, *selecting))


def _label_counts(config: KdTutorConfig, delta: float) -> LabelCountsRelease:
    """Return the release of label counts; exact counts have no noise."""
    privacy = config.privacy
    epsilon = privacy.tutor_epsilon or min(TUTOR_EPSILON, privacy.epsilon / 10)
    kind: Kind = "none" if math.isinf(config.epsilon) else "gaussian"
    return LabelCountsRelease(
        _calibrated(config, TeacherPrivacy("labels", epsilon, delta, 1, kind))
    )


def _teacher_answers(
    config: KdTutorConfig, epsilon: float, delta: float
) -> list[TeacherAnswersRelease]:
    """Return the release of teachers' answers, if they select texts."""
    choice = config.filtering
    if choice is None:
        return []
    kind: Kind = "none" if math.isinf(epsilon) else choice.noise
    noise = _calibrated(config, TeacherPrivacy("answers", epsilon, delta, choice.queries, kind))
    return [TeacherAnswersRelease(noise, choice.teachers, config.public is not None)]


def _training(config: KdTutorConfig, epsilon: float, delta: float) -> list[TrainingRelease]:
    """Return the release of a classifier trained by DP-SGD, if it selects texts."""
    steps = config.method.training
    if steps is None:
        return []
    model: Trained = "finetune" if config.discriminator.kind == "finetune" else "linear"
    noise = calibrate_training(steps.tuning, epsilon, delta)
    if math.isinf(
        config.epsilon
    ):  # exact counts void the promise of the run, so its training claims none either
        noise = replace(noise, epsilon_stated=math.inf)
    return [training_release(noise, steps, model)]


def _calibrated(config: KdTutorConfig, promise: TeacherPrivacy) -> SumNoise[TeacherPrivacy]:
    """Return the least noise of a release between the neighbours of a configuration, or the paper's noise."""
    adjacency = config.privacy.neighbours(config.private)
    printed = config.privacy.calibration == "paper" and promise.kind != "none"
    return calibrate_sums(replace(promise, adjacency=adjacency, printed=printed))
