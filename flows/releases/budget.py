"""Divides the epsilon of a run among the releases of its method and the optional ones of any method.

Order: label counts, releases of the method, answers of teachers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from flows.engine.method import Release, Releases
from flows.releases.filter import TeacherAnswersRelease
from flows.releases.sums import SumRelease
from flows.releases.training import TrainingRelease, training_noise
from flows.releases.votes import VotesRelease, vote_noise
from tasks.accounting.composition import epsilon_of
from tasks.accounting.dp_sgd import TrainingNoise
from tasks.accounting.sums import SumNoise, calibrate_sums
from tasks.accounting.teachers import (
    TeacherPrivacy,
    epsilon_share,
    remaining_epsilon,
)

if TYPE_CHECKING:
    from flows.config.base import RunConfig
    from flows.config.execution import Discriminator
    from tasks.accounting.votes import Noise

AnyRunConfig = TypeVar("AnyRunConfig", bound="RunConfig")
TUTOR_EPSILON = 0.4
"""Epsilon of label counts in the paper."""


def share_budget(
    config: AnyRunConfig, calibrate: Callable[[AnyRunConfig], Noise], wrap: Callable[[Noise], tuple[Release, ...]]
) -> Releases:
    """Return all releases of a run.

    Args:
        config: the configuration of the run.
        calibrate: returns the method's own noise for a configuration with the remaining epsilon.
        wrap: returns the releases of the method for the noise of the whole run.
    """
    own: Callable[[Any], Noise] = calibrate
    noise = add_teacher_releases(config, own)
    choice = config.filtering
    labels = [SumRelease(part) for part in noise.beside if part.privacy.part == "labels"]
    teaching = [part for part in noise.beside if part.privacy.part == "answers"]
    answers = [TeacherAnswersRelease(part, choice, config.public is not None) for part in teaching if choice]
    return Releases(noise, (*labels, *wrap(noise), *answers))


def vote_releases(config: RunConfig) -> Releases:
    """Return the releases of a method whose private records vote."""
    return share_budget(config, vote_noise, lambda noise: (VotesRelease(config, noise),))


def training_releases(config: RunConfig) -> Releases:
    """Return the releases of a method that trains on private records by DP-SGD."""

    def wrap(noise: Noise) -> tuple[Release, ...]:
        assert isinstance(noise, TrainingNoise)
        return (TrainingRelease(noise),)

    return share_budget(config, training_noise, wrap)


def add_teacher_releases(config: RunConfig, own: Callable[[RunConfig], Noise]) -> Noise:
    """Return the noise of the method with the remaining epsilon, and of label counts and teachers.

    `own` returns the method's own noise. With further releases a DP-SGD training gets half of delta.
    """
    parts = _parts(config)
    if not parts:
        return own(config)
    epsilon, delta = config.privacy.epsilon, config.privacy.delta
    trained = config.method.tuning is not None
    own_delta = delta / 2 if trained else delta
    spent = [part.epsilon_stated for part in parts if part.kind != "none"]
    # in kd_tutor the teachers already use the epsilon left by label counts: the method releases nothing else
    alone = config.teaches_alone and not trained
    rest = epsilon if alone else remaining_epsilon(epsilon, own_delta, spent, _basic(config))
    privacy = config.privacy.model_copy(update={"epsilon": rest, "delta": own_delta})
    noise = own(config.model_copy(update={"privacy": privacy}))
    if isinstance(noise, TrainingNoise) and not noise.non_private:
        noise = replace(noise, own=(noise.epsilon_exact, own_delta))
    noise = replace(noise, beside=(*parts, *noise.beside), delta=delta, epsilon_stated=config.epsilon)
    exact = epsilon_of([charge.event for charge in noise.charges], delta)
    return replace(noise, epsilon_exact=_rounded(exact, config.epsilon))


def _parts(config: RunConfig) -> tuple[SumNoise[TeacherPrivacy], ...]:
    delta = config.privacy.delta / 2 if config.method.tuning is not None else config.privacy.delta
    parts: list[SumNoise[TeacherPrivacy]] = []
    if config.class_balance != "balanced":
        epsilon = config.privacy.epsilon
        if math.isfinite(epsilon):
            epsilon = config.privacy.tutor_epsilon or min(TUTOR_EPSILON, epsilon / 10)
        parts.append(
            _calibrated(
                config, TeacherPrivacy("labels", epsilon, delta, 1, adjacency=config.privacy.neighbours(config.private))
            )
        )
    discriminator = config.filtering
    if discriminator is not None:
        parts.append(_teacher_noise(config, discriminator, [part.epsilon_stated for part in parts], delta))
    return tuple(parts)


def _teacher_noise(
    config: RunConfig, discriminator: Discriminator, spent: list[float], delta: float
) -> SumNoise[TeacherPrivacy]:
    """Return the noise of the teachers' answers."""
    budget = config.privacy.epsilon
    spent = [epsilon for epsilon in spent if math.isfinite(epsilon)]
    left = remaining_epsilon(budget, delta, spent, _basic(config))
    if not config.teaches_alone:
        half = left / 2 if _basic(config) else epsilon_share(left, delta, 0.5)
        left = config.privacy.filter_epsilon or half
    promise = TeacherPrivacy(
        "answers", left, delta, discriminator.queries, discriminator.noise, config.privacy.neighbours(config.private)
    )
    return _calibrated(config, promise)


def _calibrated(config: RunConfig, promise: TeacherPrivacy) -> SumNoise[TeacherPrivacy]:
    exact = promise.part == "labels" and config.epsilon == math.inf
    if exact or math.isinf(promise.epsilon):
        return calibrate_sums(replace(promise, kind="none"))
    if config.teaches_alone and config.privacy.calibration == "paper":
        promise = replace(promise, printed=True)
    return calibrate_sums(promise)


def _basic(config: RunConfig) -> bool:
    """Return whether epsilons add up (basic composition): with Laplace noise, and next to a training."""
    laplace = config.filtering is not None and config.filtering.noise == "laplace"
    return laplace or config.adds_epsilons or config.method.tuning is not None


def _rounded(exact: float, stated: float) -> float:
    """Return `exact`, or `stated` if they differ only by the numerical error of composition."""
    return stated if stated < exact <= stated * (1 + 1e-6) else exact
