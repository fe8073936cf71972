"""The releases of kd_tutor: label counts, then answers of teachers (Papernot et al. 2018) or a DP-SGD classifier."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flows.engine.method import Releases
from flows.releases.sums import SumRelease
from flows.releases.training import TrainingRelease, training_noise
from flows.releases.votes import vote_noise
from tasks.accounting.composition import epsilon_of
from tasks.accounting.dp_sgd import TrainingNoise
from tasks.accounting.sums import SumNoise, calibrate_sums
from tasks.accounting.teachers import TeacherPrivacy, affordable_answers, remaining_epsilon, survival
from tasks.students.recipe import Trained

if TYPE_CHECKING:
    from flows.methods.kd_tutor.config import Discriminator, KdTutorConfig
    from tasks.accounting.votes import Noise
    from tasks.text.prompts import TaskCard

TUTOR_EPSILON = 0.4
"""Epsilon of label counts in the paper."""
LEAST_SURVIVAL = 0.9
"""Probability that a unanimous answer survives its noise, below which a plan warns."""
GENERATED_ONLY = (
    "all discriminator.queries are generated texts, because there are no public rows. Teachers that recognise them "
    "leave the student one class, and it selects at random. Set public to real texts of the domain that need no "
    "protection"
)
"""Warning of a plan without public rows."""


@dataclass(frozen=True, slots=True)
class TeacherAnswersRelease(SumRelease):
    """The noisy answers of the teachers."""

    choice: Discriminator
    has_public: bool

    def plan(self) -> Sequence[str]:
        """Return the noise, and the probability that a unanimous answer survives it."""
        teachers, chance = self.choice.teachers, survival(self.choice.teachers, self.noise)
        line = (
            f"              {teachers} teachers; an answer on which all agree survives the noise with probability "
            f"{chance:.3f}"
        )
        return (*super(TeacherAnswersRelease, self).plan(), line)

    def warnings(self, card: TaskCard) -> list[str]:
        """Warn when noise changes even unanimous answers too often, or when all queries are generated."""
        teachers, noise = self.choice.teachers, self.noise
        chance = survival(teachers, noise)
        warnings = [*super(TeacherAnswersRelease, self).warnings(card), *([] if self.has_public else [GENERATED_ONLY])]
        if chance >= LEAST_SURVIVAL:
            return warnings
        gaussian = noise.kind == "gaussian"
        fewer = affordable_answers(teachers / 1.8125, noise.epsilon_stated, noise.delta) if gaussian else 0
        hint = f"; {fewer} queries would reach {LEAST_SURVIVAL:g}" if 1 < fewer < noise.privacy.numbers else ""
        return [
            *warnings,
            f"an answer on which all {teachers} teachers agree survives the noise with probability {chance:.3f}. Use "
            f"more teachers (each on fewer rows), a larger epsilon or fewer discriminator.queries{hint}",
        ]


def kd_releases(config: KdTutorConfig) -> Releases:
    """Return the releases of a kd_tutor run; a classifier trained next to label counts has half of delta."""
    privacy, choice, trained = config.privacy, config.filtering, config.method.tuning is not None
    counts_labels = config.class_balance != "balanced"
    delta = privacy.delta / 2 if trained and counts_labels else privacy.delta
    part = privacy.tutor_epsilon or min(TUTOR_EPSILON, privacy.epsilon / 10)
    counts = TeacherPrivacy("labels", part if math.isfinite(privacy.epsilon) else math.inf, delta, 1)
    labels = [_calibrated(config, counts, math.isinf(config.epsilon))] if counts_labels else []
    spent = [part.epsilon_stated for part in labels if part.kind != "none"]
    adds_up = trained or (choice is not None and choice.noise == "laplace")  # basic composition
    left = remaining_epsilon(privacy.epsilon, delta, spent, adds_up)
    promises = [TeacherPrivacy("answers", left, delta, choice.queries, choice.noise)] if choice else []
    answers = [_calibrated(config, promise, math.isinf(left)) for promise in promises]

    rest = config.model_copy(update={"privacy": privacy.model_copy(update={"epsilon": left, "delta": delta})})
    noise: Noise = training_noise(rest) if trained else vote_noise(config)  # of no vote
    if labels or answers:
        if isinstance(noise, TrainingNoise) and not noise.non_private:
            noise = replace(noise, own=(noise.epsilon_exact, delta))
        noise = replace(noise, beside=(*labels, *answers), delta=privacy.delta, epsilon_stated=config.epsilon)
        charges = [*(part.charge for part in noise.beside), *noise.charges]
        exact = epsilon_of([charge.event for charge in charges], privacy.delta)
        is_error = config.epsilon < exact <= config.epsilon * (1 + 1e-6)  # of the numerical composition
        noise = replace(noise, epsilon_exact=config.epsilon if is_error else exact)
    training: list[TrainingRelease] = []
    if config.method.training is not None:
        assert isinstance(noise, TrainingNoise)
        model: Trained = "finetune" if config.discriminator.kind == "finetune" else "linear"
        training.append(TrainingRelease(noise, config.method.training, model))
    teaching = [TeacherAnswersRelease(part, choice, config.public is not None) for part in answers if choice]
    return Releases(noise, (*map(SumRelease, labels), *training, *teaching))


def _calibrated(config: KdTutorConfig, promise: TeacherPrivacy, is_exact: bool) -> SumNoise[TeacherPrivacy]:
    promise = replace(promise, adjacency=config.privacy.neighbours(config.private))
    if is_exact:
        return calibrate_sums(replace(promise, kind="none"))
    return calibrate_sums(replace(promise, printed=config.privacy.calibration == "paper"))
