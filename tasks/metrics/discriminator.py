"""Accuracy of a discriminator: how well it tells real rows from generated texts."""

from __future__ import annotations

from dataclasses import dataclass

from tasks.metrics.usefulness import INTERVAL, Accuracy

LEAST_HELD_OUT = 20
"""Least number of test rows, and of generated texts, below which no accuracy is measured."""


@dataclass(frozen=True, slots=True)
class DiscriminatorTest:
    """Accuracies of a discriminator on test rows and equally many generated texts that took no part in its training.

    Chance is one half. `student`: the classifier that selects texts (Song et al. 2024, Figure 3).
    """

    student: Accuracy

    @property
    def sentence(self) -> str:
        """The accuracy of the student with its interval and the rows."""
        half = self.student.rows // 2
        return (
            f"The classifier that selects texts has accuracy {self.student} on {half:,} test rows and {half:,} "
            f"generated texts that took no part in its training (chance 50 %, {INTERVAL} interval)."
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why the selection may be useless; empty if the student is better than chance."""
        if self.student.interval[0] > 0.5:
            return ()
        return (
            f"the classifier that selects texts is not above chance ({self.student} of held-out texts, chance 50 %): "
            "it selects almost at random. Set public rows, or use more private rows, a larger epsilon or fewer "
            "discriminator.queries.",
        )
