"""The noisy answers of teachers on shards of the private records, by which texts are kept (Papernot et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from connectors.interfaces.artifacts import ArtifactRef
from flows.config.base import RunConfig
from flows.engine.method import AuditCase, Release, ReleaseOutcome, ReleasePlan
from flows.releases.label_counts import part_line, part_noise, part_outcome, part_values
from tasks.accounting.teachers import PartNoise, affordable_answers, survival
from tasks.core.refs import Written
from tasks.prefect.private import ask_teachers, check_teachers, teach
from tasks.prefect.runtime import embed_samples, results, run_step, submit_step
from tasks.prefect.teachers import select_texts, train_discriminator
from tasks.steps.teachers import TeacherSpec
from tasks.steps.tutor_student import SelectSpec

if TYPE_CHECKING:
    from connectors.interfaces.ledger import Charge
    from flows.config.discriminator import Discriminator
    from flows.engine.run import Run
    from tasks.text.prompts import TaskCard

LEAST_SURVIVAL = 0.9
"""Probability that a unanimous answer survives its noise, below which a plan warns."""


@dataclass(frozen=True, slots=True)
class TeacherAnswers(Release):
    """The noisy answers of the teachers, or before them the noisy checks how sure they are."""

    noise: PartNoise
    choice: Discriminator

    @property
    def name(self) -> str:
        """Return "answers" or "checks"."""
        return self.noise.privacy.part

    def charges(self) -> tuple[Charge, ...]:
        """Return the charge of all answers together."""
        return (self.noise.charge,)

    def plan(self, card: TaskCard) -> ReleasePlan:  # noqa: ARG002
        """Return the noise, and the probability that a unanimous answer survives it."""
        values = part_values(self.noise)
        lines = [part_line(values)]
        if self.name == "answers":
            teachers, chance = self.choice.teachers, survival(self.choice.teachers, self.noise)
            values |= {"teachers": teachers, "survival": chance}
            lines.append(
                f"              {teachers} teachers; an answer on which all agree survives the noise with "
                f"probability {chance:.3f}"
            )
        return ReleasePlan({"beside": [values]}, tuple(lines))

    def warnings(self, card: TaskCard) -> list[str]:  # noqa: ARG002
        """Warn when the noise drowns even unanimous answers."""
        teachers, noise = self.choice.teachers, self.noise
        chance = survival(teachers, noise)
        if self.name != "answers" or chance >= LEAST_SURVIVAL:
            return []
        gaussian = noise.privacy.kind == "gaussian"
        fewer = affordable_answers(teachers / 1.8125, noise.epsilon_stated, noise.delta) if gaussian else 0
        hint = f"; {fewer} queries would be answered at {LEAST_SURVIVAL:g}" if 1 < fewer < noise.privacy.numbers else ""
        return [
            f"an answer on which all {teachers} teachers agree survives the noise with probability {chance:.3f}: more "
            f"teachers (each on fewer rows), a larger epsilon or fewer discriminator.queries help{hint}"
        ]

    def outcome(self) -> ReleaseOutcome:
        """Return the answers as a sentence."""
        return part_outcome(self.noise)

    def audits(self) -> tuple[AuditCase, ...]:
        """Return the attack on answers or checks."""
        return (AuditCase(f"kd {self.name}", self.noise.charge),)


def discriminated(run: Run, written: Sequence[Written]) -> tuple[list[Written], list[ArtifactRef]]:
    """Return the texts that pass, and what was released for that; all texts where nothing is filtered."""
    if not isinstance(run.config, RunConfig) or run.config.filtering is None:
        return list(written), []
    discriminator, released = distil(run, written)
    return select(run, written, discriminator), released


def distil(run: Run, written: Sequence[Written]) -> tuple[ArtifactRef, list[ArtifactRef]]:
    """Train teachers side by side, release their answers, train their student; return it and what was released."""
    spec = _teacher_spec(run)
    for teacher in [submit_step(teach, run.tools, spec, number, written) for number in range(spec.teachers)]:
        teacher.result()
    checks = run_step(check_teachers, run.tools, spec, written) if spec.checks is not None else None
    answers = run_step(ask_teachers, run.tools, spec, written, checks)
    student = run_step(train_discriminator, run.tools, spec, written, answers, checks)
    return student, [one for one in (checks, answers) if one is not None]


def select(run: Run, written: Sequence[Written], discriminator: ArtifactRef | None) -> list[Written]:
    """Keep what the student takes for private, of each class its part; with vectors."""
    config = run.config
    assert isinstance(config, RunConfig)
    spec = SelectSpec(
        iteration=max(one.iteration for one in written),
        count=config.result_size,
        labels=run.prepared.card.label_names,
        shares=run.shares,
        best=config.filtering is not None and config.filtering.choose == "best",
        seed=config.execution.seed,
    )
    kept = run_step(select_texts, run.tools, spec, written, discriminator)
    return results([submit_step(embed_samples, run.tools, one) for one in kept])


def _teacher_spec(run: Run) -> TeacherSpec:
    """Describe teachers, answers and student."""
    config, name, answers = run.config, run.tools.called, part_noise(run, "answers")
    assert isinstance(config, RunConfig)
    assert config.filtering is not None
    assert answers is not None
    chosen = config.filtering
    return TeacherSpec(
        dataset=name.dataset,
        fingerprint=name.fingerprint,
        answers=answers,
        checks=part_noise(run, "checks"),
        teachers=chosen.teachers,
        queries=chosen.queries,
        negatives=chosen.negatives,
        sure=chosen.sure or 0.0,
        student=chosen.student(config.execution.seed),
        seed=config.execution.seed,
        respend=run.config.privacy.respends,
    )
