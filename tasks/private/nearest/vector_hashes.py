"""What a vote recognises vectors by: 64 bits of each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tasks.private.nearest.thread_pool import Crew

    Ints = NDArray[np.int64]
    Numbers = NDArray[np.uint64]
    Vectors = NDArray[np.float32]

Loop = Callable[..., None]
BLOCK: Final = 2048
SHARED: Final = 2**21
"""Components from which on it is worth it to share out."""


@dataclass(frozen=True, slots=True, eq=False)
class Marks:
    """The marks of `vectors` (n, d), `values` (n,): nothing until they are read. `loop`: compiled, the same numbers."""

    vectors: Vectors
    values: Numbers
    loop: Loop | None = None

    @classmethod
    def of(cls, vectors: Vectors, loop: Loop | None = None) -> Marks:
        """Return marks of these vectors, none of them read."""
        return cls(vectors, np.zeros(len(vectors), dtype=np.uint64), loop)

    def read(self, places: Ints | slice, crew: Crew | None = None) -> None:
        """Read the vectors at these places, side by side where they are many."""
        number = places.stop - places.start if isinstance(places, slice) else len(places)

        def work(start: int) -> None:
            part = slice(start, min(start + BLOCK, number))
            if isinstance(places, slice):
                self.take(np.arange(places.start + part.start, places.start + part.stop))
            else:
                self.take(places[part])

        starts = range(0, number, BLOCK)
        if crew is not None and number * self.vectors.shape[1] >= SHARED:
            crew.map(work, starts)
        else:
            for start in starts:
                work(start)

    def take(self, places: Ints) -> None:
        """Read the vectors at these places, which are few, or at hand anyway."""
        if self.loop and self.vectors.shape[1] % 2 == 0:
            self.loop(self.vectors.view(np.uint64), places, factors_of(self.vectors.shape[1] // 2), self.values)
        else:
            self.values[places] = marks_of(self.vectors[places])


def marks_of(vectors: Vectors) -> Numbers:
    """Return 64 bits of each vector, (n,).

    They notice what was embedded anew, not what somebody builds to escape them: votes on wrong vectors would be
    useless, and no less private. A cryptographic digest of all vectors would take a third of the time of the vote.
    """
    part = np.ascontiguousarray(vectors)
    return _sums(part.view(np.uint64) if part.shape[1] % 2 == 0 else part.view(np.uint32).astype(np.uint64))


def digest_of(numbers: Numbers) -> NDArray[np.uint8]:
    """Return 32 bytes that tell many numbers, in their order, as well as marks tell vectors."""
    whole = len(numbers) - len(numbers) % BLOCK
    state = hashlib.blake2b(_sums(numbers[:whole].reshape(-1, BLOCK)).tobytes(), digest_size=32)
    state.update(numbers[whole:].tobytes())
    return np.frombuffer(state.digest(), dtype=np.uint8)


def _sums(bits: Numbers) -> Numbers:
    """Return the sum of each line times fixed odd numbers, modulo 2^64: a change of one number always changes it."""
    return np.asarray(np.einsum("ij,j->i", bits, factors_of(bits.shape[1])))


@lru_cache(maxsize=8)
def factors_of(number: int) -> Numbers:
    """Return so many fixed odd numbers."""
    drawn = hashlib.shake_256(b"marks of vectors").digest(8 * number)
    return np.frombuffer(drawn, dtype="<u8").astype(np.uint64) | np.uint64(1)
