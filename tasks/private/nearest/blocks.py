"""Comparison for large votes: one pass over all distances proposes a few candidates per row, which are then measured.

Memory is a few megabytes per thread for any size, in addition to the lists of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from tasks.private.nearest import gpu
from tasks.private.nearest.exact import ANY, Best, CandidateArrays, Group, as_indices, compare, round_up
from tasks.private.nearest.proposals import SLACK, Proposals, Spans, Task

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tasks.private.nearest.thread_pool import ThreadPool

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Vectors = NDArray[np.float32]

Fast = Literal["compiled", "device"]
ROWS: Final = (128, 512)
"""Rows per block, minimum and maximum; large products are efficient."""
COLUMNS: Final = (1024, 4096)
"""Candidates per block, minimum and maximum."""
LEAST: Final = 512
"""Minimum number of candidates that a thread takes at a time."""
TILE: Final = 2**19
"""Distances per block, within the limits of COLUMNS."""
THIN: Final = 20
"""Maximum number of rows for products without BLAS, which read candidates in place; BLAS is made for many rows."""
ALONE: Final = 2 * 10**7
"""Multiplications up to which one thread finishes before other threads have started."""
SHARES: Final = 4
"""Minimum number of parts per thread if there are many classes; balances the load."""


@dataclass(frozen=True, slots=True, eq=False)
class BlockSearch:
    """The state shared by the tasks of one vote: rows' vectors, candidates, lists and maximum block width.

    `stacked`: keys and ids of the lists, (sides, rows, Q); the lists are views of them. `how`: the source of proposals;
    a GPU processes one block after the other.
    """

    vectors: Vectors
    arrays: CandidateArrays
    lists: Sequence[Best]
    stacked: tuple[Floats, Ints]
    block: int
    how: Fast = "compiled"

    def run(self, groups: Sequence[Group], pool: ThreadPool) -> None:
        """Update the lists of all groups' rows with their candidates."""
        if self.how == "device":
            pool.begin()
            for group in _split(groups, gpu.ROWS):
                self._compare_shared(group, pool, group.size)
            return
        pairs, threads = sum(len(group.rows) * group.size for group in groups), pool.begin()
        if pairs * self.vectors.shape[1] <= ALONE:
            for part in _pack(_split(groups, ROWS[1]), pairs):
                self._compare_groups(part)
            return
        rows = sum(len(group.rows) for group in groups)
        blocks = _split(groups, min(ROWS[1], max(ROWS[0], -(-rows // threads))))
        if len(blocks) >= threads:
            pool.map(self._compare_groups, _pack(blocks, -(-pairs // (SHARES * threads))))
        else:
            for group in blocks:
                self._compare_shared(group, pool, self._step(group, threads))

    def _step(self, group: Group, threads: int) -> int:
        """Return the number of candidates that a thread takes at a time."""
        pieces = max(2 * threads, -(-group.size // _width(group, self.block)))
        return max(LEAST, -(-group.size // pieces))

    def _compare_groups(self, groups: Sequence[Group]) -> None:
        task, proposed = self._start_task(groups)
        self._propose(task, [(0, ANY)], proposed)
        self._settle(task, proposed, slice(0, len(task.rows)))

    def _start_task(self, groups: Sequence[Group]) -> tuple[Task, Proposals]:
        """Return the task of these groups and empty proposals."""
        task = Task.of(self.vectors, self.arrays, groups)
        return task, task.blank(self.lists)

    def _propose(self, task: Task, spans: Spans, proposed: Proposals) -> None:
        """Fill `proposed` from one pass over the candidates of `spans`, counted per group."""
        (gpu.propose if self.how == "device" else propose)(task, self.arrays, spans, proposed, self.block)
        task.to_indices(proposed.indices)

    def _compare_shared(self, group: Group, pool: ThreadPool, step: int) -> None:
        """Compare one group with all threads; each takes the next `step` candidates."""
        (task, blank), threads = self._start_task([group]), pool.begin()
        spans = iter([(start, start + step) for start in range(0, group.size, step)])

        def propose_spans(_: int) -> Any:
            proposed = blank.copy()
            self._propose(task, spans, proposed)
            return proposed

        merged, *others = pool.map(propose_spans, range(1 if self.how == "device" else threads))
        for other in others:
            merged.join(other)
        share = -(-len(group.rows) // threads)
        starts = range(0, len(group.rows), share)
        pool.map(lambda start: self._settle(task, merged, slice(start, start + share)), starts)

    def _settle(self, task: Task, proposed: Proposals, rows: slice) -> None:
        """Measure proposals of some rows; compare rows with incomplete ones exactly."""
        from tasks.private.nearest.settling import settle

        unsettled, proposals = np.zeros(len(task.rows), dtype=np.bool_), proposed.of(rows).to_arrays(task.margin[rows])
        mine = task.vectors[rows], task.rows[rows]
        settle(mine, (self.arrays.vectors, self.arrays.ids), proposals, *self.stacked, unsettled[rows])
        remaining = [Group(group.rows[unsettled[part]], group.members, False) for part, group in task.blocks()]
        for group in remaining:
            if len(group.rows):
                compare(self.vectors, self.arrays, group, self.lists, self.block)


def _split(groups: Sequence[Group], most: int) -> list[Group]:
    """Split groups into equal blocks of rows; the first of each hashes the candidates."""
    parts: list[Group] = []
    for group in groups:
        number = -(-len(group.rows) // most)
        rows = [group.rows] if number == 1 else np.array_split(group.rows, number)
        parts += [replace(group, rows=part, with_hashes=group.with_hashes and not k) for k, part in enumerate(rows)]
    return parts


def _pack(groups: Sequence[Group], pairs: int) -> list[list[Group]]:
    """Combine small groups, up to `pairs` row-candidate pairs and ROWS[1] rows."""
    parts: list[list[Group]] = []
    room, left = 0, 0
    for group in groups:
        rows, size = len(group.rows), len(group.rows) * group.size
        if not parts or rows > room or size > left:
            parts.append([])
            room, left = ROWS[1], pairs
        parts[-1].append(group)
        room, left = room - rows, left - size
    return parts


def propose(task: Task, arrays: CandidateArrays, spans: Spans, proposed: Proposals, block: int) -> None:
    """Fill `proposed` from one pass over the candidates of `spans`, counted per group."""
    from tasks.private.nearest.numba_kernels import scan

    scaled, slacks, dimension = task.vectors * np.float32(-2), round_up(SLACK * task.margin), task.vectors.shape[1]
    room = np.empty(max(len(group.rows) * _width(group, block) for group in task.groups), dtype=np.float32)
    gathered = np.empty(max(_gather_size(group, block) for group in task.groups) * dimension, dtype=np.float32)
    for span, rows, group in task.spans(spans):
        mine, slack, best = scaled[rows], slacks[rows], proposed.of(rows)
        for first, members in group.parts(*span, _width(group, block)):
            squares = arrays.squares[members]
            tile = room[: len(mine) * len(squares)].reshape(len(mine), len(squares))
            _multiply(mine, arrays, members, tile, gathered)
            scan(tile, squares, (first, best.votes), slack, best.values, best.indices)
            if group.with_hashes and arrays.hashes is not None:
                arrays.hashes.compute_block(as_indices(members))


def _multiply(mine: Vectors, arrays: CandidateArrays, members: Ints | slice, tile: Vectors, gathered: Vectors) -> None:
    """Write the products of rows and candidates; `gathered` is a buffer."""
    if len(mine) <= THIN:
        from tasks.private.nearest.numba_kernels import thin

        thin(mine, arrays.vectors, as_indices(members), tile)
        return
    if isinstance(members, slice):
        theirs = arrays.vectors[members]
    else:
        theirs = gathered[: len(members) * mine.shape[1]].reshape(len(members), mine.shape[1])
        np.take(arrays.vectors, members, axis=0, out=theirs, mode="clip")
    np.matmul(mine, theirs.T, out=tile)


def _width(group: Group, block: int) -> int:
    """Return the number of the group's candidates per block."""
    most = COLUMNS[1] if isinstance(group.members, slice) else COLUMNS[0]
    return min(group.size, block, most, max(COLUMNS[0], TILE // len(group.rows)))


def _gather_size(group: Group, block: int) -> int:
    """Return the number of candidates that need a place in the gather buffer."""
    apart = len(group.rows) > THIN and not isinstance(group.members, slice)
    return _width(group, block) if apart else 0
