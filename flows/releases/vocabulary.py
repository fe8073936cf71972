"""Private vocabulary: the noisy number of records with each public term (Nagesh et al. 2025)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from connectors.interfaces.errors import ConfigError
from flows.config.vocabulary import terms_ref, vocabulary_of
from flows.engine.method import AuditCase, Release, ReleaseOutcome, ReleasePlan
from flows.releases.parts import part_audits
from tasks.accounting.keyphrases import KeyphraseNoise, part_charge
from tasks.steps.keyphrases import VocabularySpec, public_vocabulary

if TYPE_CHECKING:
    from connectors.interfaces.ledger import Charge
    from flows.engine.run import Run
    from flows.engine.tools import RunTools
    from tasks.text.prompts import TaskCard


@dataclass(frozen=True, slots=True)
class VocabularyRelease(Release):
    """The noisy counts of public terms."""

    noise: KeyphraseNoise
    name: ClassVar[str] = "vocabulary"

    def charges(self) -> tuple[Charge, ...]:
        """Return the charge of the counts."""
        return (part_charge(self.noise),)

    def plan(self, card: TaskCard) -> ReleasePlan:  # noqa: ARG002
        """Return the number of terms per record and the noise."""
        noise = self.noise
        values = {"terms": noise.privacy.terms, "scale": noise.scale, "epsilon_exact": noise.epsilon_exact}
        line = (
            f"vocabulary    one release before the votes: number of rows with each public term (first "
            f"{noise.privacy.terms} of each), sigma {noise.scale:.4f}, epsilon {noise.epsilon_exact:.4f}"
        )
        return ReleasePlan({"words": values}, (line,))

    def outcome(self) -> ReleaseOutcome:
        """Return the counts as a sentence."""
        noise = self.noise
        return ReleaseOutcome(
            kind="vocabulary",
            text=f"the number of records with each public term (first {noise.privacy.terms} of each; epsilon "
            f"{noise.epsilon_exact:.4g})",
        )

    def audits(self) -> tuple[AuditCase, ...]:
        """Return the audit of the DP-KPS vocabulary, which is the same release."""
        return part_audits("dp_kps vocabulary", self.noise, part_charge(self.noise))


def vocabulary_spec(run: Run, noise: KeyphraseNoise, count: int, threshold: float) -> VocabularySpec:
    """Return the specification of a vocabulary release; ConfigError without a public vocabulary."""
    choice, name = vocabulary_of(run.config), run.tools.called
    if choice is None:
        raise ConfigError("vocabulary: not set. Set vocabulary.path to a public vocabulary.")
    return VocabularySpec(
        dataset=name.dataset,
        fingerprint=name.fingerprint,
        noise=noise,
        where=terms_ref(choice, run.config.data_root),
        kept=count,
        threshold=threshold,
        respend=run.config.privacy.respends,
    )


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
