"""Candidates that one pass over rounded distances proposes for the lists of rows, and the task of such a pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from tasks.private.nearest.exact import Best, CandidateArrays, Group, as_slice, longest, margins, round_up

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Vectors = NDArray[np.float32]

ProposalArrays = tuple["Vectors", "Ints", "Floats", "Vectors"]
Spans = Iterable[tuple[int, int]]
"""Ranges (start, stop) of candidates; threads take the next one in turn."""
SLACK: Final = 2.125
"""Margins behind the Q-th proposal beyond which no candidate belongs to a list: two, plus the rounding of a sum."""
SPARE: Final = 8
"""Proposals of a row beyond its votes; they leave room for copies and near-copies of the last one."""


@dataclass(frozen=True, slots=True, eq=False)
class Proposals:
    """Candidates that may belong to the lists of rows, on both sides: `values` and `indices`, both (rows, 2, length).

    Values ascend; far values are negated. `indices` identify the candidates, -1 for none. `votes`: the number of
    candidates that the lists need (Q).
    """

    values: Vectors
    indices: Ints
    votes: int

    def of(self, rows: slice) -> Proposals:
        """Return the proposals of some of the rows, as views."""
        return Proposals(self.values[rows], self.indices[rows], self.votes)

    def copy(self) -> Proposals:
        """Return a copy for another thread to fill."""
        return Proposals(self.values.copy(), self.indices.copy(), self.votes)

    def join(self, other: Proposals) -> None:
        """Merge another thread's proposals for the same rows."""
        from tasks.private.nearest.numba_kernels import join

        join(self.values, self.indices, other.values, other.indices)

    def to_arrays(self, margin: Floats) -> ProposalArrays:
        """Return values, indices, cuts and missed, the arguments of `settling.settle`.

        cuts (rows, 2): two margins behind the Q-th value, beyond which no candidate belongs to a list. missed (rows,
        2): every candidate that did not fit has a value at or beyond it. Values ascend, so this is the last one, if it
        exists.
        """
        cuts = self.values[:, :, self.votes - 1] + 2 * margin[:, None]
        missed = np.where(self.indices[:, :, -1] >= 0, self.values[:, :, -1], np.float32(np.inf))
        return self.values, self.indices, cuts, missed


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """Groups that are compared together, with the vectors, squared lengths and margins of their `rows`.

    The rows follow group after group. `longest`: the length of the longest candidate of each row.
    """

    groups: Sequence[Group]
    rows: Ints
    vectors: Vectors
    squares: Floats
    longest: Floats
    margin: Floats

    @classmethod
    def of(cls, vectors: Vectors, arrays: CandidateArrays, groups: Sequence[Group]) -> Task:
        """Collect the rows of these groups."""
        rows = np.concatenate([group.rows for group in groups])
        selection = as_slice(rows) if len(groups) == 1 else rows
        mine = np.require(vectors[selection], requirements=("C", "A"))
        own = np.einsum("ij,ij->i", mine, mine, dtype=np.float64)
        longest_of_rows = np.repeat([longest(arrays, group) for group in groups], [len(group.rows) for group in groups])
        return cls(groups, rows, mine, own, longest_of_rows, margins(own, longest_of_rows, mine.shape[1]))

    def blocks(self) -> Iterator[tuple[slice, Group]]:
        """Yield every group with the slice of its rows."""
        start = 0
        for group in self.groups:
            yield slice(start, start + len(group.rows)), group
            start += len(group.rows)

    def spans(self, spans: Spans) -> Iterator[tuple[tuple[int, int], slice, Group]]:
        """Yield every span of candidates with every group and the slice of its rows."""
        return ((span, rows, group) for span in spans for rows, group in self.blocks())

    def to_indices(self, numbers: Ints) -> None:
        """Replace numbers of the rows' candidates, (rows, ...), by indices."""
        for rows, group in self.blocks():
            group.to_indices(numbers[rows])

    def blank(self, lists: Sequence[Best]) -> Proposals:
        """Return empty proposals, bounded so that only possible list members enter."""
        votes = lists[0].keys.shape[1]
        values = np.full((len(self.rows), 2, votes + SPARE), -np.inf, dtype=np.float32)
        for side, best in enumerate(lists):
            values[:, side] = round_up(best.limit(self.rows, self.squares, self.margin))[:, None]
        return Proposals(values, np.full(values.shape, -1, dtype=np.int64), votes)
