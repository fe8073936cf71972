"""A release of noisy sums of any kind but votes: its charge, its audit, and its lines in plan and report."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from tasks.accounting.guarantee import epsilon_text, finite
from tasks.accounting.integer_noise import SumNoise
from tasks.private.release import AuditCase, Release, Released, UnnoisedUse

if TYPE_CHECKING:
    from connectors.interfaces.ledger import Charge
    from tasks.attacks.attack import Attack
    from tasks.writing.prompts import TaskCard

UNNOISED = "class_balance: exact, or privacy.epsilon: inf"
"""Settings that release sums without noise."""


@dataclass(frozen=True, slots=True)
class SumRelease(Release):
    """One release of noisy sums; its kind states contents, name in audits, effect and attack.

    `contents`: what is released, with the sizes of its promise in braces. `audited`: the first two words of its
    mechanism in the findings of an audit. `affected`: the outputs of a run that depend on it, empty if the next release
    of the run states them. `group`: the name under which reports know it.
    """

    noise: SumNoise[Any]
    contents: ClassVar[str]
    audited: ClassVar[str]
    affected: ClassVar[str]
    group: ClassVar[str]

    @property
    def name(self) -> str:
        """Name of the release: its part."""
        return str(self.noise.privacy.part)

    @property
    def text(self) -> str:
        """Contents of the release."""
        return self.contents.format(**self.sizes)

    @property
    def sizes(self) -> dict[str, int]:
        """Public numbers that bound the contribution of a record."""
        return {field: getattr(self.noise.privacy, field) for field in self.noise.privacy.sizes}

    @abstractmethod
    def attack(self) -> Attack:
        """Return the attack on the release with its noise."""

    def charges(self) -> tuple[Charge, ...]:
        """Return the charge of all sums together."""
        return (self.noise.charge,)

    def plan(self) -> Sequence[str]:
        """Return the noise of the sums."""
        noise = self.noise
        kind = noise.kind.capitalize()
        if noise.kind == "none":
            kind = "NONE: NOT PRIVATE"
        stated = epsilon_text(finite(noise.epsilon_stated))
        exact = epsilon_text(finite(noise.epsilon_exact))
        return (
            f"{self.name:<14}{self.text}: {kind} noise, scale {noise.scale:.4f} at sensitivity "
            f"{noise.sensitivity:.4f}, epsilon stated {stated}, exact {exact}",
        )

    def warnings(self, card: TaskCard) -> list[str]:  # noqa: ARG002
        """Warn about sums without noise, and about the noise of a paper that costs more than it states."""
        noise = self.noise
        unit = noise.privacy.protects
        if noise.kind == "none":
            return [
                f"{self.name}: released without noise ({UNNOISED}), so the result is NOT PRIVATE"
            ]
        # The grid of integer noise may cost a millionth more than requested; a paper's noise costs several times more.
        if noise.epsilon_exact <= noise.epsilon_stated * (1 + 1e-6):
            return []
        return [
            f"{self.name}: the noise of the paper covers a part of what one {unit} adds, so its stated epsilon "
            f"{noise.epsilon_stated:g} is NO guarantee for a {unit}; this release charges the ledger "
            f"{noise.epsilon_exact:.4g}"
        ]

    def outcome(self) -> Released:
        """Return the release as a sentence, and its values without noise."""
        noise = self.noise
        text = f"{self.text} (epsilon {noise.epsilon_exact:.4g})"
        released = Released(self.name, self.group, text, self.affected)
        if noise.kind != "none":
            return released
        exposed = UnnoisedUse(
            f"{self.text}, without noise", f"{self.name}/release.parquet", UNNOISED
        )
        return replace(released, unnoised=(exposed,))

    def audits(self) -> tuple[AuditCase, ...]:
        """Return the audit of the sums; none without noise."""
        if self.noise.kind == "none":
            return ()
        return (AuditCase(self.audited, self.noise.charge, attack=self.attack),)
