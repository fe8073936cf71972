"""Small releases beside those of a method (label counts, answers of teachers): their text in plan and report.

And the audit of every release but votes and trainings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flows.engine.method import AuditCase, ReleaseOutcome
from flows.engine.text import epsilon
from tasks.accounting.no_noise import finite
from tasks.reporting.report_model import Touched

if TYPE_CHECKING:
    from connectors.interfaces.ledger import Charge
    from flows.engine.run import Run
    from tasks.accounting.teachers import Part, PartNoise
    from tasks.audit.attacks import Attack

TEXTS = {
    "labels": "the number of private rows in each class",
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


def part_noise(run: Run, part: Part) -> PartNoise | None:
    """Return the noise of a part; None if the run does not release it."""
    return next((noise for noise in run.prepared.noise.beside if noise.privacy.part == part), None)


def part_audits(kind: str, noise: Any, charge: Charge) -> tuple[AuditCase, ...]:
    """Return the audit of a density, a part of DP-KPS, label counts, answers or checks; none without noise."""

    def attack(trials: int, confidence: float) -> Attack:
        from tasks.audit.parts import part_attack

        return part_attack(kind, noise, trials, confidence)

    return () if charge.mechanism == "none" else (AuditCase(kind, charge, attack=attack),)
