"""The same proposals from bfloat16 products of the processor, through torch: a wider net, and what is in it measured.

Half of each number's bits are left out, which some processors multiply two to four times as fast. The margins grow by
what that can change at most; rows for which they are too wide are compared in float32.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from connectors.base import MissingPackageError
from tasks.private.comparing import listed, up
from tasks.private.marks import factors_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tasks.private.comparing import Best, Group, Standing
    from tasks.private.marks import Marks
    from tasks.private.proposals import Found, Spans, Task

    Halves = NDArray[np.uint16]
    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Vectors = NDArray[np.float32]

ROWS: Final = 1024
"""Rows that are compared together at most."""
COLUMNS: Final = (512, 4096)
"""Candidates that they are compared with at a time, at least and at most."""
TILE: Final = 2**19
"""Distances that are looked at together, between the two."""
SPARE: Final = 88
"""Candidates that a row keeps beyond its votes: as many as lie within the margins where texts are many."""
LARGE: Final = 3 * 10**7
"""Multiplications from which on they are halved if torch and the loops are loaded anyway."""
IMMENSE: Final = 10**12
"""Multiplications that are worth loading it."""
ROUNDING: Final = 2.0**-8
"""What a number changes at most by being rounded to bfloat16, which has eight bits for it, relative to it."""
SLACK: Final = 2.25
"""Margins behind the Q-th from which on none belongs to a list: two, and an eighth for the sums at either end."""
FEWEST: Final = 12
"""Rows of a class from which on products take longer than to shorten the candidates' numbers."""
FULL: Final = 64
"""Rows from which on a product is made for as many as there are."""
LINE: Final = 16
"""Rows of which fewer take as long."""
COLUMN: Final = 128
"""Candidates of which a product has a multiple: one of a new shape takes three tenths of a millisecond to prepare."""
NOTHING: Final = np.zeros((1, 0), dtype=np.uint64)


def ready(rows: int, classes: int, size: int) -> bool:
    """Say whether an election of so many rows and numbers of candidates is large enough, and the processor able."""
    multiplications = rows * size // max(classes, 1)
    if rows < FEWEST * classes or multiplications < (LARGE if "torch" in sys.modules else IMMENSE):
        return False
    return able()


@cache
def able() -> bool:
    """Say whether torch is there and the processor multiplies bfloat16 numbers itself."""
    from tasks.training import computes_bfloat16

    try:
        return computes_bfloat16()
    except MissingPackageError:
        return False


@dataclass(frozen=True, slots=True, eq=False)
class Sieve:
    """What may belong to the lists of rows, on both sides, as `tasks.private.sifting` finds it.

    Every distance stands for all that may have been rounded to it, from its low to its high; those of far are negated.
    ends (rows, 2, Q): the lowest highs, sorted; `limits` (rows, 2): what a low lies below at any rate, which follows
    from `known` (rows, 2), the ends of the lists as they are; values and places (rows, 2, kept): lows, and candidates,
    -1 where there is none; counts (rows, 2): how many; missed (rows, 2): the lowest of what found no room. `fixed`,
    `each` (rows,): margins as `margins` has them, that in float32 within; `most` (1,): the most that one of the
    candidates so far lost. `mine` (more, d): vectors of the rows times -2, and some more lines.
    """

    ends: Vectors
    limits: Vectors
    values: Vectors
    places: Ints
    counts: Ints
    missed: Vectors
    fixed: Floats
    each: Floats
    known: Floats
    most: Floats
    mine: Halves

    @property
    def lists(self) -> tuple[Vectors, Vectors, Vectors, Ints, Ints, Vectors]:
        """What loops take together."""
        return self.ends, self.limits, self.values, self.places, self.counts, self.missed

    @property
    def margin(self) -> Floats:
        """Return how far a distance may lie from the true one, without its own rounding; (rows,)."""
        return np.asarray(self.fixed + self.each * self.most[0])

    def of(self, rows: slice) -> Sieve:
        """Return that of some of the rows."""
        return self._with(lambda part: part[rows])

    def copy(self) -> Sieve:
        """Return the same to be filled by somebody else."""
        return replace(self._with(np.copy), most=self.most.copy())

    def _with(self, change: Callable[[Any], Any]) -> Sieve:
        ends, limits, values, places, counts, missed = map(change, self.lists)
        fixed, each, known = map(change, (self.fixed, self.each, self.known))
        return Sieve(ends, limits, values, places, counts, missed, fixed, each, known, self.most, self.mine)

    def learn(self, most: float) -> Vectors:
        """Widen margins to those of candidates of which one loses so much; return what no low may be behind the ends.

        What was left out before was further behind others by the margins of its time, which cover these others, too.
        """
        self.most[0] = max(self.most[0], most)
        margin = self.margin
        self.limits[:] = up(self.known + (1 + (SLACK - 2) / 2) * margin[:, None])
        return up(SLACK * margin)

    def join(self, other: Sieve) -> None:
        """Take in what somebody else found for the same rows."""
        from tasks.private.sifting import pour

        slacks = self.learn(other.most[0])
        pour(self.lists, other.lists, slacks)

    def found(self, _: Floats) -> Found:
        """Return what was proposed, as `tasks.private.proposals.Proposals.found` does; margins are its own."""
        cuts = np.minimum(self.ends[:, :, -1] + SLACK * self.margin[:, None], self.limits)
        return self.values, self.places, cuts, self.missed


