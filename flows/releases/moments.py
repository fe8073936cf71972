"""What adapting a student to the private rows adds to a run: its share of the budget, its step, its words."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tasks.accounting.moments import MomentsNoise, MomentsPrivacy, calibrate_moments, with_moments
from tasks.accounting.teachers import remaining_epsilon
from tasks.steps.moments import MomentsSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flows.config.base import RunConfig
    from flows.engine.run import Run
    from tasks.accounting.votes import Noise
    from tasks.steps.evaluation import TrainJob

TOO_FAINT = (
    "the noise on the moments was louder than the private rows, so that the student was trained without adaptation"
)


def beside_moments(config: RunConfig, noise_of: Callable[[RunConfig], Noise]) -> Noise:
    """Return the noise of a whole run; where its student adapts to private rows, `noise_of` what the moments leave."""
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
    lesser = privacy.model_copy(update={"epsilon": _rest(config)})
    return with_moments(noise_of(config.model_copy(update={"privacy": lesser})), moments, privacy.epsilon)


def adapted(run: Run, job: TrainJob) -> TrainJob:
    """Return the job of training with the moments that its student adapts to, released now where it does."""
    noise = run.prepared.noise.moments
    if noise is None:
        return job
    from tasks.prefect.private import estimate_moments  # steps are not needed to plan a run
    from tasks.prefect.runtime import now

    name = run.tools.called
    respend = run.config.privacy.respends
    spec = MomentsSpec(name.dataset, name.fingerprint, noise, respend)
    moments = now(estimate_moments, run.tools, spec, job.written)
    run.extra = (moments.release,)
    return replace(job, moments=moments)


def moments_remarks(student: Mapping[str, Any]) -> tuple[str, ...]:
    """Return which step of the adaptation was left out, because its release was too noisy."""
    return (TOO_FAINT,) if student.get("adapted_to") == 0 else ()


def moments_plan(noise: Noise) -> dict[str, Any] | None:
    """Return the release of moments of a plan; None where there is none."""
    found = noise.moments
    if found is None:
        return None
    return {
        "directions": found.privacy.directions,
        "epsilon_exact": found.epsilon_exact,
        "sensitivity": found.sensitivity,
        "scale": found.sigma,
    }


def moments_lines(value: dict[str, Any] | None) -> list[str]:
    """Return what those moments cost, in a line; `epsilon` of the plan holds it."""
    if value is None:
        return []
    return [
        f"adaptation    one release at the end: mean and covariance of the rows' vectors along {value['directions']} "
        f"directions of the synthetic texts, sigma {value['scale']:.4f} at sensitivity {value['sensitivity']:.4f}, "
        f"epsilon {value['epsilon_exact']:.4f} of the whole"
    ]


def moments_in_words(noise: Noise) -> str:
    """Return the release of moments as a sentence; empty where there is none."""
    found: MomentsNoise | None = noise.moments
    if found is None:
        return ""
    return (
        f"count, mean and covariance of the private rows' vectors along {found.privacy.directions} directions of the "
        f"synthetic texts (epsilon {found.epsilon_exact:.4g}), which the student adapts to; integer Gaussian noise"
    )


def _rest(config: RunConfig) -> float:
    """Return the epsilon that is `privacy.epsilon` together with that of the moments."""
    privacy, first = config.privacy, config.student.adaptation_epsilon
    pure = getattr(privacy, "setting", "gaussian") != "gaussian"
    return remaining_epsilon(privacy.epsilon, privacy.delta, [first], pure)
