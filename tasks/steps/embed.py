"""Embed synthetic and other non-private texts: each different text once, and nothing unusable passed on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from connectors.interfaces.embedding import Embedder, VectorStore
from connectors.interfaces.errors import FinalError
from connectors.interfaces.progress import Advance

if TYPE_CHECKING:
    from connectors.interfaces.embedding import Matrix

BLOCK = 8192
"""Texts that are looked up, embedded and kept together: enough to form batches by length, and 12 MB of vectors."""


def embed_texts(
    embedder: Embedder, texts: Sequence[str], advance: Advance | None = None, kept: VectorStore | None = None
) -> Matrix:
    """Return one vector per text, float32 of shape (texts, dimension), in order; equal texts are embedded once.

    `advance` hears of every text. `kept`: texts whose vectors it has are not embedded again; never give it together
    with private texts. FinalError when the embedder returns the wrong number or length of vectors, or numbers that are
    not finite.
    """
    vectors = np.empty((len(texts), embedder.dimension), dtype=np.float32)
    start = 0
    for block in embed_blocks(embedder, texts, advance, kept):
        vectors[start : start + len(block)] = block
        start += len(block)
    return vectors


def embed_blocks(
    embedder: Embedder, texts: Sequence[str], advance: Advance | None = None, kept: VectorStore | None = None
) -> Iterator[Matrix]:
    """Yield the same vectors in blocks of at most `BLOCK` texts, one with no rows for no texts.

    No more is held than a block, and the vectors of texts that come again in a later one. What was embedded before a
    crash is kept.
    """
    last = {text: place // BLOCK for place, text in enumerate(texts)}
    held: dict[str, Matrix] = {}
    for number in range(max(1, -(-len(texts) // BLOCK))):
        block = texts[number * BLOCK : (number + 1) * BLOCK]
        different = [text for text in dict.fromkeys(block) if text not in held]
        vectors = dict(zip(different, _new(embedder, different, advance, kept), strict=True))
        yield np.array([held[text] if text in held else vectors[text] for text in block], np.float32).reshape(
            len(block), embedder.dimension
        )
        if advance is not None and len(block) > len(different):
            advance(len(block) - len(different))
        held |= {text: vectors[text].copy() for text in different if last[text] > number}


def _new(embedder: Embedder, texts: list[str], advance: Advance | None, kept: VectorStore | None) -> Matrix:
    known = kept.find(texts) if kept is not None else {}
    unknown = [place for place in range(len(texts)) if place not in known]
    vectors = np.empty((len(texts), embedder.dimension), dtype=np.float32)
    for place, vector in known.items():
        vectors[place] = vector
    if known and advance is not None:
        advance(len(known))
    if unknown:
        asked = [texts[place] for place in unknown]
        vectors[unknown] = _checked(embedder, embedder.embed(asked, advance), len(asked))
        if kept is not None:
            kept.keep(asked, vectors[unknown])
    return vectors


def _checked(embedder: Embedder, answer: Matrix, count: int) -> Matrix:
    vectors, expected = np.asarray(answer, dtype=np.float32), (count, embedder.dimension)
    if vectors.shape != expected:
        raise FinalError(
            f"Embedder '{embedder.name}' returned vectors of shape {vectors.shape} instead of {expected}. "
            "Check its model and its declared dimension."
        )
    broken = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(broken):
        raise FinalError(
            f"Embedder '{embedder.name}' returned infinite or missing numbers for {len(broken)} of {count} texts, "
            f"first at different text {broken[0]} (counted from 0). Check its weights, or its precision."
        )
    return vectors
