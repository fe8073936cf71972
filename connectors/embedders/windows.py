"""Vectors of texts that are longer than an encoder reads: the mean of their windows.

A record has one vector of length 1, however many windows it has. So it moves a sum of vectors no further than a short
record does, and the noise of a release stays the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from connectors.interfaces.embedding import Matrix


def join_windows(vectors: Matrix, tokens: Sequence[Sequence[int]]) -> Matrix:
    """Return one vector of length 1 per text: the mean of its windows, weighted by their tokens.

    Args:
        vectors: vectors of length 1 of all windows, text after text.
        tokens: number of tokens of each window, by text; each text has a window.

    Returns:
        Shape (texts, dimension). A text of one window keeps its vector bit for bit, and no vector depends on another
        text.
    """
    import numpy as np

    joined = np.empty((len(tokens), vectors.shape[1]), dtype=np.float32)
    start = 0
    for row, of_text in enumerate(tokens):
        windows = vectors[start : start + len(of_text)]
        start += len(of_text)
        if len(of_text) == 1:
            joined[row] = windows[0]
            continue
        # In 64 bits: the length of a long text's mean is exact to the last digit of 32 bits.
        weights = np.array(of_text, dtype=np.float64)[:, None]
        total = (weights * windows).sum(axis=0)
        # Opposite windows can cancel out: the zero vector, which has no direction.
        joined[row] = total / max(float(np.linalg.norm(total)), float(np.finfo(np.float64).tiny))
    return joined
