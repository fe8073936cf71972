"""64-bit hashes of vectors; they detect candidates that an earlier vote has already compared."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tasks.private.nearest.thread_pool import ThreadPool

    Ints = NDArray[np.int64]
    Numbers = NDArray[np.uint64]
    Vectors = NDArray[np.float32]

Loop = Callable[..., None]
BLOCK: Final = 2048
SHARED: Final = 2**21
"""Components from which on threads share the work."""


@dataclass(frozen=True, slots=True, eq=False)
class VectorHashes:
    """The hashes `values` (n,) of `vectors` (n, d), zero until computed; `loop`: compiled variant, same results."""

    vectors: Vectors
    values: Numbers
    loop: Loop | None = None

    @classmethod
    def of(cls, vectors: Vectors, loop: Loop | None = None) -> VectorHashes:
        """Return hashes of these vectors, none of them computed yet."""
        return cls(vectors, np.zeros(len(vectors), dtype=np.uint64), loop)

    def compute(self, indices: Ints | slice, pool: ThreadPool | None = None) -> None:
        """Compute the hashes at these indices, in several threads if they are many."""
        number = indices.stop - indices.start if isinstance(indices, slice) else len(indices)

        def work(start: int) -> None:
            part = slice(start, min(start + BLOCK, number))
            if isinstance(indices, slice):
                self.compute_block(np.arange(indices.start + part.start, indices.start + part.stop))
            else:
                self.compute_block(indices[part])

        starts = range(0, number, BLOCK)
        if pool is not None and number * self.vectors.shape[1] >= SHARED:
            pool.map(work, starts)
        else:
            for start in starts:
                work(start)

    def compute_block(self, indices: Ints) -> None:
        """Compute the hashes at these indices in one thread."""
        if self.loop and self.vectors.shape[1] % 2 == 0:
            self.loop(self.vectors.view(np.uint64), indices, factors_of(self.vectors.shape[1] // 2), self.values)
        else:
            self.values[indices] = hashes_of(self.vectors[indices])


def hashes_of(vectors: Vectors) -> Numbers:
    """Return 64 bits of each vector, (n,).

    They detect re-embedded vectors, not deliberate collisions: votes on wrong vectors would be useless, but no less
    private. A cryptographic digest of all vectors would take a third of the time of the vote.
    """
    part = np.ascontiguousarray(vectors)
    return _sums(part.view(np.uint64) if part.shape[1] % 2 == 0 else part.view(np.uint32).astype(np.uint64))


def digest_of(numbers: Numbers) -> NDArray[np.uint8]:
    """Return a 32-byte digest of a sequence; as strong as the hashes of vectors."""
    whole = len(numbers) - len(numbers) % BLOCK
    state = hashlib.blake2b(_sums(numbers[:whole].reshape(-1, BLOCK)).tobytes(), digest_size=32)
    state.update(numbers[whole:].tobytes())
    return np.frombuffer(state.digest(), dtype=np.uint8)


def _sums(bits: Numbers) -> Numbers:
    """Return the sum of each line times fixed odd numbers, modulo 2^64.

    A change of one number always changes the sum.
    """
    return np.asarray(np.einsum("ij,j->i", bits, factors_of(bits.shape[1])))


@lru_cache(maxsize=8)
def factors_of(number: int) -> Numbers:
    """Return `number` fixed odd numbers."""
    stream = hashlib.shake_256(b"marks of vectors").digest(8 * number)
    return np.frombuffer(stream, dtype="<u8").astype(np.uint64) | np.uint64(1)
