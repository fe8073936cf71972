"""What one pass over distances proposes for the lists of rows, and the task that it does so for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from tasks.private.nearest.exact import Best, Group, Standing, longest, margins, together, up

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Vectors = NDArray[np.float32]

Found = tuple["Vectors", "Ints", "Floats", "Vectors"]
Spans = Iterable[tuple[int, int]]
"""First and last of candidates, the last one excluded; threads take turns to take the next."""
SLACK: Final = 2.125
"""Margins behind the Q-th proposal from which on none belongs to a list: two, and what the rounding of a sum takes."""
SPARE: Final = 8
"""Candidates that a row keeps beyond its votes: copies and near-copies of the last one find room among them."""


@dataclass(frozen=True, slots=True, eq=False)
class Proposals:
    """What may belong to the lists of rows, on both sides: `values` and `places`, both (rows, 2, kept).

    Values ascend, those of far are negated; places are those of the candidates, -1 where there is none. `votes`: how
    many of them are wanted.
    """

    values: Vectors
    places: Ints
    votes: int

    def of(self, rows: slice) -> Proposals:
        """Return those of some of the rows."""
        return Proposals(self.values[rows], self.places[rows], self.votes)

    def copy(self) -> Proposals:
        """Return the same to be filled by somebody else."""
        return Proposals(self.values.copy(), self.places.copy(), self.votes)

    def join(self, other: Proposals) -> None:
        """Take in what somebody else found for the same rows."""
        from tasks.private.nearest.numba_kernels import join

        join(self.values, self.places, other.values, other.places)

    def found(self, margin: Floats) -> Found:
        """Return the proposals as `tasks.private.nearest.settling.settle` takes them: values, places, cuts, missed.

        cuts (rows, 2): two margins behind the Q-th, beyond which no list goes; missed (rows, 2): what all that was not
        kept for want of room lies at or beyond. Values ascend, so that is the last if there is one.
        """
        cuts = self.values[:, :, self.votes - 1] + 2 * margin[:, None]
        missed = np.where(self.places[:, :, -1] >= 0, self.values[:, :, -1], np.float32(np.inf))
        return self.values, self.places, cuts, missed


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """Groups that are looked at together; of their `rows`, group after group: vectors, squared lengths, margins.

    `longest`: of each row's candidates.
    """

    groups: Sequence[Group]
    rows: Ints
    vectors: Vectors
    squares: Floats
    longest: Floats
    margin: Floats

    @classmethod
    def of(cls, vectors: Vectors, standing: Standing, groups: Sequence[Group]) -> Task:
        """Take the rows of these groups out of all."""
        rows = np.concatenate([group.rows for group in groups])
        alone = together(rows) if len(groups) == 1 else rows
        mine = np.require(vectors[alone], requirements=("C", "A"))
        own = np.einsum("ij,ij->i", mine, mine, dtype=np.float64)
        longer = np.repeat([longest(standing, group) for group in groups], [len(group.rows) for group in groups])
        return cls(groups, rows, mine, own, longer, margins(own, longer, mine.shape[1]))

    def blocks(self) -> Iterator[tuple[slice, Group]]:
        """Return every group with the place of its rows among all."""
        start = 0
        for group in self.groups:
            yield slice(start, start + len(group.rows)), group
            start += len(group.rows)

    def looks(self, spans: Spans) -> Iterator[tuple[tuple[int, int], slice, Group]]:
        """Return every group once for each span of its candidates, with the place of its rows among all."""
        return ((span, rows, group) for span in spans for rows, group in self.blocks())

    def name(self, places: Ints) -> None:
        """Turn numbers of the rows' candidates, (rows, ...), into places."""
        for rows, group in self.blocks():
            group.name(places[rows])

    def blank(self, lists: Sequence[Best]) -> Proposals:
        """Return empty proposals, which nothing enters that is proven to belong to no list."""
        votes = lists[0].keys.shape[1]
        values = np.full((len(self.rows), 2, votes + SPARE), -np.inf, dtype=np.float32)
        for side, best in enumerate(lists):
            values[:, side] = up(best.limit(self.rows, self.squares, self.margin))[:, None]
        return Proposals(values, np.full(values.shape, -1, dtype=np.int64), votes)
