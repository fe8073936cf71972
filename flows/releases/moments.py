"""The moments of the private records that a student adapts to (Sun and Saenko 2016, under noise)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from flows.engine.method import AuditCase, Release, ReleaseOutcome, ReleasePlan
from tasks.accounting.moments import MomentsNoise, MomentsPrivacy, calibrate_moments, with_moments
from tasks.accounting.teachers import remaining_epsilon
from tasks.steps.moments import MomentsSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from connectors.interfaces.ledger import Charge
    from flows.config.base import RunConfig
    from flows.engine.run import Run
    from tasks.accounting.votes import Noise
    from tasks.steps.students.evaluation import TrainJob
    from tasks.text.prompts import TaskCard


def add_moments_release(config: RunConfig, noise_of: Callable[[RunConfig], Noise]) -> Noise:
    """Return the noise of a run, with a moments release if configured; `noise_of` gets the remaining epsilon."""
    if not config.student.pays or config.private is None:
        return noise_of(config)
    privacy, student = config.privacy, config.student
    moments = calibrate_moments(
        MomentsPrivacy(
            epsilon=student.adaptation_epsilon,
            delta=privacy.delta,
            directions=student.adaptation_directions,
            adjacency=privacy.neighbours(config.private),
            protects=privacy.protects,
            rows=privacy.rows_per_person if privacy.protects == "person" else 1,
        )
    )
    remaining = privacy.model_copy(update={"epsilon": _rest(config)})
    return with_moments(noise_of(config.model_copy(update={"privacy": remaining})), moments, privacy.epsilon)


@dataclass(frozen=True, slots=True)
class MomentsRelease(Release):
    """The noisy moments of a run, its last release."""

    noise: MomentsNoise
    name: ClassVar[str] = "moments"

    def charges(self) -> tuple[Charge, ...]:
        """Return the charge of the moments."""
        return (self.noise.charge,)

    def plan(self, card: TaskCard) -> ReleasePlan:  # noqa: ARG002
        """Return the directions and the noise."""
        noise = self.noise
        values = {
            "directions": noise.privacy.directions,
            "epsilon_exact": noise.epsilon_exact,
            "sensitivity": noise.sensitivity,
            "scale": noise.sigma,
        }
        line = (
            f"adaptation    one release at the end: mean and covariance of the rows' vectors along "
            f"{noise.privacy.directions} directions of the synthetic texts, sigma {noise.sigma:.4f} at sensitivity "
            f"{noise.sensitivity:.4f}, epsilon {noise.epsilon_exact:.4f} of the total"
        )
        return ReleasePlan({"moments": values}, (line,))

    def outcome(self) -> ReleaseOutcome:
        """Return the moments as a sentence."""
        return ReleaseOutcome(
            kind="moments",
            text=f"count, mean and covariance of the private rows' vectors along {self.noise.privacy.directions} "
            f"directions of the synthetic texts (epsilon {self.noise.epsilon_exact:.4g}), which the student adapts to; "
            "integer Gaussian noise",
        )

    def audits(self) -> tuple[AuditCase, ...]:
        """Return the audit of moments."""
        return (AuditCase("moments", self.noise.charge),)

    def prepare_training(self, run: Run, job: TrainJob) -> TrainJob:
        """Release the moments; return the training job with them."""
        from tasks.prefect.private import estimate_moments  # not needed to plan a run
        from tasks.prefect.runtime import run_step

        name = run.tools.called
        spec = MomentsSpec(name.dataset, name.fingerprint, self.noise, run.config.privacy.respends)
        moments = run_step(estimate_moments, run.tools, spec, job.written)
        run.extra = (moments.release,)
        return replace(job, moments=moments)


def _rest(config: RunConfig) -> float:
    """Return the epsilon that composes with the moments release to `privacy.epsilon`."""
    privacy, spent = config.privacy, config.student.adaptation_epsilon
    return remaining_epsilon(privacy.epsilon, privacy.delta, [spent], config.adds_epsilons)
