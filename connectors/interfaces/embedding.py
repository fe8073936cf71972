"""Protocol of embedders."""

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
    """A function from texts to vectors."""

    @property
    def name(self) -> str:
        """Readable name."""

    @property
    def identity(self) -> str:
        """All settings besides the text that affect a vector, with the weights' digest."""

    @property
    def dimension(self) -> int:
        """Length of a vector."""

    def embed(self, texts: Sequence[str], advance: Callable[[int], None] | None = None) -> Matrix:
        """Return float32 vectors, shape (texts, dimension), in order.

        Calls `advance(n)` after each batch of n texts.
        """

    def embed_alone(self, texts: Sequence[str]) -> Matrix:
        """Embed each text separately: no vector depends on other texts, bit for bit."""
