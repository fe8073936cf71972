"""The releases of phrases (Nagesh et al. 2025): a vocabulary, and densities of the records' phrases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tasks.private.phrases.attack import phrases_attack
from tasks.private.sum_release import SumRelease

if TYPE_CHECKING:
    from tasks.attacks.attack import Attack

SETTING_TEXTS = {
    "gaussian": "integer Gaussian noise on averages of each document",
    "pure": "integer Laplace noise on averages of each document, delta 0",
    "paper": "the scale of the paper as printed, on sums instead of means, made for one phrase: NO guarantee of its "
    "epsilon for a document; the cost of a document is accounted",
}
"""The noise of each setting, for plans and reports."""


@dataclass(frozen=True, slots=True)
class VocabularyRelease(SumRelease):
    """The noisy numbers of private records with each public term."""

    contents: ClassVar[str] = (
        "the number of private rows with each public term (first {terms} of each)"
    )
    audited: ClassVar[str] = "dp_kps vocabulary"
    affected: ClassVar[str] = ""
    group: ClassVar[str] = "vocabulary"

    def attack(self) -> Attack:
        """Return the attack on numbers of terms."""
        return phrases_attack(self.noise)


@dataclass(frozen=True, slots=True)
class PhrasesRelease(SumRelease):
    """The noisy densities of phrases, from which sequences are drawn as `sequences` says."""

    sequences: str
    contents: ClassVar[str] = (
        "densities per class of the first {keyphrases} phrases of each row, by {frequencies} frequencies and {members} "
        "member(s)"
    )
    audited: ClassVar[str] = "dp_kps density"
    affected: ClassVar[str] = (
        "the noisy counts and sums: phrases, prompts, synthetic texts, student"
    )
    group: ClassVar[str] = "keyphrases"

    @property
    def text(self) -> str:
        """Contents of the release, and the noise of the setting."""
        return f"{self.contents.format(**self.sizes)}, with {SETTING_TEXTS[self.noise.privacy.setting]}"

    def attack(self) -> Attack:
        """Return the attack on densities of phrases."""
        return phrases_attack(self.noise)

    def plan(self) -> Sequence[str]:
        """Return the noise, and how sequences are drawn."""
        # A dataclass with slots is a new class, which `super()` without arguments does not know.
        return (*super(PhrasesRelease, self).plan(), f"sequences     {self.sequences}")
