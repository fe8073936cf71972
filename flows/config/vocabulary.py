"""Typed parameters of a public vocabulary: where its terms lie, which count, what turns them into vectors."""

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
    """A public vocabulary. It must not have been made from the private rows."""

    path: str = Field(
        description="File of terms, one or more words each: csv, jsonl, parquet, a text file (.txt) with one on each "
        "line, or builtin:vocabularies/english.parquet. PUBLIC: never made from the private rows."
    )
    term: str = Field("term", description="Column of the terms.")
    rank: str = Field("rank", description="Column of their rank, 1 first; empty: the order of the file.")
    skip: int = Field(0, ge=0, description="How many terms of the best ranks never count: words that say nothing.")
    shortest: int = Field(3, ge=1, le=100, description="Least letters and digits of a term.")
    stop_words: bool = Field(True, description="Leave out common English words, however they are written.")
    most: int | None = Field(None, ge=1, le=500_000, description="Most terms; empty: all, at most 500,000.")
    embedder: EmbedderChoice | None = Field(
        None, description="What turns terms into vectors; empty: the run's embedder."
    )


def vocabulary_of(config: AnyConfig) -> VocabularyChoice | None:
    """Return the vocabulary of a configuration, if its flow has one."""
    found = getattr(config, "vocabulary", None)
    return found if isinstance(found, VocabularyChoice) else None


def terms_ref(choice: VocabularyChoice, root: str | None) -> TermsRef:
    """Return the reference that a vocabulary stands for."""
    return TermsRef(
        path=place(choice.path, root),
        term=choice.term,
        rank=choice.rank,
        skip=choice.skip,
        shortest=choice.shortest,
        stop_words=choice.stop_words,
        most=choice.most,
    )
