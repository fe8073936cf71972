"""The releases of kd_tutor: label counts and answers of teachers, or a classifier that DP-SGD trains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flows.engine.method import Release, Releases
from flows.releases.budget import share_budget
from flows.releases.training import TrainingRelease, training_noise
from flows.releases.votes import vote_noise
from tasks.accounting.dp_sgd import TrainingNoise

if TYPE_CHECKING:
    from flows.methods.kd_tutor.config import KdTutorConfig
    from tasks.accounting.votes import Noise


def kd_releases(config: KdTutorConfig) -> Releases:
    """Return the releases of a run of kd_tutor."""

    def wrap(noise: Noise) -> tuple[Release, ...]:
        return (TrainingRelease(noise),) if isinstance(noise, TrainingNoise) else ()

    return share_budget(config, _noise, wrap)


def _noise(config: KdTutorConfig) -> Noise:
    """Return the noise of the classifier, or none: teachers and label counts are added to every method."""
    return training_noise(config) if config.method.tuning is not None else vote_noise(config)


def kd_warnings(config: KdTutorConfig, releases: Releases) -> list[str]:
    """Return warnings about settings that promise less than they state."""
    warnings, noise = [], releases.noise
    if config.privacy.calibration == "paper" and noise.epsilon_exact > noise.epsilon_stated:
        warnings.append(
            f"privacy.calibration is paper: its noise is made for one answer, so the stated epsilon "
            f"{noise.epsilon_stated:g} is NO guarantee; accounted is {noise.epsilon_exact:.4g}"
        )
    if config.class_balance == "exact":
        warnings.append("class_balance is exact: label counts without noise steer the result, which is NOT PRIVATE")
    return warnings
