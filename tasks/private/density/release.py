"""The release of one density that guides all iterations of a run instead of votes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tasks.private.density.attack import density_attack
from tasks.private.sum_release import SumRelease

if TYPE_CHECKING:
    from tasks.attacks.attack import Attack
    from tasks.writing.prompts import TaskCard

TYPICAL_SHIFT = 0.3
"""Mean distance of private records from synthetic texts, measured on three data sets (0.25 to 0.6)."""


@dataclass(frozen=True, slots=True)
class Use:
    """The public numbers of a run that uses a density.

    `rows`: the public number of records, None if it is not declared. `candidates`: texts of the first iteration, over
    all classes; `examples`: texts in a prompt; `samples` in all `iterations`.
    """

    rows: int | None
    candidates: int
    examples: int
    samples: int
    iterations: int


@dataclass(frozen=True, slots=True)
class DensityRelease(SumRelease):
    """One noisy density of the private records.

    `forecast`: lines of the plan about the decision to open the records, and about a corpus. `labels_texts`: each text
    gets the probability of each class by the release.
    """

    use: Use
    forecast: tuple[str, ...] = ()
    labels_texts: bool = False
    contents: ClassVar[str] = "one sum of features per class for all iterations"
    audited: ClassVar[str] = "guidance density"
    affected: ClassVar[str] = (
        "the noisy density: selected examples, weights, prompts, selected texts, student"
    )
    group: ClassVar[str] = "density"

    def attack(self) -> Attack:
        """Return the attack on a density."""
        return density_attack(self.noise)

    def plan(self) -> Sequence[str]:
        """Return the noise and the uses of the density."""
        noise = self.noise
        lines = [
            *self.forecast,
            "releases      1 density of the private rows per class (the average of their vectors), for all iterations; "
            f"one {noise.privacy.protects} changes it by at most {noise.sensitivity:.4f} (L2)",
            f"noise         sigma {noise.scale:.4f}, of features of length 1",
            "reuse         a later run with the same rows and privacy settings reuses this release without a charge",
        ]
        if self.labels_texts:
            lines.append(
                "labels        each text gets the probability of each class by the release; students learn it"
            )
        return lines

    def warnings(self, card: TaskCard) -> list[str]:
        """Warn when the noise exceeds the density, or when too few texts are available as examples.

        The warnings contain public numbers only. The signal index compares the common shift of all classes, from texts
        to private rows, with its noise along one direction, sigma sqrt(C) / rows. In addition, if a class has hardly
        more texts in the first iteration than a prompt shows, nearly all of them become examples and the density has
        no effect.
        """
        use = self.use
        classes = len(card.labels)
        sigma = self.noise.scale
        # Only a declared number is public: a count of the rows would have to get noise.
        if use.rows is None or sigma <= 0:
            return []
        warnings = []
        index = TYPICAL_SHIFT * use.rows / (sigma * math.sqrt(classes))
        if index < 1:
            guided = "the choice of examples is"
            if not use.examples:
                guided = "what it changes in weights and labels is"
            warnings.append(
                f"signal index {index:.2f} < 1: with {use.rows} rows the noise exceeds the difference between private "
                f"rows and texts, so {guided} near chance. Use more rows or a larger epsilon"
            )
        first = use.candidates // classes
        if first < 2 * use.examples:
            # Fewer iterations leave more texts for each; a release guides nothing with fewer than two.
            rounds = max(2, min(use.iterations, use.samples // (2 * use.examples * classes)))
            advice = "Write more texts"
            if rounds < use.iterations:
                advice = f"Set method.iterations to {rounds}, or write more texts"
            warnings.append(
                f"each class has {first} texts in the first iteration and prompts show {use.examples}, so nearly "
                f"all become examples. {advice}"
            )
        return warnings

    @property
    def text(self) -> str:
        """Contents of the release, its noise and the largest change by one record."""
        noise = self.noise
        how = f"with integer Gaussian noise, sigma {noise.scale:.4f}"
        if noise.kind == "none":
            how = "without noise"
        return (
            f"{self.contents}, {how}; one {noise.privacy.protects} moves all of them together by at most "
            f"{noise.sensitivity:g} (L2)"
        )
