"""One density of the private records that guides all rounds, in place of votes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from flows.engine.method import AuditCase, Release, ReleaseOutcome, ReleasePlan
from tasks.accounting.density import GuidanceNoise, calibrate_density, describe_density
from tasks.reporting.report_model import Touched

if TYPE_CHECKING:
    from connectors.interfaces.ledger import Charge
    from flows.methods.wasp.config import WaspConfig
    from tasks.accounting.sensitivity import VotePrivacy
    from tasks.text.prompts import TaskCard

KERNELS = {
    "cosine": "the average of their vectors",
    "gaussian": "random Fourier features of their vectors",
    "subspace": "their vectors along the main axes of the first round's texts, and products of these",
    "clusters": "how many lie in each cluster of the first round's texts",
}

USUAL_SHIFT = 0.3
"""How far private rows lie from synthetic texts on average, as measured on three data sets (0.25 to 0.6)."""


@dataclass(frozen=True, slots=True)
class Density(Release):
    """The noisy density of a run."""

    config: WaspConfig
    noise: GuidanceNoise
    name: ClassVar[str] = "guidance"

    def charges(self) -> tuple[Charge, ...]:
        """Return the charge of the density."""
        return (self.noise.charge,)

    def plan(self, card: TaskCard) -> ReleasePlan:  # noqa: ARG002
        """Return the kernel, the noise and what the density decides."""
        config, method, kernel, noise = self.config, self.config.method, self.config.method.density, self.noise
        learns, moves = kernel is not None and kernel.learns, config.student.adaptation == "density"
        name = kernel.name if kernel else ""
        values = {
            "kernel": name,
            "learns": learns,
            "final_set": method.final_set,
            "moves": moves,
            "result": method.result_size,
            "samples": method.samples,
        }
        lines = [
            f"releases      1 density of the private rows per class ({KERNELS[name]}), for all rounds; one "
            f"{noise.privacy.protects} moves it by at most {noise.sensitivity:.4f} (L2)",
            f"noise         sigma {noise.sigma:.4f}, of features of length 1",
            "again         a later run on these rows with the same promise reads this release back, without a charge"
            + (", if the texts of its first round are the same" if learns else ""),
        ]
        if method.final_set == "matched":
            lines.append(f"final set     the {method.result_size} of {method.samples} texts that match it together")
        if moves:
            lines.append("student       learns from vectors that the density moves, class by class")
        return ReleasePlan({"density": values}, tuple(lines))

    def warnings(self, card: TaskCard) -> list[str]:
        """Warn when the noise is louder than the density, or when few texts can become examples."""
        rows = self.config.private.rows if self.config.private else None
        if rows is None or self.noise.sigma <= 0:
            return []
        return about_density(self.config, rows, len(card.labels), self.noise)

    def outcome(self) -> ReleaseOutcome:
        """Return the density as a sentence."""
        exposed = Touched("density without noise", "guidance/release.parquet", "privacy.epsilon: inf")
        return ReleaseOutcome(
            kind="density",
            text=describe_density(self.noise),
            affected="the noisy density: selected examples, weights, prompts, selected texts, student",
            unnoised=(exposed,) if self.noise.non_private else (),
        )

    def audits(self) -> tuple[AuditCase, ...]:
        """Return the attack on a density."""
        return (AuditCase("guidance density", self.noise.charge),)


def about_density(config: WaspConfig, rows: int, classes: int, noise: GuidanceNoise) -> list[str]:
    """Return what is likely to go wrong with a density; public numbers only.

    The shift from texts to private rows that all classes have in common is compared with its noise along one
    direction, sigma sqrt(C) / rows. And where a class has hardly more texts in the first round than prompts show, all
    of them become examples, whatever the density says.
    """
    found, method = [], config.method
    index = density_index(rows, classes, noise)
    if index < 1:
        found.append(
            f"signal index {index:.2f} < 1: with {rows} rows the noise is louder than what tells private rows from "
            "texts, so the choice of examples is near chance; more rows or a larger epsilon help"
        )
    first = method.candidates // classes
    if first < 2 * method.examples:
        rounds = max(2, min(method.iterations, method.samples // (2 * method.examples * classes)))
        found.append(
            f"each class has {first} texts in the first round and prompts show {method.examples}, so that nearly all "
            f"become examples: set method.iterations to {rounds}, or write more texts"
        )
    return found


def density_index(rows: int, classes: int, noise: GuidanceNoise) -> float:
    """Return how a usual shift from texts to private rows compares with the noise on it; below 1 it is lost."""
    return USUAL_SHIFT * rows / (noise.sigma * math.sqrt(classes))


STRONG = 3.0
"""From this index on, with a matched final set, FID was below that of zero-shot texts on three data sets of four, and
about as high on the fourth."""


def instead_of_votes(config: WaspConfig, rows: int, classes: int, promise: VotePrivacy) -> str:
    """Return what to do where votes are lost in the noise: a density, if one would not be; empty if it would."""
    if config.parties is not None or promise.protects == "person":
        return ""
    noise = calibrate_density(replace(promise, calibration="tight", choice_share=0.0))
    if density_index(rows, classes, noise) < STRONG:
        return ""
    return "; method.guidance: kernel releases one density instead, which so many rows are enough for"
