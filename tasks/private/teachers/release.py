"""The releases of teachers: label counts, and answers (Papernot et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tasks.private.sum_release import SumRelease
from tasks.private.teachers.attack import teachers_attack
from tasks.private.teachers.promise import affordable_answers, survival

if TYPE_CHECKING:
    from tasks.attacks.attack import Attack
    from tasks.writing.prompts import TaskCard

MIN_SURVIVAL = 0.9
"""Probability that a unanimous answer survives its noise, below which a plan warns."""
GENERATED_ONLY = (
    "all discriminator.queries are generated texts, because there are no public rows. Teachers that recognise them "
    "leave the student one class, and it selects at random. Set public to real texts of the domain that need no "
    "protection"
)
"""Warning of a plan without public rows."""
SELECTED = (
    "the noisy label counts and answers: the selected texts, their number per class, the student"
)


@dataclass(frozen=True, slots=True)
class LabelCountsRelease(SumRelease):
    """The noisy numbers of private records of each class: the tutor."""

    contents: ClassVar[str] = "the number of private rows in each class"
    audited: ClassVar[str] = "kd labels"
    affected: ClassVar[str] = SELECTED
    group: ClassVar[str] = "teachers"

    def attack(self) -> Attack:
        """Return the attack on label counts."""
        return teachers_attack(self.noise)


@dataclass(frozen=True, slots=True)
class TeacherAnswersRelease(SumRelease):
    """The noisy answers of `teachers`; `has_public`: some queries are public rows."""

    teachers: int
    has_public: bool
    contents: ClassVar[str] = "the answers of the teachers to {numbers} queries"
    audited: ClassVar[str] = "kd answers"
    affected: ClassVar[str] = SELECTED
    group: ClassVar[str] = "teachers"

    def attack(self) -> Attack:
        """Return the attack on answers."""
        return teachers_attack(self.noise)

    def plan(self) -> Sequence[str]:
        """Return the noise, and the probability that a unanimous answer survives it."""
        line = (
            f"              {self.teachers} teachers; an answer on which all agree survives the noise with probability "
            f"{survival(self.teachers, self.noise):.3f}"
        )
        # A dataclass with slots is a new class, which `super()` without arguments does not know.
        return (*super(TeacherAnswersRelease, self).plan(), line)

    def warnings(self, card: TaskCard) -> list[str]:
        """Warn when noise changes even unanimous answers too often, or when all queries are generated."""
        noise = self.noise
        warnings = super(TeacherAnswersRelease, self).warnings(card)
        if not self.has_public:
            warnings.append(GENERATED_ONLY)
        chance = survival(self.teachers, noise)
        if chance >= MIN_SURVIVAL:
            return warnings
        hint = ""
        if noise.kind == "gaussian":
            # Phi(M / (sqrt(2) sigma)) is MIN_SURVIVAL at M / sigma = 1.8125.
            sigma = self.teachers / 1.8125
            fewer = affordable_answers(sigma, noise.epsilon_stated, noise.delta)
            if 1 < fewer < noise.privacy.numbers:
                hint = f"; {fewer} queries would reach {MIN_SURVIVAL:g}"
        warnings.append(
            f"an answer on which all {self.teachers} teachers agree survives the noise with probability {chance:.3f}. "
            f"Use more teachers (each on fewer rows), a larger epsilon or fewer discriminator.queries{hint}"
        )
        return warnings
