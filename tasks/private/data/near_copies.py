"""Keyed sketches of texts, by which the ledger recognises near copies without storing a text.

A text is the set of its runs of five characters, without case and punctuation. Minima of keyed hash functions agree
with the probability of the Jaccard similarity (Broder, 1997); bands of four minima agree for similar texts (Leskovec
et al., Mining of Massive Datasets, section 3.4). A dataset keeps the smallest bands (bottom-k), so its sketch is small.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SHINGLE = 5
LONGEST = 500
"""Characters of a text that are compared, from its start."""
_BETWEEN_WORDS = re.compile(r"[\W_]+")
BANDS, PER_BAND = 8, 4
"""Two texts share a band with probability 1 - (1 - J^4)^8: 0.99 at Jaccard similarity J = 0.8, 0.06 at 0.3."""


def sketch(texts: Iterable[str], key: bytes, size: int) -> tuple[str, ...]:
    """Return the `size` smallest band hashes of all texts, 16 hexadecimal digits each, sorted."""
    stream = np.frombuffer(hashlib.shake_256(b"wasp near copies 1\n" + key).digest(8 * 80), dtype=np.uint64)
    powers, odd, shift = stream[:SHINGLE], stream[8 : 8 + BANDS * PER_BAND] | np.uint64(1), stream[40:72]
    bands: set[str] = set()
    for text in texts:
        shingles = _shingles(text, powers)
        minima = (shingles[:, None] * odd + shift).min(axis=0).reshape(BANDS, PER_BAND)
        for number, band in enumerate(minima):
            bands.add(hashlib.blake2b(bytes([number]) + band.tobytes(), key=key, digest_size=8).hexdigest())
    return tuple(sorted(bands)[:size])


def _shingles(text: str, powers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return one keyed hash per run of `SHINGLE` characters; at least one."""
    folded = unicodedata.normalize("NFKC", text[: 2 * LONGEST]).casefold()
    plain = _BETWEEN_WORDS.sub(" ", folded).strip()[:LONGEST]
    codes = np.frombuffer(plain.ljust(SHINGLE).encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.uint64)
    windows = np.lib.stride_tricks.sliding_window_view(codes, SHINGLE)
    mixed: NDArray[np.uint64] = (windows * powers).sum(axis=1, dtype=np.uint64)
    mixed ^= mixed >> np.uint64(31)
    return mixed * np.uint64(0x9E3779B97F4A7C15)
