"""What label counts and teachers add to the preparation of a run: their noise, their lines in plan, report and page."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flows.config.base import AnyConfig, RunConfig
from flows.methods.dp_kps.config import DpKpsConfig
from flows.methods.kd_tutor.config import KdTutorConfig
from tasks.accounting.composition import epsilon_of
from tasks.accounting.dp_sgd import TrainingNoise
from tasks.accounting.no_noise import finite
from tasks.accounting.teachers import (
    PartNoise,
    PartPrivacy,
    affordable_answers,
    calibrate_part,
    epsilon_share,
    paper_part,
    remaining_epsilon,
    survival,
)
from tasks.accounting.votes import Noise
from tasks.reporting.report_model import Touched

if TYPE_CHECKING:
    from flows.config.discriminator import Discriminator

TUTOR_EPSILON = 0.4
"""What the paper spends on label counts."""

LEAST_SURVIVAL = 0.9
"""Chance that a unanimous answer survives its noise, below which a plan warns."""

IN_WORDS = {
    "labels": "how many private rows each class has",
    "checks": "how sure the teachers are of each of {numbers} queries",
    "answers": "what the teachers say of {numbers} queries",
}


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
    rest = (
        epsilon
        if isinstance(config, KdTutorConfig) and not trained
        else remaining_epsilon(epsilon, mine, spent, _basic(config))
    )
    privacy = config.privacy.model_copy(update={"epsilon": rest, "delta": mine})
    noise = own(config.model_copy(update={"privacy": privacy}))
    if isinstance(noise, TrainingNoise) and not noise.non_private:
        noise = replace(noise, own=(noise.epsilon_exact, mine))
    noise = replace(noise, beside=parts, delta=delta, epsilon_stated=config.epsilon)
    exact = epsilon_of([charge.event for charge in noise.charges], delta)
    return replace(noise, epsilon_exact=_rounded(exact, config.epsilon))


def expected(config: AnyConfig) -> int:
    """Return how many texts the result should hold: those that are written, or kept of them."""
    if isinstance(config, RunConfig) and config.filter == "discriminator" and config.filtering is not None:
        return max(1, round(config.method.result_size * config.filtering.keep))
    return config.method.result_size


# --- noise
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
    if not isinstance(config, KdTutorConfig):
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
    if isinstance(config, KdTutorConfig) and config.privacy.calibration == "paper":
        return paper_part(promise)
    return calibrate_part(promise)


def _tutor_epsilon(config: RunConfig) -> float:
    epsilon = config.privacy.epsilon
    return epsilon if math.isinf(epsilon) else config.privacy.tutor_epsilon or min(TUTOR_EPSILON, epsilon / 10)


def _basic(config: RunConfig) -> bool:
    """Say whether epsilons are added up as they are: beside Laplace noise, and beside a training."""
    laplace = config.filtering is not None and config.filtering.noise == "laplace"
    pure = isinstance(config, DpKpsConfig) and config.privacy.setting != "gaussian"
    return laplace or pure or config.method.tuning is not None


def _rounded(exact: float, stated: float) -> float:
    """Return what was found, and the stated epsilon where numeric composition alone parts the two."""
    return stated if stated < exact <= stated * (1 + 1e-6) else exact


# --- words
def parts_plan(config: AnyConfig, noise: Noise) -> list[dict[str, Any]]:
    """Return what is released beside the method, for a plan."""
    return [_planned(config, one) for one in noise.beside]


def _planned(config: AnyConfig, noise: PartNoise) -> dict[str, Any]:
    found = {
        "part": noise.privacy.part,
        "in_words": IN_WORDS[noise.privacy.part].format(numbers=noise.privacy.numbers),
        "numbers": noise.privacy.numbers,
        "noise": {"gaussian": "Gaussian", "laplace": "Laplace", "none": "NONE: NOT PRIVATE"}[noise.privacy.kind],
        "scale": noise.scale,
        "sensitivity": noise.sensitivity,
        "epsilon_stated": finite(noise.epsilon_stated),
        "epsilon_exact": finite(noise.epsilon_exact),
    }
    if noise.privacy.part == "answers" and isinstance(config, RunConfig) and config.filtering is not None:
        found["teachers"] = config.filtering.teachers
        found["survival"] = survival(config.filtering.teachers, noise)
    return found


def parts_lines(value: list[dict[str, Any]], epsilon: Callable[[float | None], str]) -> list[str]:
    """Return what those releases cost, line by line; `epsilon` words one."""
    lines = []
    for part in value:
        stated = part["epsilon_stated"]
        lines.append(
            f"{part['part']:<14}{part['in_words']}: {part['noise']} noise, scale {part['scale']:.4f} at sensitivity "
            f"{part['sensitivity']:.4f}, epsilon stated {epsilon(stated)}, exact {epsilon(part['epsilon_exact'])}"
        )
        if "survival" in part:
            lines.append(
                f"              {part['teachers']} teachers; an answer on which all agree survives the noise with "
                f"probability {part['survival']:.3f}"
            )
    return lines


def alone_lines(value: dict[str, Any], epsilon: Callable[[float | None], str]) -> list[str]:
    """Return what a run costs whose only releases are these."""
    lines = [
        f"releases      {value['releases']}, by label counts and teachers; nothing else sees a private row",
        "protects      one record: one row with its label; adding or removing it changes one count and one teacher",
        *parts_lines(value["beside"], epsilon),
        f"epsilon       stated {epsilon(value['epsilon_stated'])}, exact {epsilon(value['epsilon_exact'])}, "
        f"delta {value['delta']:g}, {value['adjacency']}",
    ]
    other = value["other_calibration"]
    if other is not None:
        lines.append(
            f"otherwise     calibration {other['calibration']}: stated {epsilon(other['epsilon_stated'])}, exact "
            f"{epsilon(other['epsilon_exact'])}"
        )
    return lines


def parts_in_words(noise: Noise) -> str:
    """Return what is released beside the method, as a sentence; empty where nothing is."""
    each = (
        f"{IN_WORDS[one.privacy.part].format(numbers=one.privacy.numbers)} (epsilon {one.epsilon_exact:.4g})"
        for one in noise.beside
    )
    return ", and ".join(each)


def unnoised_parts(noise: Noise) -> tuple[Touched, ...]:
    """Return which of these releases were made without noise."""
    return tuple(
        Touched(
            f"{IN_WORDS[one.privacy.part].format(numbers=one.privacy.numbers)}, without noise",
            f"{one.privacy.part}/release.parquet",
            "class_balance: exact, or privacy.epsilon: inf",
        )
        for one in noise.beside
        if one.privacy.kind == "none"
    )


def warnings_of_parts(config: RunConfig, noise: Noise) -> list[str]:
    """Return what the user should know about label counts and teachers; public numbers only."""
    found = []
    if config.privacy.calibration == "paper" and noise.epsilon_exact > noise.epsilon_stated:
        found.append(
            f"privacy.calibration is paper: its noise is made for one answer, so the stated epsilon "
            f"{noise.epsilon_stated:g} is NO guarantee; accounted is {noise.epsilon_exact:.4g}"
        )
    if isinstance(config, KdTutorConfig) and config.class_balance == "exact":
        found.append("class_balance is exact: label counts without noise steer the result, which is NOT PRIVATE")
    for one in noise.beside:
        if one.privacy.part == "answers" and config.filtering is not None:
            found += _about_answers(config.filtering.teachers, one)
    return found


def _about_answers(teachers: int, noise: PartNoise) -> list[str]:
    chance = survival(teachers, noise)
    if chance >= LEAST_SURVIVAL:
        return []
    epsilon, delta = noise.epsilon_stated, noise.delta
    bought = affordable_answers(teachers / 1.8125, epsilon, delta) if noise.privacy.kind == "gaussian" else 0
    fewer = f"; {bought} queries would be answered at {LEAST_SURVIVAL:g}" if 1 < bought < noise.privacy.numbers else ""
    return [
        f"an answer on which all {teachers} teachers agree survives the noise with probability {chance:.3f}: more "
        f"teachers (each on fewer rows), a larger epsilon or fewer discriminator.queries help{fewer}"
    ]
