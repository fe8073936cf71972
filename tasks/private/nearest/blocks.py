"""Large elections: one pass over all distances proposes a few candidates for each row, and those are measured.

Memory is a few megabytes a thread, whatever the sizes, beside the lists of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from tasks.private.nearest import gpu
from tasks.private.nearest.exact import ANY, Best, Group, Standing, compare, listed, up
from tasks.private.nearest.proposals import SLACK, Proposals, Spans, Task

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tasks.private.nearest.thread_pool import Crew

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Vectors = NDArray[np.float32]

Fast = Literal["compiled", "device"]
ROWS: Final = (128, 512)
"""Rows that are compared together, at least and at most: products like many."""
COLUMNS: Final = (1024, 4096)
"""Candidates that they are compared with at a time, at least and at most."""
LEAST: Final = 512
"""Candidates at least that a thread looks at before it takes others."""
TILE: Final = 2**19
"""Distances that are looked at together, between the two."""
THIN: Final = 20
"""Rows up to which candidates are read where they lie, and BLAS is left out: it is made for many."""
ALONE: Final = 2 * 10**7
"""Multiplications of an election up to which one thread is done before others have begun."""
SHARES: Final = 4
"""Parts that each thread gets at least where there are many classes, so that all end together."""


@dataclass(frozen=True, slots=True, eq=False)
class Election:
    """All that the tasks share: rows' vectors, candidates, lists, and the width of blocks at most.

    `stacked`: keys and ids of the lists, (sides, rows, Q), which the lists are views of. `how`: where proposals come
    from; a graphics processor does one block after the other.
    """

    vectors: Vectors
    standing: Standing
    lists: Sequence[Best]
    stacked: tuple[Floats, Ints]
    block: int
    how: Fast = "compiled"

    def run(self, groups: Sequence[Group], crew: Crew) -> None:
        """Bring the lists of all groups' rows up to date with their candidates."""
        if self.how == "device":
            crew.begin()
            for group in _cut(groups, gpu.ROWS):
                self._shared(group, crew, group.size)
            return
        pairs, threads = sum(len(group.rows) * group.size for group in groups), crew.begin()
        if pairs * self.vectors.shape[1] <= ALONE:
            for part in _packed(_cut(groups, ROWS[1]), pairs):
                self._whole(part)
            return
        everybody = sum(len(group.rows) for group in groups)
        cut = _cut(groups, min(ROWS[1], max(ROWS[0], -(-everybody // threads))))
        if len(cut) >= threads:
            crew.map(self._whole, _packed(cut, -(-pairs // (SHARES * threads))))
        else:
            for group in cut:
                self._shared(group, crew, self._step(group, threads))

    def _step(self, group: Group, threads: int) -> int:
        """Return how many of a group's candidates a thread takes at a time."""
        pieces = max(2 * threads, -(-group.size // _width(group, self.block)))
        return max(LEAST, -(-group.size // pieces))

    def _whole(self, groups: Sequence[Group]) -> None:
        task, proposed = self._begun(groups)
        self._look(task, [(0, ANY)], proposed)
        self._settle(task, proposed, slice(0, len(task.rows)))

    def _begun(self, groups: Sequence[Group]) -> tuple[Task, Proposals]:
        """Return the task of these groups, and proposals without any."""
        task = Task.of(self.vectors, self.standing, groups)
        return task, task.blank(self.lists)

    def _look(self, task: Task, spans: Spans, proposed: Proposals) -> None:
        """Fill `proposed` with what one pass over the candidates of `spans`, counted in each group, finds."""
        (gpu.propose if self.how == "device" else propose)(task, self.standing, spans, proposed, self.block)
        task.name(proposed.places)

    def _shared(self, group: Group, crew: Crew, step: int) -> None:
        """Do the same where there are fewer parts than threads: each looks at `step` candidates that nobody took."""
        (task, blank), threads = self._begun([group]), crew.begin()
        spans = iter([(start, start + step) for start in range(0, group.size, step)])

        def looked(_: int) -> Any:
            proposed = blank.copy()
            self._look(task, spans, proposed)
            return proposed

        found, *others = crew.map(looked, range(1 if self.how == "device" else threads))
        for other in others:
            found.join(other)
        each = -(-len(group.rows) // threads)
        crew.map(lambda start: self._settle(task, found, slice(start, start + each)), range(0, len(group.rows), each))

    def _settle(self, task: Task, proposed: Proposals, rows: slice) -> None:
        """Measure what was proposed to some rows; compare those in a surer way whose proposals may not be all."""
        from tasks.private.nearest.settling import settle

        left, found = np.zeros(len(task.rows), dtype=np.bool_), proposed.of(rows).found(task.margin[rows])
        mine = task.vectors[rows], task.rows[rows]
        settle(mine, (self.standing.vectors, self.standing.ids), found, *self.stacked, left[rows])
        again = [Group(group.rows[left[part]], group.members, False) for part, group in task.blocks()]
        for group in again:
            if len(group.rows):
                compare(self.vectors, self.standing, group, self.lists, self.block)


def _cut(groups: Sequence[Group], most: int) -> list[Group]:
    """Cut groups into blocks of rows, as equal as they can be; the first of each marks the candidates."""
    parts: list[Group] = []
    for group in groups:
        number = -(-len(group.rows) // most)
        rows = [group.rows] if number == 1 else np.array_split(group.rows, number)
        parts += [replace(group, rows=some, marking=group.marking and not k) for k, some in enumerate(rows)]
    return parts


def _packed(groups: Sequence[Group], pairs: int) -> list[list[Group]]:
    """Put small groups together, up to so many pairs of a row and a candidate, and to the rows of a large one."""
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


def propose(task: Task, standing: Standing, spans: Spans, proposed: Proposals, block: int) -> None:
    """Fill `proposed` with what one pass over the candidates of `spans`, counted in each group, finds."""
    from tasks.private.nearest.numba_kernels import scan

    scaled, slacks, dimension = task.vectors * np.float32(-2), up(SLACK * task.margin), task.vectors.shape[1]
    room = np.empty(max(len(one.rows) * _width(one, block) for one in task.groups), dtype=np.float32)
    gathered = np.empty(max(_gathers(one, block) for one in task.groups) * dimension, dtype=np.float32)
    for span, rows, group in task.looks(spans):
        mine, slack, found = scaled[rows], slacks[rows], proposed.of(rows)
        for first, members in group.parts(*span, _width(group, block)):
            squares = standing.squares[members]
            tile = room[: len(mine) * len(squares)].reshape(len(mine), len(squares))
            _multiply(mine, standing, members, tile, gathered)
            scan(tile, squares, (first, found.votes), slack, found.values, found.places)
            if group.marking and standing.marks is not None:
                standing.marks.take(listed(members))


def _multiply(mine: Vectors, standing: Standing, members: Ints | slice, tile: Vectors, gathered: Vectors) -> None:
    """Write the products of rows and candidates; `gathered` is room for candidates that do not lie together."""
    if len(mine) <= THIN:
        from tasks.private.nearest.numba_kernels import thin

        thin(mine, standing.vectors, listed(members), tile)
        return
    if isinstance(members, slice):
        theirs = standing.vectors[members]
    else:
        theirs = gathered[: len(members) * mine.shape[1]].reshape(len(members), mine.shape[1])
        np.take(standing.vectors, members, axis=0, out=theirs, mode="clip")
    np.matmul(mine, theirs.T, out=tile)


def _width(group: Group, block: int) -> int:
    """Return how many of the group's candidates to look at together."""
    most = COLUMNS[1] if isinstance(group.members, slice) else COLUMNS[0]
    return min(group.size, block, most, max(COLUMNS[0], TILE // len(group.rows)))


def _gathers(group: Group, block: int) -> int:
    """Return for how many of its candidates a group needs room."""
    apart = len(group.rows) > THIN and not isinstance(group.members, slice)
    return _width(group, block) if apart else 0
