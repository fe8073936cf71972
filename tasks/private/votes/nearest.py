"""Exact search for the nearest and furthest candidates of every private row, ordered by (distance, id).

A float32 matrix product only proposes candidates. Every candidate whose rounded distance is within a proven error bound
of the end of the list is measured again in float64, component by component in fixed order. A row's list is therefore a
function of that row and the candidates only, bit for bit: block sizes, other rows, exact duplicates and the kernel of
the product cannot change it. Memory beyond the rows and their lists does not grow with the number of candidates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from connectors.interfaces.errors import ConfigError
from tasks.private.rows.quarantine import Unprintable
from tasks.private.votes.ballot import Ballot, Candidates, usable

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Vectors = NDArray[np.float32]

ROWS: Final = 512
COLUMNS: Final = 4096
"""Rows and candidates of one matrix product."""
SETS: Final = 256
"""Sets into which the candidates of a product are divided; only sets with a near candidate are read again."""
PENDING: Final = 2**20
"""Number of proposals per side that are measured at the latest; bounds the memory."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Ranking(Unprintable):
    """Every private row's best candidates; as private as the rows.

    `near_ids`, `far_ids` (M, Q): ids, best first, -1 where the class has fewer. `near_keys`, `far_keys` (M, Q):
    squared distances, negated for far (smaller is better), infinite where the id is -1.
    """

    near_ids: Ints
    near_keys: Floats
    far_ids: Ints
    far_keys: Floats

    __reduce__ = Unprintable.__reduce__
    __getstate__ = Unprintable.__reduce__


def rank(ballot: Ballot, candidates: Candidates, block: int = COLUMNS) -> Ranking:
    """Return each row's nearest and furthest candidates of its class.

    WASP section 3.2. Each list has `ballot.votes` candidates. With a ballot of one side the far lists stay empty. A row
    without candidates, or whose vector is not finite, gets empty lists: no row can make this fail. `block`: number of
    candidates per matrix product; it never changes a list. Raises ConfigError for unequal dimensions.
    """
    if ballot.vectors.shape[1] != candidates.vectors.shape[1]:
        raise ConfigError(
            "Private rows and candidates have vectors of different dimensions; use the same embedder."
        )
    shape = 2, len(ballot.labels), ballot.votes
    ids = np.full(shape, -1, dtype=np.int64)
    keys = np.full(shape, np.inf)
    for rows, members in _classes(ballot, candidates):
        for side, best in enumerate(_compare(ballot, rows, candidates, members, block)):
            ids[side, rows] = best.ids
            keys[side, rows] = best.keys
    return Ranking(ids[0], keys[0], ids[1], keys[1])


def _classes(ballot: Ballot, candidates: Candidates) -> Iterator[tuple[Ints, Ints]]:
    """Yield the indices of the private rows and of the candidates of every class that has both."""
    codes: dict[str, int] = {}
    labels = candidates.labels.tolist()
    of_candidates = np.fromiter(
        (codes.setdefault(str(label), len(codes)) for label in labels), np.int64, len(labels)
    )
    of_rows = np.array([codes.get(label, -1) for label in ballot.labels], dtype=np.int64)
    of_rows[~usable(ballot.vectors)] = -1
    for code in np.unique(of_rows[of_rows >= 0]):
        yield np.flatnonzero(of_rows == code), np.flatnonzero(of_candidates == code)


def _compare(
    ballot: Ballot, rows: Ints, candidates: Candidates, members: Ints, block: int
) -> list[_Best]:
    """Return the lists of these rows among these candidates."""
    mine = ballot.vectors[rows]
    squares = candidates.squares[members]
    own = np.einsum("ij,ij->i", mine, mine, dtype=np.float64)
    margin = margins(own, float(np.sqrt(np.float64(squares.max()))), mine.shape[1])
    lists = [_Best(sign, ballot.votes, own, margin) for sign in (1, -1)[: ballot.sides]]
    left = np.hstack([mine * np.float32(-2), np.ones((len(mine), 1), np.float32)])
    for first in range(0, len(members), block):
        part = members[first : first + block]
        right = np.hstack([candidates.vectors[part], candidates.squares[part, None]]).T
        for start in range(0, len(mine), ROWS):
            # -2xy + |y|^2: the squared distance without |x|^2, which is equal for all candidates of a row.
            rounded = left[start : start + ROWS] @ right
            for best in lists:
                best.propose(start, rounded, part)
                if best.waiting > PENDING:
                    best.settle(mine, candidates)
    for best in lists:
        best.settle(mine, candidates)
    return lists


