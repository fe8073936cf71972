"""Prefect tasks of the DP-KPS steps that do not read private records."""

from __future__ import annotations

from typing import Any

from connectors.interfaces.artifacts import ArtifactRef
from tasks.core.tools import Tools
from tasks.prefect.runtime import outcome, step
from tasks.steps import keyphrases
from tasks.steps.keyphrases import DensitySpec, PhraseRows, Terms, VocabularySpec


@step("choose terms")
def choose_terms(tools: Tools, spec: VocabularySpec, release: ArtifactRef) -> Any:
    """Select the terms with the highest noisy counts and embed them."""
    terms, why = keyphrases.choose_terms(tools, spec, release)
    return outcome(terms, terms.table, why)


@step("draw sequences")
def draw_phrases(tools: Tools, spec: DensitySpec, terms: Terms, density: ArtifactRef) -> Any:
    """Draw sequences of phrases for each class from the noisy densities."""
    ref, why = keyphrases.draw_phrases(tools, spec, terms, density)
    return outcome(ref, ref, why)


@step("phrases as texts")
def phrases_as_texts(tools: Tools, job: PhraseRows) -> Any:
    """Write the sequences of phrases as the texts."""
    written, why = keyphrases.write(tools, job)
    return outcome(written, written.samples, why)