def blank(task: Task, lists: Sequence[Best]) -> Sieve:
    """Return a sieve with nothing in it, which nothing enters that is proven to belong to no list."""
    rows, dimension, votes = *task.vectors.shape, lists[0].keys.shape[1]
    mine, lost = np.zeros((rows + LINE, dimension), np.uint16), np.empty(rows, np.float32)
    shorten(task.vectors * np.float32(-2), np.arange(rows), mine, lost)
    lengths = np.sqrt(task.squares)
    fixed, each = margins(np.minimum(lengths_of(lost) / 2, ROUNDING * lengths), lengths, task.longest, dimension)
    known = np.full((rows, 2), -np.inf)
    for side, best in enumerate(lists):
        known[:, side] = best.limit(task.rows, task.squares, np.zeros(rows))
    return Sieve(
        np.full((rows, 2, votes), np.inf, dtype=np.float32),
        np.empty((rows, 2), dtype=np.float32),
        np.full((rows, 2, votes + SPARE), np.inf, dtype=np.float32),
        np.full((rows, 2, votes + SPARE), -1, dtype=np.int64),
        np.zeros((rows, 2), dtype=np.int64),
        np.full((rows, 2), np.inf, dtype=np.float32),
        fixed + task.margin,
        each,
        known,
        np.zeros(1),
        mine,
    )


def margins(gone: Floats, lengths: Floats, longest: Floats, dimension: int) -> tuple[Floats, Floats]:
    """Bound what bfloat16 adds to the margins of rows in float32 (`comparing.margins`): `fixed` + `each` * most.

    gone, lengths: what rounding takes from each row's vector, and its length; longest: of each row's candidates; most:
    what one of them loses. Rounded vectors x - a and y - b have a product that differs by |a||y| + (|x| + |a|)|b| at
    most. A distance has it twice. The factor is for how lengths were computed, the last term for numbers so small that
    a processor may take them for 0, or that are lost when gaps are squared. That the product is rounded once more is
    not in here: it changes it by 2^-8 of the result at most, and each distance has that from the loops itself.
    """
    factor = 2 * (1 + 2.0**-10)
    small = (dimension + 8) * 2.0**-96 * (1 + lengths + longest)
    return factor * gone * longest + small, factor * (lengths + gone)


def lengths_of(lost: Any) -> Any:
    """Return the lengths of what rounding took, as `tasks.private.sifting.shorten` gives them."""
    from tasks.private.sifting import BEYOND

    return np.sqrt(np.asarray(lost, dtype=np.float64)) / BEYOND


