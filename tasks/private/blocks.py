"""Large elections: one pass over all distances proposes a few candidates for each row, and those are measured.

Memory is a few megabytes a thread, whatever the sizes, beside the lists of the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from tasks.private import device, halves
from tasks.private.comparing import ANY, Best, Group, Standing, compare, longest, margins, up

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tasks.private.crew import Crew

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Vectors = NDArray[np.float32]

Fast = Literal["compiled", "device", "halves"]
Spans = Iterable[tuple[int, int]]
"""First and last of candidates, the last one excluded; threads take turns to take the next."""
ROWS: Final = (128, 512)
"""Rows that are compared together, at least and at most: products like many."""
COLUMNS: Final = (1024, 4096)
"""Candidates that they are compared with at a time, at least and at most."""
LEAST: Final = 512
"""Candidates at least that a thread looks at before it takes others."""
TILE: Final = 2**19
"""Distances that are looked at together, between the two."""
SLACK: Final = 2.125
"""Margins behind the Q-th proposal from which on none belongs to a list: two, and what the rounding of a sum takes."""
THIN: Final = 20
"""Rows up to which candidates are read where they lie, and BLAS is left out: it is made for many."""
SPARE: Final = 8
"""Candidates that a row keeps beyond its votes: copies and near-copies of the last one find room among them."""
ALONE: Final = 2 * 10**7
"""Multiplications of an election up to which one thread is done before others have begun."""
DOUBT: Final = 0.2
"""Share of rows compared again from which on shorter numbers are given up."""
SHARES: Final = 4
"""Parts that each thread gets at least where there are many classes, so that all end together."""


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


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """Groups that are looked at together; of their `rows`, group after group: vectors, squared lengths, margins."""

    groups: Sequence[Group]
    rows: Ints
    vectors: Vectors
    squares: Floats
    margin: Floats

    @classmethod
    def of(cls, vectors: Vectors, standing: Standing, groups: Sequence[Group], most_lost: float | None = None) -> Task:
        """Take the rows of these groups out of all; `most_lost`: of a candidate that is compared in shorter numbers."""
        rows = np.concatenate([group.rows for group in groups])
        mine = vectors[rows]
        own = np.einsum("ij,ij->i", mine, mine, dtype=np.float64)
        longer = np.repeat([longest(standing, group) for group in groups], [len(group.rows) for group in groups])
        margin = margins(own, longer, mine.shape[1])
        if most_lost is not None:
            margin += halves.margins(mine, own, longer, most_lost)
        return cls(groups, rows, mine, own, margin)

    def blocks(self) -> Iterator[tuple[slice, Group]]:
        """Return every group with the place of its rows among all."""
        start = 0
        for group in self.groups:
            yield slice(start, start + len(group.rows)), group
            start += len(group.rows)

    def looks(self, spans: Spans) -> Iterator[tuple[tuple[int, int], slice, Group]]:
        """Return every group once for each span of its candidates, with the place of its rows among all."""
        return ((span, rows, group) for span in spans for rows, group in self.blocks())

    def name(self, proposed: Proposals) -> None:
        """Turn the numbers of what was proposed into places."""
        for rows, group in self.blocks():
            group.name(proposed.places[rows])

    def blank(self, lists: Sequence[Best], spare: int = SPARE) -> Proposals:
        """Return empty proposals, which nothing enters that is proven to belong to no list."""
        votes = lists[0].keys.shape[1]
        values = np.full((len(self.rows), 2, votes + spare), -np.inf, dtype=np.float32)
        for side, best in enumerate(lists):
            values[:, side] = up(best.limit(self.rows, self.squares, self.margin))[:, None]
        return Proposals(values, np.full(values.shape, -1, dtype=np.int64), votes)


@dataclass(frozen=True, slots=True, eq=False)
class Election:
    """All that the tasks share: rows' vectors, candidates, lists, and the width of blocks at most.

    `stacked`: keys and ids of the lists, (sides, rows, Q), which the lists are views of. `how`: where proposals come
    from; a graphics processor does one thing after the other. `most_lost`: see there (`halves.py`); `doubts`: of
    each part that was compared in shorter numbers, the share of rows that had to be compared again.
    """

    vectors: Vectors
    standing: Standing
    lists: Sequence[Best]
    stacked: tuple[Floats, Ints]
    block: int
    how: Fast = "compiled"
    most_lost: float | None = None
    doubts: list[float] = field(default_factory=list)

    def run(self, groups: Sequence[Group], crew: Crew) -> None:
        """Bring the lists of all groups' rows up to date with their candidates."""
        if self.how == "halves":
            with halves.one_thread():
                replace(self, most_lost=halves.most_lost(self.standing.vectors, crew))._run(groups, crew)
        else:
            self._run(groups, crew)

    def _run(self, groups: Sequence[Group], crew: Crew) -> None:
        if self.how == "device":
            crew.begin()
            for group in _cut(groups, device.ROWS):
                self._shared(group, crew, group.size)
            return
        pairs, threads = sum(len(group.rows) * group.size for group in groups), crew.begin()
        if pairs * self.vectors.shape[1] <= ALONE:
            for part in _packed(_cut(groups, ROWS[1]), pairs):
                self._whole(part)
            return
        everybody = sum(len(group.rows) for group in groups)
        most = halves.ROWS if self.how == "halves" else ROWS[1]
        cut = _cut(groups, min(most, max(ROWS[0], -(-everybody // threads))))
        if len(cut) >= threads:
            crew.map(self._whole, _packed(cut, -(-pairs // (SHARES * threads))))
        else:
            for group in cut:
                pieces = max(2 * threads, -(-group.size // _width(group, self.block)))
                self._shared(group, crew, max(LEAST, -(-group.size // pieces)))

    def _whole(self, groups: Sequence[Group]) -> None:
        if self.how == "halves" and self.doubts and sum(self.doubts) > DOUBT * len(self.doubts):
            self._surely(groups)
            return
        task, proposed = self._begun(groups)
        (halves.propose if self.how == "halves" else propose)(task, self.standing, [(0, ANY)], proposed, self.block)
        task.name(proposed)
        self._settle(task, proposed, slice(0, len(task.rows)))

    def _surely(self, groups: Sequence[Group]) -> None:
        """Compare groups in float32."""
        replace(self, how="compiled", most_lost=None)._whole(groups)

    def _begun(self, groups: Sequence[Group]) -> tuple[Task, Proposals]:
        """Return the task of these groups, and proposals without any."""
        task = Task.of(self.vectors, self.standing, groups, self.most_lost)
        return task, task.blank(self.lists, halves.SPARE if self.how == "halves" else SPARE)

    def _shared(self, group: Group, crew: Crew, step: int) -> None:
        """Do the same where there are fewer parts than threads: each looks at `step` candidates that nobody took."""
        from tasks.private.compiled import join

        (task, blank), threads = self._begun([group]), crew.begin()
        look = {"compiled": propose, "device": device.propose, "halves": halves.propose}[self.how]
        spans = iter([(start, start + step) for start in range(0, group.size, step)])

        def looked(_: int) -> Proposals:
            proposed = Proposals(blank.values.copy(), blank.places.copy(), blank.votes)
            look(task, self.standing, spans, proposed, self.block)
            task.name(proposed)
            return proposed

        found, *others = crew.map(looked, range(1 if self.how == "device" else threads))
        for other in others:
            join(found.values, found.places, other.values, other.places)
        each = -(-len(group.rows) // threads)
        crew.map(lambda start: self._settle(task, found, slice(start, start + each)), range(0, len(group.rows), each))

    def _settle(self, task: Task, proposed: Proposals, rows: slice) -> None:
        """Measure what was proposed to some rows; compare those in a surer way whose proposals may not be all."""
        from tasks.private.compiled import settle

        left, found = np.zeros(len(task.rows), dtype=np.bool_), proposed.of(rows)
        mine = task.vectors[rows], task.rows[rows], task.margin[rows]
        settle(
            mine, (self.standing.vectors, self.standing.ids), (found.values, found.places), *self.stacked, left[rows]
        )
        again = [Group(group.rows[left[part]], group.members, False) for part, group in task.blocks()]
        again = [group for group in again if len(group.rows)]
        if self.how == "halves":
            self.doubts.append(float(left[rows].mean()))
            if again:
                self._surely(again)
        else:
            for group in again:
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
    from tasks.private.compiled import scan

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
                standing.marks.take(_listed(members))


def _multiply(mine: Vectors, standing: Standing, members: Ints | slice, tile: Vectors, gathered: Vectors) -> None:
    """Write the products of rows and candidates; `gathered` is room for candidates that do not lie together."""
    if len(mine) <= THIN:
        from tasks.private.compiled import thin

        thin(mine, standing.vectors, _listed(members), tile)
        return
    if isinstance(members, slice):
        theirs = standing.vectors[members]
    else:
        theirs = gathered[: len(members) * mine.shape[1]].reshape(len(members), mine.shape[1])
        np.take(standing.vectors, members, axis=0, out=theirs, mode="clip")
    np.matmul(mine, theirs.T, out=tile)


def _listed(members: Ints | slice) -> Ints:
    """Return places one by one."""
    return np.arange(members.start, members.stop) if isinstance(members, slice) else members


def _width(group: Group, block: int) -> int:
    """Return how many of the group's candidates to look at together."""
    most = COLUMNS[1] if isinstance(group.members, slice) else COLUMNS[0]
    return min(group.size, block, most, max(COLUMNS[0], TILE // len(group.rows)))


def _gathers(group: Group, block: int) -> int:
    """Return for how many of its candidates a group needs room."""
    apart = len(group.rows) > THIN and not isinstance(group.members, slice)
    return _width(group, block) if apart else 0
