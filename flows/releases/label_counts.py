"""Noisy counts of the private records by class, which set how many texts each class gets (the tutor)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from flows.engine.method import AuditCase, Release, ReleaseOutcome, ReleasePlan
from flows.releases.parts import part_audits, part_line, part_noise, part_outcome, part_values
from tasks.accounting.teachers import PartNoise
from tasks.steps.label_counts import LabelSpec, read_shares

if TYPE_CHECKING:
    from connectors.interfaces.artifacts import ArtifactRef
    from connectors.interfaces.ledger import Charge
    from flows.engine.run import Run
    from tasks.text.prompts import TaskCard


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
        return part_audits("kd labels", self.noise, self.noise.charge)


def release_labels(run: Run) -> list[ArtifactRef]:
    """Release label counts and set the class proportions of the run's texts; no release if not configured."""
    from tasks.prefect.private import count_labels
    from tasks.prefect.runtime import run_step

    noise = part_noise(run, "labels")
    if noise is None:
        return []
    name, labels = run.tools.called, run.prepared.card.label_names
    spec = LabelSpec(name.dataset, name.fingerprint, noise, labels, run.config.privacy.respends)
    release: ArtifactRef = run_step(count_labels, run.tools, spec)
    run.shares, run.shares_are_noisy = read_shares(run.tools, release), noise.privacy.kind != "none"
    return [release]
