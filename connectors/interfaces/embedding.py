"""Protocols of embedders and of the cache of their vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]
    """Embeddings, shape (texts, dimension), float32."""
else:
    Matrix = Any


class Embedder(Protocol):
    """Texts to vectors."""

    @property
    def name(self) -> str:
        """Readable name."""

    @property
    def identity(self) -> str:
        """Everything that determines a vector besides the text, with a digest of the weights."""

    @property
    def dimension(self) -> int:
        """Length of a vector."""

    def embed(self, texts: Sequence[str], advance: Callable[[int], None] | None = None) -> Matrix:
        """Return float32 vectors, shape (texts, dimension), in order; `advance(n)` after each batch of n texts."""

    def embed_alone(self, texts: Sequence[str]) -> Matrix:
        """As `embed`, each text encoded by itself: a vector depends on its own text alone, bit for bit."""


class VectorStore(Protocol):
    """Vectors of texts that are not private, by one embedder, kept from run to run."""

    def find(self, texts: Sequence[str]) -> dict[int, Matrix]:
        """Return the vectors that are kept, by the place of their text."""

    def keep(self, texts: Sequence[str], vectors: Matrix) -> None:
        """Keep the vectors of texts."""
