"""Embed synthetic and other non-private texts: each different text once, and nothing unusable passed on."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from connectors.base import Advance, Embedder, FinalError

if TYPE_CHECKING:
    from connectors.base import Matrix

REMEMBERED = 40_000
"""Most vectors that a process remembers for each embedder: 60 MB at 384 dimensions."""


class Memory:
    """Vectors of texts that were embedded in this process; the oldest go first. Safe for threads.

    Never give it private texts: they are embedded alone and kept in the private zone.
    """

    def __init__(self, most: int = REMEMBERED) -> None:
        self._most = most
        self._vectors: dict[bytes, Matrix] = {}
        self._lock = threading.Lock()

    def find(self, texts: Sequence[str]) -> dict[int, Matrix]:
        """Return the vectors that are known, by the place of their text."""
        with self._lock:
            found = {place: self._vectors.get(_digest(text)) for place, text in enumerate(texts)}
        return {place: vector for place, vector in found.items() if vector is not None}

    def keep(self, texts: Sequence[str], vectors: Matrix) -> None:
        """Remember vectors of texts."""
        with self._lock:
            for text, vector in zip(texts, vectors, strict=True):
                self._vectors[_digest(text)] = vector.copy()
            while len(self._vectors) > self._most:
                del self._vectors[next(iter(self._vectors))]


@lru_cache(maxsize=4)
def memory_of(identity: str) -> Memory:
    """Return this process' memory of an embedder: runs of a comparison draw the same recorded texts again and again."""
    del identity  # the name of the memory, and nothing in it
    return Memory()


def embed_texts(
    embedder: Embedder, texts: Sequence[str], advance: Advance | None = None, memory: Memory | None = None
) -> Matrix:
    """Return one vector per text, float32 of shape (texts, dimension), in order; equal texts are embedded once.

    `advance` hears of every text, repeated ones at the end. `memory`: texts that it knows are not embedded again.
    FinalError when the embedder returns the wrong number or length of vectors, or numbers that are not finite.
    """
    place: dict[str, int] = {}
    for text in texts:
        place.setdefault(text, len(place))
    if not place:
        return np.zeros((0, embedder.dimension), dtype=np.float32)
    vectors = _remembered(embedder, list(place), advance, memory or Memory(0))
    if advance is not None and len(texts) > len(place):
        advance(len(texts) - len(place))
    return np.asarray(vectors[[place[text] for text in texts]])


def _remembered(embedder: Embedder, texts: list[str], advance: Advance | None, memory: Memory) -> Matrix:
    known = memory.find(texts)
    new = [place for place in range(len(texts)) if place not in known]
    vectors = np.empty((len(texts), embedder.dimension), dtype=np.float32)
    for place, vector in known.items():
        vectors[place] = vector
    if known and advance is not None:
        advance(len(known))
    if new:
        asked = [texts[place] for place in new]
        vectors[new] = _checked(embedder, embedder.embed(asked, advance), len(asked))
        memory.keep(asked, vectors[new])
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


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