@dataclass(slots=True, eq=False)
class _Best:
    """Lists of the rows of one class on one side; `sign` 1 collects small distances, -1 large ones.

    `squares`, `margin` (m,): squared lengths of the rows and error bounds. `reached` (m, Q): the smallest rounded
    values seen of Q different candidates. `pending`: (row, candidate, rounded value) of proposals not measured yet.
    """

    sign: int
    votes: int
    squares: Floats
    margin: Floats
    ids: Ints = field(init=False)
    keys: Floats = field(init=False)
    reached: Vectors = field(init=False)
    pending: list[tuple[Ints, Ints, Vectors]] = field(default_factory=list)
    waiting: int = 0

    def __post_init__(self) -> None:
        shape = len(self.squares), self.votes
        self.ids = np.full(shape, -1, dtype=np.int64)
        self.keys = np.full(shape, np.inf)
        self.reached = np.full(shape, np.inf, dtype=np.float32)

    def propose(self, start: int, rounded: Vectors, members: Ints) -> None:
        """Add the candidates of a product that may belong to the lists of the rows from `start` on."""
        rows = slice(start, start + len(rounded))
        width = rounded.shape[1]
        sets = min(width, max(SETS, 2 * self.votes))
        best = rounded[:, :sets].copy()
        for first in range(sets, width, sets):
            part = rounded[:, first : first + sets]
            target = best[:, : part.shape[1]]
            nearer: np.ufunc = np.minimum
            if self.sign < 0:
                nearer = np.maximum
            nearer(target, part, out=target)
        best *= np.float32(self.sign)
        self._reach(rows, best)
        limit = self._limit(rows)
        row, column = np.nonzero(best <= limit[:, None])
        columns = column[:, None] + np.arange(0, width, sets)
        values = self.sign * rounded[row[:, None], np.minimum(columns, width - 1)]
        hits = np.nonzero((values <= limit[row, None]) & (columns < width))
        self.pending.append((start + row[hits[0]], members[columns[hits]], values[hits]))
        self.waiting += len(hits[0])

    def settle(self, mine: Vectors, candidates: Candidates) -> None:
        """Measure the pending proposals and put them into the lists, ordered by (distance, id)."""
        if not self.pending:
            return
        rows, members, values = (np.concatenate(parts) for parts in zip(*self.pending, strict=True))
        # The lists have improved since these were proposed, and many are out of reach now.
        possible = values <= self._limit(slice(None))[rows]
        rows, members = rows[possible], members[possible]
        measured = self.sign * distances(mine, candidates.vectors, rows, members)
        self.pending = []
        self.waiting = 0
        changed = np.unique(rows)
        all_rows = np.concatenate([np.repeat(changed, self.votes), rows])
        all_keys = np.concatenate([self.keys[changed].ravel(), measured])
        all_ids = np.concatenate([self.ids[changed].ravel(), candidates.ids[members]])
        # The last key of lexsort is its first: by row, then distance, then id, which decides equal distances.
        order = np.lexsort((all_ids, all_keys, all_rows))
        best = order[np.searchsorted(all_rows[order], changed)[:, None] + np.arange(self.votes)]
        self.ids[changed] = all_ids[best]
        self.keys[changed] = all_keys[best]

    def _reach(self, rows: slice, values: Vectors) -> None:
        """Lower the values that Q candidates reach; `values` are those of different candidates."""
        last = self.votes - 1
        smallest = values
        # `partition` needs more values than the position it is asked for.
        if values.shape[1] > last:
            smallest = np.partition(values, last, axis=1)[:, : self.votes]
        both = np.hstack([self.reached[rows], smallest])
        self.reached[rows] = np.partition(both, last, axis=1)[:, : self.votes]

    def _limit(self, rows: slice) -> Vectors:
        """Return the largest rounded value of a possible list member, per row.

        A member's distance is at most one margin from its rounded value. It is no larger than the list's last distance,
        nor than the distances of Q candidates at or below `reached`.
        """
        of_list = self.keys[rows, -1] - self.sign * self.squares[rows] + self.margin[rows]
        of_values = self.reached[rows].max(axis=1) + 2 * self.margin[rows]
        return round_up(np.minimum(of_list, of_values))


PAIR_BLOCK: Final = 128


def margins(squares: Floats, longest: float, dimension: int) -> Floats:
    """Bound the error of a rounded or float64 distance, for any order of summation.

    squares: the rows' squared lengths; longest: the length of the longest candidate. The float32 product of
    (-2x, 1) and (y, |y|^2) errs by at most (d + 1) * 2^-24 * (2|x||y| + |y|^2), and the square in it by
    d * 2^-24 * |y|^2 (Higham 2002, section 3.1); the bound is at least their sum. The last term covers values too small
    for float32.
    """
    lengths = np.sqrt(squares)
    product = (dimension + 8) * (2.0**-22 * lengths * longest + 2.0**-23 * longest**2)
    measured = (dimension + 8) * 2.0**-50 * (lengths + longest) ** 2
    return np.asarray(product + measured + (dimension + 8) * 2.0**-124)


def distances(mine: Vectors, theirs: Vectors, rows: Ints, columns: Ints) -> Floats:
    """Return squared distances of pairs, float64, summed in order of components."""
    result = np.zeros(len(rows))
    # Vectors without components have distance 0, and a running sum of nothing has no last entry.
    if mine.shape[1] == 0:
        return result
    for start in range(0, len(rows), PAIR_BLOCK):
        part = slice(start, start + PAIR_BLOCK)
        gap = np.subtract(mine[rows[part]], theirs[columns[part]], dtype=np.float64)
        # A running sum has one order by definition; a plain sum may choose its order by the shape of the block.
        result[part] = np.add.accumulate(gap * gap, axis=1)[:, -1]
    return result


def round_up(limit: Floats) -> Vectors:
    """Return limits as float32, rounded up: a value at the limit is strictly below it."""
    return np.nextafter(limit.astype(np.float32), np.float32(np.inf))
