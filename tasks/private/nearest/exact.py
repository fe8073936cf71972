"""One class's private rows against its candidates, exactly, in the plain way: numpy alone, block after block.

What every other way falls back on where its own proof does not reach, and the way of small elections.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tasks.private.nearest.vector_hashes import Marks

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Vectors = NDArray[np.float32]

ANY: Final = 2**40
"""A width of blocks that leaves the choice to whoever compares; more than there are candidates."""
ROW_BLOCK: Final = 512
PAIR_BLOCK: Final = 4096
TILE: Final = 2**20
"""Distances that are looked at together, so that memory does not grow with either side."""
MEMBERS: Final = 16
"""Candidates that stand for each other where the worst distance of a list is guessed."""


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """Candidates as the comparison reads them: `vectors` (n, d), `ids` (n,), `squares` (n,) of their lengths.

    `marks`: to be read of what is compared while it is at hand; None where somebody else reads them.
    """

    vectors: Vectors
    ids: Ints
    squares: Vectors
    marks: Marks | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """One class: places of its private rows, and of its candidates; a slice where those lie together.

    `marking`: whether marks of the candidates are read together with these rows, not with others of the class.
    """

    rows: Ints
    members: Ints | slice
    marking: bool = True

    @property
    def size(self) -> int:
        """How many candidates it has."""
        whole = self.members
        return whole.stop - whole.start if isinstance(whole, slice) else len(whole)

    @property
    def start(self) -> int:
        """What to count its candidates from so that numbers are places, if they lie together; otherwise 0."""
        return self.members.start if isinstance(self.members, slice) else 0

    def part(self, start: int, stop: int) -> Ints | slice:
        """Return the places of candidates `start` to `stop`."""
        whole = self.members
        if isinstance(whole, slice):
            return slice(whole.start + start, min(whole.start + stop, whole.stop))
        return whole[start:stop]

    def parts(self, begin: int, end: int, width: int) -> Iterator[tuple[int, Ints | slice]]:
        """Return the places of candidates `begin` to `end`, `width` at a time, with the number of each first one.

        Numbers count from `start`; an `end` beyond the last candidate means the last.
        """
        stop = min(end, self.size)
        for first in range(begin, stop, width):
            yield self.start + first, self.part(first, min(first + width, stop))

    def name(self, numbers: Ints) -> None:
        """Turn numbers of its candidates, counted from `start`, into their places; -1 stays what it is."""
        if not isinstance(self.members, slice):
            numbers[:] = np.where(numbers < 0, -1, self.members[numbers])


@dataclass(frozen=True, slots=True, eq=False)
class Best:
    """Lists that are being filled in place; `sign` 1 looks for small distances, -1 for large ones."""

    ids: Ints
    keys: Floats
    sign: int

    def limit(self, rows: Ints, squares: Floats, margin: Floats) -> Floats:
        """Return what a rounded value of each row may be at most, if its candidate belongs to the list."""
        return np.asarray(self.keys[rows, -1] - self.sign * squares + margin)

    def hits(self, rows: Ints, rounded: Vectors, squares: Floats, margin: Floats) -> tuple[Ints, Ints]:
        """Return (row, column) of all entries of `rounded` that could belong to the lists of the rows at `rows`."""
        signed = rounded if self.sign > 0 else -rounded
        limit = np.minimum(self.limit(rows, squares, margin), _reached(signed, self.keys.shape[1]) + 2 * margin)
        improved = np.flatnonzero(signed.min(axis=1) <= limit)
        found, columns = np.nonzero(signed[improved] <= up(limit[improved])[:, None])
        return improved[found], columns

    def merge(self, rows: Ints, distances: Floats, ids: Ints) -> None:
        """Put candidates `ids` at `distances` into the lists of the rows at `rows`; all three have one length."""
        changed, votes = np.unique(rows), self.keys.shape[1]
        all_rows = np.concatenate([np.repeat(changed, votes), rows])
        all_keys = np.concatenate([self.keys[changed].ravel(), self.sign * distances])
        all_ids = np.concatenate([self.ids[changed].ravel(), ids])
        order = np.lexsort((all_ids, all_keys, all_rows))
        first = np.searchsorted(all_rows[order], changed)
        best = order[first[:, None] + np.arange(votes)]
        self.ids[changed], self.keys[changed] = all_ids[best], all_keys[best]


def listed(members: Ints | slice) -> Ints:
    """Return places one by one."""
    return np.arange(members.start, members.stop) if isinstance(members, slice) else members


def together(places: Ints) -> Ints | slice:
    """Return ascending places as a slice, if they lie together."""
    if not len(places):
        return slice(0, 0)
    first, last = int(places[0]), int(places[-1])
    return slice(first, last + 1) if last - first + 1 == len(places) else places


def compare(vectors: Vectors, standing: Standing, group: Group, lists: Sequence[Best], block: int) -> None:
    """Bring the lists of the group's rows up to date with all of its candidates, `block` of them at a time."""
    for start in range(0, len(group.rows), ROW_BLOCK):
        rows = group.rows[start : start + ROW_BLOCK]
        mine = vectors[rows]
        own = np.einsum("ij,ij->i", mine, mine, dtype=np.float64)
        margin = margins(own, longest(standing, group), vectors.shape[1])
        width = max(1, min(block, TILE // len(rows)))
        for _, members in group.parts(0, group.size, width):
            theirs, ids = standing.vectors[members], standing.ids[members]
            rounded: Vectors = np.matmul(mine * np.float32(-2), theirs.T)
            rounded += standing.squares[members]
            for best in lists:
                found, columns = best.hits(rows, rounded, own, margin)
                if len(found):
                    best.merge(rows[found], distances(mine, theirs, found, columns), ids[columns])


def longest(standing: Standing, group: Group) -> float:
    """Return the length of the group's longest candidate."""
    return float(np.sqrt(np.float64(standing.squares[group.members].max(initial=0.0))))


def margins(squares: Floats, longest: Floats | float, dimension: int) -> Floats:
    """Bound how far a rounded distance, or the float64 one, may lie from the true one; any order of summation.

    squares: of the rows' lengths; longest: the longest of each row's candidates, or of all. A float32 product of two
    vectors errs by at most d * 2^-24 * |x||y|, and so does a square (Higham 2002, section 3.1); doubled throughout. The
    last term is for what is too small for float32.
    """
    lengths = np.sqrt(squares)
    product = (dimension + 8) * (2.0**-22 * lengths * longest + 2.0**-23 * longest**2)
    measured = (dimension + 8) * 2.0**-50 * (lengths + longest) ** 2
    return np.asarray(product + measured + (dimension + 8) * 2.0**-124)


def distances(mine: Vectors, theirs: Vectors, rows: Ints, columns: Ints) -> Floats:
    """Return squared distances of pairs, float64, summed from the first component to the last."""
    result = np.empty(len(rows))
    for start in range(0, len(rows), PAIR_BLOCK):
        part = slice(start, start + PAIR_BLOCK)
        gap = mine[rows[part]].astype(np.float64) - theirs[columns[part]]
        # A running sum has one order by definition; a plain sum may choose its order by the shape of the block.
        result[part] = np.add.accumulate(gap * gap, axis=1)[:, -1] if gap.shape[1] else 0.0
    return result


def up(limit: Floats) -> Vectors:
    """Return limits as float32, rounded upwards: what lies at the limit is strictly below the result."""
    return np.nextafter(limit.astype(np.float32), np.float32(np.inf))


def _reached(signed: Vectors, votes: int) -> Floats:
    """Return for each row a value that at least `votes` entries reach; infinite where there are too few.

    The smallest of each of many sets of columns are `votes` entries, too, and far fewer to sort.
    """
    rows, width = signed.shape
    sets = width // MEMBERS if width // MEMBERS >= 2 * votes else width
    if sets < votes:
        return np.full(rows, np.inf)
    each = width // sets
    smallest = signed[:, : sets * each].reshape(rows, each, sets).min(axis=1)
    return np.asarray(np.partition(smallest, votes - 1, axis=1)[:, votes - 1], dtype=np.float64)
