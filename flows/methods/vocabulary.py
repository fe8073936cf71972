"""The public vocabulary of a configuration, whose terms private records choose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from connectors.interfaces.errors import ConfigError
from flows.config.paths import terms_ref, vocabulary_of
from tasks.private.phrases.release import VocabularyRelease
from tasks.private.phrases.step import VocabularySpec, public_vocabulary

if TYPE_CHECKING:
    from flows.engine.run import Run
    from flows.engine.tools import RunTools


def vocabulary_spec(run: Run, count: int, threshold: float) -> VocabularySpec:
    """Return the specification of a vocabulary release; ConfigError without a public vocabulary."""
    choice = vocabulary_of(run.config)
    release = run.prepared.guarantee.of(VocabularyRelease)
    if choice is None or release is None:
        raise ConfigError("vocabulary: not set. Set vocabulary.path to a public vocabulary.")
    return VocabularySpec(
        run.payer, release.noise, terms_ref(choice, run.config.data_root), count, threshold
    )


def vocabulary_content(tools: RunTools, needed: int = 1) -> list[str]:
    """Return digests of a run's public vocabulary and its embedder; empty without a vocabulary.

    Raises InputError for an unusable vocabulary, ConfigError for fewer than `needed` terms.
    """
    choice = vocabulary_of(tools.config)
    if choice is None:
        return []
    # Read before any budget is spent: an unusable vocabulary refuses the run.
    public = public_vocabulary(tools, terms_ref(choice, tools.config.data_root))
    if len(public.terms) < needed:
        raise ConfigError(
            f"vocabulary: {choice.path} has {len(public.terms)} usable terms, but a sequence needs {needed} "
            "different ones. Use a larger vocabulary, skip fewer terms, or lower method.length"
        )
    return [public.content, tools.term_embedder.identity]
