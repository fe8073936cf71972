"""The exam: noisy counts of private rows that the zero-shot student gets right, as a measure of usefulness."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from flows.engine.method import AuditCase, Release, ReleaseOutcome, ReleasePlan
from flows.releases.parts import part_line, part_noise, part_outcome, part_values
from tasks.reporting.report_model import Section
from tasks.steps.exam import ExamSpec, exam_error, read_exam

if TYPE_CHECKING:
    from collections.abc import Sequence

    from connectors.interfaces.artifacts import ArtifactRef
    from connectors.interfaces.ledger import Charge
    from flows.config.base import RunConfig
    from flows.engine.run import Run
    from tasks.accounting.teachers import PartNoise
    from tasks.core.refs import Written
    from tasks.text.prompts import TaskCard

TYPICAL = 0.75
"""Accuracy at which the plan states the width of the interval."""


@dataclass(frozen=True, slots=True)
class ExamRelease(Release):
    """The noisy counts of the exam."""

    config: RunConfig
    noise: PartNoise
    name: ClassVar[str] = "exam"

    def charges(self) -> tuple[Charge, ...]:
        """Return the charge of the counts."""
        return (self.noise.charge,)

    def plan(self, card: TaskCard) -> ReleasePlan:  # noqa: ARG002
        """Return the noise of the counts and the expected width of the interval."""
        values, rows = part_values(self.noise), self.config.private.public_number if self.config.private else None
        lines = [part_line(values)]
        if rows is not None:
            half = exam_error(TYPICAL, rows, self.noise.scale)
            lines.append(f"              with {rows} rows the 95 % interval is about +- {100 * half:.0f} points")
        return ReleasePlan({"beside": [values]}, tuple(lines))

    def outcome(self) -> ReleaseOutcome:
        """Return the counts as a sentence."""
        return part_outcome(self.noise)

    def audits(self) -> tuple[AuditCase, ...]:
        """Return the audit of label counts: the exam counts the two classes right and wrong with the same code."""
        return (AuditCase("kd labels", self.noise.charge),)


def take_exam_once(run: Run, iteration: int, written: Sequence[Written]) -> list[ArtifactRef]:
    """Release the exam of the zero-shot texts in the first iteration; no release if not configured."""
    from tasks.prefect.private import take_exam
    from tasks.prefect.runtime import run_step

    noise = part_noise(run, "exam")
    if noise is None or iteration:
        return []
    name, labels = run.tools.called, run.prepared.card.label_names
    spec = ExamSpec(name.dataset, name.fingerprint, noise, labels, run.config.privacy.respends)
    run.exam = run_step(take_exam, run.tools, spec, written)
    return [run.exam]


def exam_sections(run: Run) -> tuple[Section, ...]:
    """Return the result of the exam for report and card; empty without an exam."""
    noise = part_noise(run, "exam")
    if noise is None or run.exam is None:
        return ()
    result = read_exam(run.tools, run.exam, noise)
    text = (
        f"Without any private record, a linear student of the first texts gets {100 * result.accuracy:.0f} % of the "
        f"private records right (95 % interval {100 * result.low:.0f} to {100 * result.high:.0f} %), by two noisy "
        f"counts of epsilon {noise.epsilon_exact:.4g}."
    )
    return (Section("Exam of the zero-shot student on private records", text),)