def shorten(vectors: Vectors, places: Ints, halves: Halves, lost: Vectors, marks: Marks | None = None) -> None:
    """Do as the loop of this name does, with vectors as they are; marks are read of the same places."""
    from tasks.private import sifting

    paired = vectors.shape[1] % 2 == 0 and vectors.shape[1] > 0
    pairs, none = vectors.view(np.uint64) if paired else NOTHING, NOTHING[0]
    factors, values = (factors_of(pairs.shape[1]), marks.values) if paired and marks is not None else (none, none)
    sifting.shorten((vectors.view(np.uint32), pairs), places, halves, lost, factors, values)
    if marks is not None and not paired:
        marks.take(places)


def propose(task: Task, standing: Standing, spans: Spans, sieve: Sieve, block: int) -> None:
    """Fill `sieve` with what one pass over the candidates of `spans`, counted in each group, finds.

    The margins of each tile are those of all candidates so far.
    """
    import torch

    from tasks.private.sifting import sift

    torch.get_num_threads()  # a product does not ask, and would take as many as there are in a thread that never did
    widest, rows = max(width(one, block) for one in task.groups), max(len(one.rows) for one in task.groups)
    short = np.empty((_whole(widest, COLUMN), task.vectors.shape[1]), np.uint16)
    lost, room = np.empty(widest, np.float32), np.empty(_height(rows) * len(short), np.uint16)
    lists, slacks, worst, longer = sieve.lists, sieve.learn(0.0), -1.0, ROUNDING * float(task.longest.max())
    with torch.inference_mode():
        mine, theirs, products = (torch.from_numpy(part).view(torch.bfloat16) for part in (sieve.mine, short, room))
        for span, part, group in task.looks(spans):
            number, height = len(group.rows), _height(len(group.rows))
            for first, members in group.parts(*span, width(group, block)):
                places = listed(members)
                size, wide = len(places), _whole(len(places), COLUMN)
                shorten(standing.vectors, places, short, lost, standing.marks if group.marking else None)
                if (most := float(lost[:size].max())) > worst:
                    slacks, worst = sieve.learn(min(float(lengths_of(most)), longer)), most
                tile = room[: height * wide].reshape(height, wide)
                out = products[: height * wide].view(height, wide)
                torch.mm(mine[part.start : part.start + height], theirs[:wide].T, out=out)
                squares = standing.squares[members]
                if size < COLUMN:
                    tile[:, size:], squares = 0, np.pad(squares, (0, COLUMN - size))
                sift(tile, squares, (part.start, number, first, size), slacks, lists)


def _height(rows: int) -> int:
    """Return for how many rows a product is made: few are filled up, so that few different ones have to be prepared."""
    return rows if rows > FULL else _whole(rows, LINE)


def _whole(number: int, step: int) -> int:
    """Return the next multiple of a step."""
    return -(-number // step) * step


def width(group: Group, block: int) -> int:
    """Return how many of the group's candidates to look at together."""
    most = min(block, COLUMNS[1], max(COLUMNS[0], TILE // len(group.rows)))
    return max(1, min(group.size, most - most % COLUMN if most > COLUMN else most))


class _Threads:
    """How many threads new threads' products had; votes of one process at the same time share the restraint."""

    def __init__(self) -> None:
        self.lock, self.inside, self.before = Lock(), 0, 1


_THREADS: Final = _Threads()


@contextmanager
def one_thread() -> Iterator[None]:
    """Give torch's products one thread each while inside, also in threads that begin there.

    torch keeps the number for each thread that has used it, and one for those that begin later.
    """
    import torch

    own = torch.get_num_threads()
    with _THREADS.lock:
        if not _THREADS.inside:
            _THREADS.before = own
        own = _THREADS.before if own == 1 else own  # it may have begun while another vote was inside
        _THREADS.inside += 1
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _THREADS.lock:
            _THREADS.inside -= 1
            torch.set_num_threads(own)
            if _THREADS.inside:  # threads that begin now belong to a vote that is still inside
                other = Thread(target=torch.set_num_threads, args=(1,))
                other.start()
                other.join()
