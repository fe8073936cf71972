"""Embed synthetic and other non-private texts: each different text once, and nothing unusable passed on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from connectors.base import Advance, Embedder, FinalError

if TYPE_CHECKING:
    from connectors.base import Matrix


def embed_texts(embedder: Embedder, texts: Sequence[str], advance: Advance | None = None) -> Matrix:
    """Return one vector per text, float32 of shape (texts, dimension), in order; equal texts are embedded once.

    `advance` hears of every text, repeated ones at the end. FinalError when the embedder returns the wrong number or
    length of vectors, or numbers that are not finite.
    """
    place: dict[str, int] = {}
    for text in texts:
        place.setdefault(text, len(place))
    if not place:
        return np.zeros((0, embedder.dimension), dtype=np.float32)
    vectors = _checked(embedder, embedder.embed(list(place), advance), len(place))
    if advance is not None and len(texts) > len(place):
        advance(len(texts) - len(place))
    return np.asarray(vectors[[place[text] for text in texts]])


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
