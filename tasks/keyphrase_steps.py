"""The Prefect face of the steps of DP-KPS that open no private row."""

from __future__ import annotations

from typing import Any

from connectors.base import ArtifactRef
from tasks import keyphrasing, phrase_rows
from tasks.keyphrasing import DensitySpec, Terms, VocabularySpec
from tasks.phrase_rows import PhraseRows
from tasks.steps import outcome, step
from tasks.toolbox import Tools


@step("choose terms")
def choose_terms(tools: Tools, spec: VocabularySpec, release: ArtifactRef) -> Any:
    """Take the terms with the highest noisy counts as the private vocabulary, and embed them."""
    terms, why = keyphrasing.choose_terms(tools, spec, release)
    return outcome(terms, terms.table, why)


@step("draw sequences")
def draw_phrases(tools: Tools, spec: DensitySpec, terms: Terms, density: ArtifactRef) -> Any:
    """Draw sequences of phrases for each class from the noisy densities."""
    ref, why = keyphrasing.draw_phrases(tools, spec, terms, density)
    return outcome(ref, ref, why)


@step("phrases as texts")
def phrases_as_texts(tools: Tools, job: PhraseRows) -> Any:
    """Let the sequences be the texts."""
    written, why = phrase_rows.write(tools, job)
    return outcome(written, written.samples, why)
