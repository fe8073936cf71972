"""Noisy counts of the private records by class, which set how many texts each class gets (the tutor)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from flows.engine.method import AuditCase, Release, ReleaseOutcome, ReleasePlan
from flows.engine.text import epsilon
from tasks.accounting.no_noise import finite
from tasks.accounting.teachers import PartNoise
from tasks.prefect.private import count_labels
from tasks.prefect.runtime import run_step
from tasks.reporting.report_model import Touched
from tasks.steps.label_counts import LabelSpec, read_shares

if TYPE_CHECKING:
    from connectors.interfaces.artifacts import ArtifactRef
    from connectors.interfaces.ledger import Charge
    from flows.engine.run import Run
    from tasks.accounting.teachers import Part
    from tasks.text.prompts import TaskCard

TEXTS = {
    "labels": "the number of private rows in each class",
    "exam": "the numbers of private rows that the zero-shot student gets right and wrong",
    "checks": "the confidence of the teachers in each of {numbers} queries",
    "answers": "the answers of the teachers to {numbers} queries",
}
"""Contents of each release, by its part."""


def text_of(noise: PartNoise) -> str:
    """Return the contents of a release as text."""
    return TEXTS[noise.privacy.part].format(numbers=noise.privacy.numbers)


def part_values(noise: PartNoise) -> dict[str, Any]:
    """Return the values of a release in the JSON of a plan."""
    return {
        "part": noise.privacy.part,
        "in_words": text_of(noise),
        "numbers": noise.privacy.numbers,
        "noise": {"gaussian": "Gaussian", "laplace": "Laplace", "none": "NONE: NOT PRIVATE"}[noise.privacy.kind],
        "scale": noise.scale,
        "sensitivity": noise.sensitivity,
        "epsilon_stated": finite(noise.epsilon_stated),
        "epsilon_exact": finite(noise.epsilon_exact),
    }


def part_line(values: dict[str, Any]) -> str:
    """Return a release as a line of the plan."""
    return (
        f"{values['part']:<14}{values['in_words']}: {values['noise']} noise, scale {values['scale']:.4f} at "
        f"sensitivity {values['sensitivity']:.4f}, epsilon stated {epsilon(values['epsilon_stated'])}, exact "
        f"{epsilon(values['epsilon_exact'])}"
    )


def part_outcome(noise: PartNoise) -> ReleaseOutcome:
    """Return a release as a sentence, and its values without noise."""
    exposed = Touched(
        f"{text_of(noise)}, without noise",
        f"{noise.privacy.part}/release.parquet",
        "class_balance: exact, or privacy.epsilon: inf",
    )
    return ReleaseOutcome(
        kind="teachers",
        text=f"{text_of(noise)} (epsilon {noise.epsilon_exact:.4g})",
        affected="the noisy label counts and answers: the selected texts, their number per class, the student",
        unnoised=(exposed,) if noise.privacy.kind == "none" else (),
    )


@dataclass(frozen=True, slots=True)
class LabelCountsRelease(Release):
    """The noisy label counts of a run."""

    noise: PartNoise
    name: ClassVar[str] = "labels"

    def charges(self) -> tuple[Charge, ...]:
        """Return the charge of the counts."""
        return (self.noise.charge,)

    def plan(self, card: TaskCard) -> ReleasePlan:  # noqa: ARG002
        """Return the noise of the counts."""
        values = part_values(self.noise)
        return ReleasePlan({"beside": [values]}, (part_line(values),))

    def outcome(self) -> ReleaseOutcome:
        """Return the counts as a sentence."""
        return part_outcome(self.noise)

    def audits(self) -> tuple[AuditCase, ...]:
        """Return the audit of label counts."""
        return (AuditCase("kd labels", self.noise.charge),)


def release_labels(run: Run) -> list[ArtifactRef]:
    """Release label counts and set the class proportions of the run's texts; no release if not configured."""
    noise = part_noise(run, "labels")
    if noise is None:
        return []
    name, labels = run.tools.called, run.prepared.card.label_names
    spec = LabelSpec(name.dataset, name.fingerprint, noise, labels, run.config.privacy.respends)
    release: ArtifactRef = run_step(count_labels, run.tools, spec)
    run.shares, run.shares_are_noisy = read_shares(run.tools, release), noise.privacy.kind != "none"
    return [release]


def part_noise(run: Run, part: Part) -> PartNoise | None:
    """Return the noise of a part; None if the run does not release it."""
    return next((noise for noise in run.prepared.noise.beside if noise.privacy.part == part), None)
