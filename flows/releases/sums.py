"""Releases of noisy sums: their charge, their audit, and the text of small ones in plan and report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from connectors.interfaces.errors import ConfigError
from flows.config.paths import terms_ref, vocabulary_of
from flows.engine.method import AuditCase, Release
from flows.engine.text import epsilon
from tasks.accounting.guarantee import finite
from tasks.accounting.integer_noise import SumNoise
from tasks.audit.parts import KINDS, SumKind, part_attack
from tasks.reporting.run_record import Released, Touched
from tasks.steps.keyphrases import VocabularySpec, public_vocabulary

if TYPE_CHECKING:
    from connectors.interfaces.ledger import Charge
    from flows.engine.run import Run
    from flows.engine.tools import RunTools
    from tasks.text.prompts import TaskCard

UNNOISED = "class_balance: exact, or privacy.epsilon: inf"
"""Settings that release sums without noise."""


@dataclass(frozen=True, slots=True)
class SumRelease(Release):
    """One release of noisy sums; `KINDS` declares its text, its effect and its attack."""

    noise: SumNoise[Any]

    @property
    def name(self) -> str:
        """Name of the release: its part."""
        return str(self.noise.privacy.part)

    @property
    def kind(self) -> SumKind:
        """Declaration of the release."""
        return KINDS[self.name]

    @property
    def text(self) -> str:
        """Contents of the release."""
        return self.kind.text.format(**self.sizes)

    @property
    def sizes(self) -> dict[str, int]:
        """Public numbers that bound the contribution of a record."""
        return {field: getattr(self.noise.privacy, field) for field in self.noise.privacy.sizes}

    def charges(self) -> tuple[Charge, ...]:
        """Return the charge of all sums together."""
        return (self.noise.charge,)

    def plan(self) -> Sequence[str]:
        """Return the noise of the sums."""
        noise, kind = self.noise, "NONE: NOT PRIVATE" if self.noise.kind == "none" else self.noise.kind.capitalize()
        stated, exact = epsilon(finite(noise.epsilon_stated)), epsilon(finite(noise.epsilon_exact))
        return (
            f"{self.name:<14}{self.text}: {kind} noise, scale {noise.scale:.4f} at sensitivity "
            f"{noise.sensitivity:.4f}, epsilon stated {stated}, exact {exact}",
        )

    def warnings(self, card: TaskCard) -> list[str]:  # noqa: ARG002
        """Warn about sums without noise, and about the noise of a paper that costs more than it states."""
        noise, unit = self.noise, self.noise.privacy.protects
        if noise.kind == "none":
            return [f"{self.name}: released without noise ({UNNOISED}), so the result is NOT PRIVATE"]
        if noise.epsilon_exact <= noise.epsilon_stated * (1 + 1e-6):
            return []
        return [
            f"{self.name}: the noise of the paper covers a part of what one {unit} adds, so its stated epsilon "
            f"{noise.epsilon_stated:g} is NO guarantee for a {unit}; this release charges the ledger "
            f"{noise.epsilon_exact:.4g}"
        ]

    def outcome(self) -> Released:
        """Return the release as a sentence, and its values without noise."""
        noise, kind = self.noise, self.kind
        exposed = Touched(f"{self.text}, without noise", f"{self.name}/release.parquet", UNNOISED)
        text = f"{self.text} (epsilon {noise.epsilon_exact:.4g})"
        return Released(self.name, kind.group, text, kind.affected, (exposed,) if noise.kind == "none" else ())

    def audits(self) -> tuple[AuditCase, ...]:
        """Return the audit of the sums; none without noise."""
        attack = partial(part_attack, self.noise)
        return () if self.noise.kind == "none" else (AuditCase(self.kind.audited, self.noise.charge, attack=attack),)


@dataclass(frozen=True, slots=True)
class VocabularyRelease(SumRelease):
    """The noisy numbers of private records with each public term."""


def vocabulary_spec(run: Run, count: int, threshold: float) -> VocabularySpec:
    """Return the specification of a vocabulary release; ConfigError without a public vocabulary."""
    choice = vocabulary_of(run.config)
    release = run.prepared.guarantee.of(VocabularyRelease)
    if choice is None or release is None:
        raise ConfigError("vocabulary: not set. Set vocabulary.path to a public vocabulary.")
    return VocabularySpec(run.payer, release.noise, terms_ref(choice, run.config.data_root), count, threshold)


def vocabulary_content(tools: RunTools, needed: int = 1) -> list[str]:
    """Return digests of a run's public vocabulary and its embedder; empty without a vocabulary.

    Raises InputError for an unusable vocabulary, ConfigError for fewer than `needed` terms.
    """
    choice = vocabulary_of(tools.config)
    if choice is None:
        return []
    public = public_vocabulary(tools, terms_ref(choice, tools.config.data_root))
    if len(public.terms) < needed:
        raise ConfigError(
            f"vocabulary: {choice.path} has {len(public.terms)} usable terms, but a sequence needs {needed} "
            "different ones. Use a larger vocabulary, skip fewer terms, or lower method.length"
        )
    return [public.content, tools.term_embedder.identity]
