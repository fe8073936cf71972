"""Large elections: one pass over all distances proposes a few candidates for each row, and those are measured.

Memory is a few megabytes a thread, whatever the sizes, beside the lists of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from tasks.private import device
from tasks.private.comparing import Best, Group, Standing, compare, longest, margins, up

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tasks.private.crew import Crew

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Vectors = NDArray[np.float32]

ROWS: Final = (128, 512)
"""Rows that are compared together, at least and at most: products like many."""
COLUMNS: Final = (1024, 4096)
"""Candidates that they are compared with at a time; between the two, as many as make 2 MB with the rows."""
SPARE: Final = 8
"""Candidates that a row keeps beyond its votes: copies and near-copies of the last one find room among them."""

Side = tuple["Vectors", "Ints"]
"""Values (rows, kept), ascending, those of far negated, and their columns, -1 where there is none."""
Proposals = tuple[Side, Side]


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """Some rows of one class: vectors, squared lengths, margins, and the group with their places."""

    group: Group
    vectors: Vectors
    squares: Floats
    margin: Floats

    @classmethod
    def of(cls, vectors: Vectors, standing: Standing, group: Group) -> Task:
        """Take these rows out of all."""
        mine = vectors[group.rows]
        own = np.einsum("ij,ij->i", mine, mine, dtype=np.float64)
        return cls(group, mine, own, margins(own, longest(standing, group), mine.shape[1]))

    def rows(self, start: int, stop: int) -> Task:
        """Return the same for some of the rows."""
        part, group = slice(start, stop), Group(self.group.rows[start:stop], self.group.members)
        return Task(group, self.vectors[part], self.squares[part], self.margin[part])

    def blank(self, lists: Sequence[Best]) -> Proposals:
        """Return empty proposals, which nothing enters that is proven to belong to no list."""
        kept = lists[0].keys.shape[1] + SPARE
        sides = []
        for side in range(2):
            limit = np.full(len(self.squares), -np.inf, dtype=np.float32)
            if side < len(lists):
                limit = up(lists[side].limit(self.group.rows, self.squares, self.margin))
            sides.append((np.repeat(limit[:, None], kept, axis=1), np.full((len(limit), kept), -1, dtype=np.int64)))
        return sides[0], sides[1]


@dataclass(frozen=True, slots=True, eq=False)
class Election:
    """All that the tasks share: rows' vectors, candidates, lists, and the width of blocks at most.

    `by_device`: proposals come from a graphics processor, which does one thing after the other.
    """

    vectors: Vectors
    standing: Standing
    lists: Sequence[Best]
    block: int
    by_device: bool = False

    def run(self, groups: Sequence[Group], crew: Crew) -> None:
        """Bring the lists of all groups' rows up to date with their candidates."""
        threads = crew.begin()
        if self.by_device:
            for part in _parts(groups, (device.ROWS, device.ROWS)):
                self._shared(part, crew, part.size)
            return
        everybody = sum(len(group.rows) for group in groups)
        parts = _parts(groups, (-(-everybody // threads), ROWS[1]))
        if len(parts) >= threads:
            crew.map(self._whole, parts)
        else:
            for part in parts:
                self._shared(part, crew, max(COLUMNS[0], -(-part.size // threads)))

    def _whole(self, group: Group) -> None:
        task = Task.of(self.vectors, self.standing, group)
        self._settle(task, self._look(task, (0, group.size)))

    def _shared(self, group: Group, crew: Crew, step: int) -> None:
        """Do the same where there are fewer parts than threads: each looks at `step` of the candidates."""
        task, threads = Task.of(self.vectors, self.standing, group), crew.begin()
        spans = [(start, min(start + step, group.size)) for start in range(0, group.size, step)]
        found = _joined(crew.map(lambda span: self._look(task, span), spans))
        each = -(-len(group.rows) // threads)

        def settle(start: int) -> None:
            part = slice(start, start + each)
            near, far = ((values[part], columns[part]) for values, columns in found)
            self._settle(task.rows(start, start + each), (near, far))

        crew.map(settle, range(0, len(group.rows), each))

    def _look(self, task: Task, span: tuple[int, int]) -> Proposals:
        proposed = task.blank(self.lists)
        look = device.propose if self.by_device else propose
        look(task, self.standing, span, proposed, self.block)
        return proposed

    def _settle(self, task: Task, proposed: Proposals) -> None:
        """Measure what was proposed; compare rows in the plain way whose proposals may not be all."""
        from tasks.private.compiled import settle

        chosen = self.standing.vectors, self.standing.ids, task.group.places
        for best, found in zip(self.lists, proposed, strict=False):
            left = np.zeros(len(task.squares), dtype=np.bool_)
            rows = task.vectors, task.group.rows, task.margin
            settle(rows, chosen, found, (best.keys, best.ids), float(best.sign), left)
            if left.any():
                group = Group(task.group.rows[left], task.group.members)
                compare(self.vectors, self.standing, group, [best], self.block)


def _parts(groups: Sequence[Group], rows: tuple[int, int]) -> list[Group]:
    """Cut groups into blocks of rows: as many as wanted, as far as products like them, and no more than allowed."""
    wanted, allowed = rows
    most = min(allowed, max(ROWS[0], wanted))
    parts = []
    for group in groups:
        number = -(-len(group.rows) // most)
        parts += [Group(rows, group.members) for rows in np.array_split(group.rows, number)]
    return parts


def _joined(found: Sequence[Proposals]) -> Proposals:
    """Return the best of proposals from several sets of candidates, as many as one of them holds."""
    if len(found) == 1:
        return found[0]
    sides = []
    for side in range(2):
        values, columns = (np.concatenate([one[side][k] for one in found], axis=1) for k in range(2))
        order = np.argsort(values, axis=1, kind="stable")[:, : found[0][side][0].shape[1]]
        sides.append((np.take_along_axis(values, order, axis=1), np.take_along_axis(columns, order, axis=1)))
    return sides[0], sides[1]


def propose(task: Task, standing: Standing, span: tuple[int, int], proposed: Proposals, block: int) -> None:
    """Fill `proposed` with what one pass over the candidates of `span` finds."""
    from tasks.private.compiled import scan

    scaled = task.vectors * np.float32(-2)
    width = max(1, min(block, COLUMNS[1], max(COLUMNS[0], 2**19 // len(scaled))))
    room = np.empty(len(scaled) * width, dtype=np.float32)
    for first in range(*span, width):
        members = task.group.part(first, min(first + width, span[1]))
        theirs = standing.vectors[members]
        tile = room[: len(scaled) * len(theirs)].reshape(len(scaled), len(theirs))
        np.matmul(scaled, theirs.T, out=tile)
        scan(tile, standing.squares[members], first, *proposed)
