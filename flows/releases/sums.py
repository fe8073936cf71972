"""Releases of noisy sums: their charge, their audit, and the text of small ones in plan and report.

Label counts, a vocabulary and the answers of teachers can be released next to the release of any method.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flows.engine.method import AuditCase, Release, ReleaseOutcome, ReleasePlan
from flows.engine.text import epsilon
from tasks.accounting.no_noise import finite
from tasks.accounting.sums import SumNoise
from tasks.reporting.run_record import Touched
from tasks.steps.label_counts import count_labels, read_shares

if TYPE_CHECKING:
    from connectors.interfaces.ledger import Charge
    from flows.engine.run import Run
    from tasks.audit.attacks import Attack
    from tasks.text.prompts import TaskCard

TEXTS = {
    "labels": "the number of private rows in each class",
    "vocabulary": "the number of private rows with each public term (first {terms} of each)",
    "answers": "the answers of the teachers to {numbers} queries",
}
"""Contents of each small release, by its part."""

AUDITED = {
    "labels": "kd labels",
    "answers": "kd answers",
    "vocabulary": "dp_kps vocabulary",
    "density": "dp_kps density",
    "guidance": "guidance density",
}
"""First two words of the mechanism in the findings of an audit, by part."""


@dataclass(frozen=True, slots=True)
class SumRelease(Release):
    """One release of noisy sums; those of TEXTS need no further text."""

    noise: SumNoise[Any]

    @property
    def name(self) -> str:
        """Name of the release: its part."""
        return str(self.noise.privacy.part)

    @property
    def text(self) -> str:
        """Contents of the release."""
        return TEXTS[self.name].format(**self.sizes)

    @property
    def sizes(self) -> dict[str, int]:
        """Public numbers that bound the contribution of a record."""
        return {field: getattr(self.noise.privacy, field) for field in self.noise.privacy.sizes}

    def charges(self) -> tuple[Charge, ...]:
        """Return the charge of all sums together."""
        return (self.noise.charge,)

    def plan(self, card: TaskCard) -> ReleasePlan:  # noqa: ARG002
        """Return the noise of the sums."""
        noise = self.noise
        values = noise_values(noise) | {"in_words": self.text} | self.sizes
        line = (
            f"{self.name:<14}{self.text}: {values['noise']} noise, scale {noise.scale:.4f} at sensitivity "
            f"{noise.sensitivity:.4f}, epsilon stated {epsilon(values['epsilon_stated'])}, exact "
            f"{epsilon(values['epsilon_exact'])}"
        )
        return ReleasePlan({"beside": [values]}, (line,))

    def outcome(self) -> ReleaseOutcome:
        """Return the release as a sentence, and its values without noise."""
        where = f"{self.name}/release.parquet", "class_balance: exact, or privacy.epsilon: inf"
        text = f"{self.text} (epsilon {self.noise.epsilon_exact:.4g})"
        if self.name == "vocabulary":
            return ReleaseOutcome("vocabulary", text)
        return ReleaseOutcome(
            kind="teachers",
            text=text,
            affected="the noisy label counts and answers: the selected texts, their number per class, the student",
            unnoised=(Touched(f"{self.text}, without noise", *where),) if self.noise.kind == "none" else (),
        )

    def audits(self) -> tuple[AuditCase, ...]:
        """Return the audit of the sums."""
        return sum_audits(self.noise)


def release_labels(run: Run) -> None:
    """Release label counts and set the class proportions of the run's texts, if configured."""
    noise = run.prepared.noise.part("labels")
    if noise is not None:
        release = run.release(count_labels, run.payer, noise, run.prepared.card.label_names)
        run.shares, run.shares_are_noisy = read_shares(run.tools, release), noise.kind != "none"


def noise_values(noise: SumNoise[Any]) -> dict[str, Any]:
    """Return the noise of a release in the JSON of a plan."""
    return {
        "part": noise.privacy.part,
        "noise": "NONE: NOT PRIVATE" if noise.kind == "none" else noise.kind.capitalize(),
        "scale": noise.scale,
        "sensitivity": noise.sensitivity,
        "epsilon_stated": finite(noise.epsilon_stated),
        "epsilon_exact": finite(noise.epsilon_exact),
    }


def sum_audits(noise: SumNoise[Any]) -> tuple[AuditCase, ...]:
    """Return the audit of a release of sums; none without noise."""
    kind = AUDITED[noise.privacy.part]

    def attack(trials: int, confidence: float) -> Attack:
        from tasks.audit.parts import part_attack

        return part_attack(kind, noise, trials, confidence)

    return () if noise.kind == "none" else (AuditCase(kind, noise.charge, attack=attack),)
