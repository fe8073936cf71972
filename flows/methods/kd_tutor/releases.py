"""The releases of kd_tutor: label counts and answers of teachers, or a classifier trained by DP-SGD."""

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
    """Return the releases of a kd_tutor run."""

    def wrap(noise: Noise) -> tuple[Release, ...]:
        return (TrainingRelease(noise),) if isinstance(noise, TrainingNoise) else ()

    return share_budget(config, _noise, wrap)


def _noise(config: KdTutorConfig) -> Noise:
    """Return the noise of the classifier, or no noise; `share_budget` adds teachers and label counts."""
    return training_noise(config) if config.method.tuning is not None else vote_noise(config)


def kd_warnings(config: KdTutorConfig, releases: Releases) -> list[str]:
    """Return warnings about settings that give a weaker guarantee than the stated one."""
    warnings, noise = [], releases.noise
    if config.privacy.calibration == "paper" and noise.epsilon_exact > noise.epsilon_stated:
        warnings.append(
            f"privacy.calibration is paper: its noise covers one answer, so the stated epsilon "
            f"{noise.epsilon_stated:g} is NO guarantee; the ledger is charged {noise.epsilon_exact:.4g}"
        )
    if config.class_balance == "exact":
        warnings.append("class_balance is exact: the result depends on label counts without noise and is NOT PRIVATE")
    return warnings
