"""Embedding of non-private texts: each distinct text once, with checks."""

from collections.abc import Iterator, Sequence

import numpy as np

from connectors.interfaces.embedding import Embedder, Matrix
from connectors.interfaces.errors import FinalError
from connectors.interfaces.progress import Advance

BLOCK = 8192
"""Texts per block: enough to form batches by length, with 12 MB of vectors."""


def embed_texts(embedder: Embedder, texts: Sequence[str], advance: Advance | None = None) -> Matrix:
    """Return one vector per text in order, float32 of shape (texts, dimension).

    Equal texts are embedded once; `advance` is called for every text. Raises FinalError if the embedder returns vectors
    of a wrong shape or with non-finite numbers.
    """
    vectors = np.empty((len(texts), embedder.dimension), dtype=np.float32)
    start = 0
    for block in embed_blocks(embedder, texts, advance):
        vectors[start : start + len(block)] = block
        start += len(block)
    return vectors


def embed_blocks(
    embedder: Embedder, texts: Sequence[str], advance: Advance | None = None
) -> Iterator[Matrix]:
    """Yield the vectors of `embed_texts` in blocks of at most `BLOCK` texts; no texts yield one empty block.

    Memory contains one block and the vectors of texts that recur in later blocks.
    """
    last = {text: index // BLOCK for index, text in enumerate(texts)}
    recurring: dict[str, Matrix] = {}
    for number in range(max(1, -(-len(texts) // BLOCK))):
        block = texts[number * BLOCK : (number + 1) * BLOCK]
        distinct = [text for text in dict.fromkeys(block) if text not in recurring]
        vectors: dict[str, Matrix] = {}
        # Without new texts the model is not loaded.
        if distinct:
            computed = _checked(embedder, embedder.embed(distinct, advance), len(distinct))
            vectors = dict(zip(distinct, computed, strict=True))
        rows = [recurring[text] if text in recurring else vectors[text] for text in block]
        # An array of no rows states no dimension.
        yield np.array(rows, np.float32).reshape(len(block), embedder.dimension)
        if advance is not None and len(block) > len(distinct):
            advance(len(block) - len(distinct))
        # Copies: a row of the block's matrix would keep all of it in memory.
        recurring |= {text: vectors[text].copy() for text in distinct if last[text] > number}


def _checked(embedder: Embedder, output: Matrix, count: int) -> Matrix:
    vectors = np.asarray(output, dtype=np.float32)
    expected = (count, embedder.dimension)
    if vectors.shape != expected:
        raise FinalError(
            f"Embedder '{embedder.name}' returned vectors of shape {vectors.shape} instead of {expected}. "
            "Check its model and its declared dimension."
        )
    broken = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(broken):
        raise FinalError(
            f"Embedder '{embedder.name}' returned infinite or missing numbers for {len(broken)} of {count} texts, "
            f"first at distinct text {broken[0]} (counted from 0). Check its weights, or its precision."
        )
    return vectors
