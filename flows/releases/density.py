"""One noisy density of the private records that guides all iterations instead of votes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flows.engine.method import ReleasePlan
from flows.releases.opening import Opening, opening_lines
from flows.releases.sums import SumRelease
from tasks.accounting.density import calibrate_density

if TYPE_CHECKING:
    from flows.methods.wasp.config import WaspConfig
    from tasks.accounting.sensitivity import VotePrivacy
    from tasks.text.prompts import TaskCard

TYPICAL_SHIFT = 0.3
"""Mean distance of private records from synthetic texts, measured on three data sets (0.25 to 0.6)."""


@dataclass(frozen=True, slots=True)
class DensityRelease(SumRelease):
    """The noisy density of a run."""

    config: WaspConfig

    def plan(self, card: TaskCard) -> ReleasePlan:  # noqa: ARG002
        """Return the noise and the uses of the density."""
        config, noise, moves = self.config, self.noise, self.config.adapts
        opening = config.opening
        values = {"moves": moves, "samples": config.method.samples}
        lines = [
            *(opening_lines(opening) if opening is not None else []),
            "releases      1 density of the private rows per class (the average of their vectors), for all iterations; "
            f"one {noise.privacy.protects} changes it by at most {noise.sensitivity:.4f} (L2)",
            f"noise         sigma {noise.scale:.4f}, of features of length 1",
            "reuse         a later run with the same rows and privacy settings reuses this release without a charge",
        ]
        if moves:
            lines.append("student       is trained on vectors that the density shifts, class by class")
        return ReleasePlan({"density": values, "opening": opening.to_json() if opening else None}, tuple(lines))

    def warnings(self, card: TaskCard) -> list[str]:
        """Warn when the noise exceeds the density, or when too few texts are available as examples."""
        rows = self.config.private.public_number if self.config.private else None
        if rows is None or self.noise.scale <= 0:
            return []
        return density_warnings(self.config, rows, len(card.labels), self.noise.scale)

    @property
    def text(self) -> str:
        """Contents of the release, its noise and what one record moves."""
        noise = self.noise
        how = "without noise" if noise.kind == "none" else f"with integer Gaussian noise, sigma {noise.scale:.4f}"
        return (
            f"{self.kind.text}, {how}; one {noise.privacy.protects} moves all of them together by at most "
            f"{noise.sensitivity:g} (L2)"
        )


def density_warnings(config: WaspConfig, rows: int, classes: int, sigma: float) -> list[str]:
    """Return warnings about likely problems of a density; they contain public numbers only.

    The signal index compares the common shift of all classes, from texts to private rows, with its noise along one
    direction, sigma sqrt(C) / rows. In addition, if a class has hardly more texts in the first iteration than a prompt
    shows, nearly all of them become examples and the density has no effect.
    """
    warnings, method = [], config.method
    index = TYPICAL_SHIFT * rows / (sigma * math.sqrt(classes))
    if index < 1:
        warnings.append(
            f"signal index {index:.2f} < 1: with {rows} rows the noise exceeds the difference between private rows "
            "and texts, so the choice of examples is near chance. Use more rows or a larger epsilon"
        )
    first = method.candidates // classes
    if first < 2 * method.examples:
        rounds = max(2, min(method.iterations, method.samples // (2 * method.examples * classes)))
        fewer = f"Set method.iterations to {rounds}, or w" if rounds < method.iterations else "W"
        warnings.append(
            f"each class has {first} texts in the first iteration and prompts show {method.examples}, so nearly all "
            f"become examples. {fewer}rite more texts"
        )
    return warnings


def density_hint(config: WaspConfig, rows: int, classes: int, promise: VotePrivacy) -> str:
    """Return a hint to replace too noisy votes by a density; empty if the density is too noisy as well."""
    if config.parties is not None or promise.protects == "person":
        return ""
    noise = calibrate_density(replace(promise, calibration="tight"))
    if not Opening(rows, classes, noise.sigma).opens:
        return ""
    return ". Or set method.guidance: auto, which releases one density if that is expected to help"
