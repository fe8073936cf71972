"""How the releases of a run share its epsilon: those of the method, and those that any method may add.

Label counts come before the releases of the method, the answers of teachers after them, the moments of a student last.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from flows.engine.method import Release, Releases
from flows.releases.filter import TeacherAnswers
from flows.releases.label_counts import LabelCounts
from flows.releases.moments import Moments, beside_moments
from tasks.accounting.composition import epsilon_of
from tasks.accounting.teachers import (
    PartNoise,
    PartPrivacy,
    calibrate_part,
    epsilon_share,
    paper_part,
    remaining_epsilon,
)

if TYPE_CHECKING:
    from flows.config.base import RunConfig
    from flows.config.discriminator import Discriminator
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
        calibrate: returns the noise of the method by itself, for a configuration with the epsilon that is left to it.
        wrap: returns the releases of the method, given the noise of the whole run.
    """
    own: Callable[[Any], Noise] = calibrate
    noise = noise_with_parts(config, partial(beside_moments, noise_of=own))
    choice = config.filtering
    labels = [LabelCounts(part) for part in noise.beside if part.privacy.part == "labels"]
    answers = [TeacherAnswers(part, choice) for part in noise.beside if part.privacy.part != "labels" and choice]
    moments = [Moments(noise.moments)] if noise.moments else []
    return Releases(noise, (*labels, *wrap(noise), *answers, *moments))


def noise_with_parts(config: RunConfig, own: Callable[[RunConfig], Noise]) -> Noise:
    """Return the noise of a configuration: that of its method with what is left to it, and of what is released beside.

    `own` makes the noise of the method by itself. A training has a delta of its own: half, where something is beside.
    """
    parts = _parts(config)
    if not parts:
        return own(config)
    epsilon, delta = config.privacy.epsilon, config.privacy.delta
    trained = config.method.tuning is not None
    mine = delta / 2 if trained else delta
    spent = [one.epsilon_stated for one in parts if one.privacy.kind != "none"]
    # teachers in a flow of their own take what label counts leave: nothing else is released
    alone = config.teaches_alone and not trained
    rest = epsilon if alone else remaining_epsilon(epsilon, mine, spent, _basic(config))
    privacy = config.privacy.model_copy(update={"epsilon": rest, "delta": mine})
    noise = own(config.model_copy(update={"privacy": privacy})).with_own_delta(mine)
    noise = replace(noise, beside=parts, delta=delta, epsilon_stated=config.epsilon)
    exact = epsilon_of([charge.event for charge in noise.charges], delta)
    return replace(noise, epsilon_exact=_rounded(exact, config.epsilon))


def _parts(config: RunConfig) -> tuple[PartNoise, ...]:
    delta = config.privacy.delta / 2 if config.method.tuning is not None else config.privacy.delta
    found: list[PartNoise] = []
    if config.class_balance != "balanced":
        epsilon = _tutor_epsilon(config)
        found.append(
            _calibrated(
                config, PartPrivacy("labels", epsilon, delta, 1, adjacency=config.privacy.neighbours(config.private))
            )
        )
    chosen = config.filtering
    if chosen is not None:
        found += _discriminating(config, chosen, [one.epsilon_stated for one in found], delta)
    return tuple(found)


def _discriminating(config: RunConfig, chosen: Discriminator, spent: list[float], delta: float) -> list[PartNoise]:
    """Return the noise of the teachers' answers, and before it of the checks, if there are any."""
    budget = config.privacy.epsilon
    spent = [one for one in spent if math.isfinite(one)]
    left = remaining_epsilon(budget, delta, spent, _basic(config))
    if not config.teaches_alone:
        half = left / 2 if _basic(config) else epsilon_share(left, delta, 0.5)
        left = config.privacy.filter_epsilon or half
    promise = PartPrivacy(
        "answers", left, delta, chosen.answered, chosen.noise, config.privacy.neighbours(config.private)
    )
    if chosen.sure is None:
        return [_calibrated(config, promise)]
    share = chosen.checks_share
    first = replace(promise, part="checks", epsilon=epsilon_share(left, delta, share), numbers=chosen.queries)
    then = replace(promise, epsilon=epsilon_share(left, delta, 1 - share))
    return [_calibrated(config, first), _calibrated(config, then)]


def _calibrated(config: RunConfig, promise: PartPrivacy) -> PartNoise:
    exact = promise.part == "labels" and config.epsilon == math.inf
    if exact or math.isinf(promise.epsilon):
        return calibrate_part(replace(promise, kind="none"))
    if config.teaches_alone and config.privacy.calibration == "paper":
        return paper_part(promise)
    return calibrate_part(promise)


def _tutor_epsilon(config: RunConfig) -> float:
    epsilon = config.privacy.epsilon
    return epsilon if math.isinf(epsilon) else config.privacy.tutor_epsilon or min(TUTOR_EPSILON, epsilon / 10)


def _basic(config: RunConfig) -> bool:
    """Return whether epsilons are simply added: with Laplace noise, and next to a training."""
    laplace = config.filtering is not None and config.filtering.noise == "laplace"
    return laplace or config.adds_epsilons or config.method.tuning is not None


def _rounded(exact: float, stated: float) -> float:
    """Return what was found, and the stated epsilon where numeric composition alone parts the two."""
    return stated if stated < exact <= stated * (1 + 1e-6) else exact
