"""Exact comparison of one class's private rows with its candidates, block by block, with numpy only.

Used for small votes, and as the fallback of every faster method for rows that its proof does not cover.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tasks.private.nearest.vector_hashes import VectorHashes

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Vectors = NDArray[np.float32]

ANY: Final = 2**40
"""Block width without a limit, more than any number of candidates: the comparison chooses the width."""
ROW_BLOCK: Final = 512
PAIR_BLOCK: Final = 4096
TILE: Final = 2**20
"""Distances per block; bounds the memory for any number of rows and candidates."""
MEMBERS: Final = 16
"""Candidates per set when the worst distance of a list is estimated."""


@dataclass(frozen=True, slots=True, eq=False)
class CandidateArrays:
    """Candidates as the comparison reads them: `vectors` (n, d), `ids` (n,), `squares` (n,) of their lengths.

    `hashes`: computed while the vectors are in the CPU cache; None if they are computed elsewhere.
    """

    vectors: Vectors
    ids: Ints
    squares: Vectors
    hashes: VectorHashes | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """One class: indices of its private rows and of its candidates (a slice if these are contiguous).

    `with_hashes`: whether the candidates' hashes are computed with these rows, not with other rows of the class.
    """

    rows: Ints
    members: Ints | slice
    with_hashes: bool = True

    @property
    def size(self) -> int:
        """Number of candidates."""
        members = self.members
        return members.stop - members.start if isinstance(members, slice) else len(members)

    @property
    def start(self) -> int:
        """First number of the candidates: their first index if contiguous, otherwise 0."""
        return self.members.start if isinstance(self.members, slice) else 0

    def part(self, start: int, stop: int) -> Ints | slice:
        """Return the indices of candidates `start` to `stop`."""
        members = self.members
        if isinstance(members, slice):
            return slice(members.start + start, min(members.start + stop, members.stop))
        return members[start:stop]

    def parts(self, begin: int, end: int, width: int) -> Iterator[tuple[int, Ints | slice]]:
        """Yield (number of the first, indices) of candidates `begin` to `end`, in blocks.

        A block has `width` candidates. Numbers count from `start`; an `end` beyond the last candidate means the last.
        """
        stop = min(end, self.size)
        for first in range(begin, stop, width):
            yield self.start + first, self.part(first, min(first + width, stop))

    def to_indices(self, numbers: Ints) -> None:
        """Replace numbers of candidates, counted from `start`, by indices; -1 stays -1."""
        if not isinstance(self.members, slice):
            numbers[:] = np.where(numbers < 0, -1, self.members[numbers])


@dataclass(frozen=True, slots=True, eq=False)
class Best:
    """Lists of best candidates, updated in place; `sign` 1 collects small distances, -1 large ones."""

    ids: Ints
    keys: Floats
    sign: int

    def limit(self, rows: Ints, squares: Floats, margin: Floats) -> Floats:
        """Return per row the largest rounded value of a possible list member."""
        return np.asarray(self.keys[rows, -1] - self.sign * squares + margin)

    def hits(self, rows: Ints, rounded: Vectors, squares: Floats, margin: Floats) -> tuple[Ints, Ints]:
        """Return (row, column) of all entries of `rounded` that could belong to the lists."""
        signed = rounded if self.sign > 0 else -rounded
        limit = np.minimum(self.limit(rows, squares, margin), _reached(signed, self.keys.shape[1]) + 2 * margin)
        improved = np.flatnonzero(signed.min(axis=1) <= limit)
        hit_rows, columns = np.nonzero(signed[improved] <= round_up(limit[improved])[:, None])
        return improved[hit_rows], columns

    def merge(self, rows: Ints, distances: Floats, ids: Ints) -> None:
        """Insert candidates `ids` at `distances` into the lists of `rows`; equal lengths."""
        changed, votes = np.unique(rows), self.keys.shape[1]
        all_rows = np.concatenate([np.repeat(changed, votes), rows])
        all_keys = np.concatenate([self.keys[changed].ravel(), self.sign * distances])
        all_ids = np.concatenate([self.ids[changed].ravel(), ids])
        order = np.lexsort((all_ids, all_keys, all_rows))
        first = np.searchsorted(all_rows[order], changed)
        best = order[first[:, None] + np.arange(votes)]
        self.ids[changed], self.keys[changed] = all_ids[best], all_keys[best]


def as_indices(members: Ints | slice) -> Ints:
    """Return the indices as an array."""
    return np.arange(members.start, members.stop) if isinstance(members, slice) else members


def as_slice(indices: Ints) -> Ints | slice:
    """Return ascending indices as a slice if they are contiguous."""
    if not len(indices):
        return slice(0, 0)
    first, last = int(indices[0]), int(indices[-1])
    return slice(first, last + 1) if last - first + 1 == len(indices) else indices


def compare(vectors: Vectors, arrays: CandidateArrays, group: Group, lists: Sequence[Best], block: int) -> None:
    """Update the lists of the group's rows with its candidates, `block` at a time."""
    for start in range(0, len(group.rows), ROW_BLOCK):
        rows = group.rows[start : start + ROW_BLOCK]
        mine = vectors[rows]
        own = np.einsum("ij,ij->i", mine, mine, dtype=np.float64)
        margin = margins(own, longest(arrays, group), vectors.shape[1])
        width = max(1, min(block, TILE // len(rows)))
        for _, members in group.parts(0, group.size, width):
            theirs, ids = arrays.vectors[members], arrays.ids[members]
            rounded: Vectors = np.matmul(mine * np.float32(-2), theirs.T)
            rounded += arrays.squares[members]
            for best in lists:
                hits, columns = best.hits(rows, rounded, own, margin)
                if len(hits):
                    best.merge(rows[hits], distances(mine, theirs, hits, columns), ids[columns])


def longest(arrays: CandidateArrays, group: Group) -> float:
    """Return the length of the group's longest candidate."""
    return float(np.sqrt(np.float64(arrays.squares[group.members].max(initial=0.0))))


def margins(squares: Floats, longest: Floats | float, dimension: int) -> Floats:
    """Bound the error of a rounded or float64 distance, for any order of summation.

    squares: the rows' squared lengths; longest: the length of the longest candidate, per row or overall. A float32
    product of two vectors errs by at most d * 2^-24 * |x||y|, and so does a square (Higham 2002, section 3.1); the
    bound is doubled throughout. The last term covers values too small for float32.
    """
    lengths = np.sqrt(squares)
    product = (dimension + 8) * (2.0**-22 * lengths * longest + 2.0**-23 * longest**2)
    measured = (dimension + 8) * 2.0**-50 * (lengths + longest) ** 2
    return np.asarray(product + measured + (dimension + 8) * 2.0**-124)


def distances(mine: Vectors, theirs: Vectors, rows: Ints, columns: Ints) -> Floats:
    """Return squared distances of pairs, float64, summed in order of components."""
    result = np.empty(len(rows))
    for start in range(0, len(rows), PAIR_BLOCK):
        part = slice(start, start + PAIR_BLOCK)
        gap = mine[rows[part]].astype(np.float64) - theirs[columns[part]]
        # A running sum has one order by definition; a plain sum may choose its order by the shape of the block.
        result[part] = np.add.accumulate(gap * gap, axis=1)[:, -1] if gap.shape[1] else 0.0
    return result


def round_up(limit: Floats) -> Vectors:
    """Return limits as float32, rounded up: a value at the limit is strictly below it."""
    return np.nextafter(limit.astype(np.float32), np.float32(np.inf))


def _reached(signed: Vectors, votes: int) -> Floats:
    """Return per row a value that at least `votes` entries reach; inf if too few.

    The minima of many sets of columns are at least `votes` different entries, and far fewer to sort.
    """
    rows, width = signed.shape
    sets = width // MEMBERS if width // MEMBERS >= 2 * votes else width
    if sets < votes:
        return np.full(rows, np.inf)
    set_size = width // sets
    smallest = signed[:, : sets * set_size].reshape(rows, set_size, sets).min(axis=1)
    return np.asarray(np.partition(smallest, votes - 1, axis=1)[:, votes - 1], dtype=np.float64)
