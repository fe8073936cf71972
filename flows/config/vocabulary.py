"""Typed parameters of a public vocabulary: source, selection, embedding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from connectors.interfaces.rows import TermsRef
from flows.config.form import Strict
from flows.config.models import EmbedderChoice
from flows.config.paths import place

if TYPE_CHECKING:
    from flows.config.base import AnyConfig


class VocabularyChoice(Strict):
    """A public vocabulary; it must not be derived from private data."""

    path: str = Field(
        description="File of terms (words or phrases): csv, jsonl, parquet, a text file (.txt) with one per line, a "
        "file of word vectors (.txt, GloVe), or builtin:vocabularies/english.parquet. PUBLIC: never derive it from "
        "private data."
    )
    term: str = Field("term", description="Term column.")
    rank: str = Field("rank", description="Rank column, 1 is first. Empty: file order.")
    skip: int = Field(0, ge=0, description="Number of top-ranked terms to skip, because they carry little meaning.")
    shortest: int = Field(3, ge=1, le=100, description="Minimum number of letters and digits of a term.")
    embedder: EmbedderChoice | None = Field(None, description="Embedder of the terms. Empty: the embedder of the run.")


def vocabulary_of(config: AnyConfig) -> VocabularyChoice | None:
    """Return the vocabulary of a configuration, or None."""
    vocabulary = getattr(config, "vocabulary", None)
    return vocabulary if isinstance(vocabulary, VocabularyChoice) else None


def terms_ref(choice: VocabularyChoice, root: str | None) -> TermsRef:
    """Return the reference to the terms of a vocabulary."""
    return TermsRef(place(choice.path, root), **choice.model_dump(exclude={"path", "embedder"}))
