"""The inner loops of the vote, compiled when this is imported: what a block proposes.

That takes half a second once they are cached on disk, three seconds before; `tasks.private.nearest.blocks` does so for
large elections only. `thin` may reorder a sum, as any product does, because the margins hold for any order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numba
import numpy as np
from numba import types

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Numbers = NDArray[np.uint64]
    Vectors = NDArray[np.float32]

Loop = TypeVar("Loop", bound=Callable[..., Any])
LANES: Final = 64
"""Columns that are looked at as one; the compiler turns this length into vector instructions."""
FEW: Final = 16
"""Columns that are looked at as one where there is something among more."""
SETS: Final = 64
"""Sets of columns whose smallest stand for all where a list begins."""


def compiled(function: Loop) -> Loop:
    """Return the function as machine code for whatever it is called with."""
    return numba.njit(nogil=True, error_model="numpy")(function)  # type: ignore[no-any-return]


def entrance(*takes: Any, **more: Any) -> Callable[[Loop], Loop]:
    """Compile a function for exactly these arguments, kept on disk between processes where a folder can be written.

    For one signature alone, and while this module is imported: numba numbers what it keeps of a function, and two
    processes that keep two signatures at the same time may give them one number, so that one is run for the other.
    """
    settings = {"nogil": True, "error_model": "numpy", **more}

    def decorated(function: Loop) -> Loop:
        try:
            return numba.njit(types.void(*takes), cache=True, **settings)(function)  # type: ignore[no-any-return]
        except RuntimeError:
            return numba.njit(types.void(*takes), **settings)(function)  # type: ignore[no-any-return]

    return decorated


def read(kind: Any, axes: int) -> Any:
    """Return the type of an array in C order that is only read."""
    return types.Array(kind, axes, "C", readonly=True)


def written(kind: Any, axes: int) -> Any:
    """Return the type of an array in C order that is written."""
    return types.Array(kind, axes, "C")


def _put(values: Vectors, columns: Ints, value: np.float32, column: int) -> None:
    """Put a value into a sorted list whose last entry it replaces."""
    place = len(values) - 1
    while place > 0 and values[place - 1] > value:
        values[place], columns[place] = values[place - 1], columns[place - 1]
        place -= 1
    values[place], columns[place] = value, column


def _bound(values: Vectors, votes: int, slack: np.float32) -> np.float32:
    """Return what a value must lie below to enter a list: its last entry, and what lies too far behind the Q-th.

    slack: two margins and an eighth. What lies two behind the Q-th belongs to no list, the rest covers the rounding
    here: a margin is 2^-20 of the value at least, the rounding 2^-24.
    """
    return min(values[len(values) - 1], values[votes - 1] + slack)


def _reach(tile: Vectors, squares: Vectors, room: Vectors, ends: Vectors) -> None:
    """Find values that as many entries of a row reach as `ends` (2, Q) has columns, from both ends, sorted.

    room: (2, SETS). The smallest of each of SETS sets of entries are that many different ones; they are far fewer to
    sort. Those of the second line are negated.
    """
    room[:], ends[:] = np.inf, np.inf
    lows, highs = room[0], room[1]
    for start in range(0, len(tile) - SETS + 1, SETS):
        part, own = tile[start : start + SETS], squares[start : start + SETS]
        for k in range(SETS):
            value = own[k] + part[k]
            lows[k] = value if value < lows[k] else lows[k]
            highs[k] = -value if -value < highs[k] else highs[k]
    for side in range(2):
        best = ends[side]
        for value in room[side]:
            place = len(best)
            while place > 0 and best[place - 1] > value:
                place -= 1
            for later in range(len(best) - 1, place, -1):
                best[later] = best[later - 1]
            if place < len(best):
                best[place] = value


def _scan(
    tile: Vectors, squares: Vectors, start: tuple[int, int], slacks: Vectors, values: Vectors, columns: Ints
) -> None:
    """Carry the smallest and the largest of `tile` + `squares` into lists, row by row.

    tile: (rows, columns), -2 times the products; start: number of the first column, and Q; slacks: (rows,), as `bound`
    has them; values, columns: (rows, 2, kept), near and far: ascending, those of far negated, and their columns. A
    value enters only below the bound of its list, and below what that will be at worst.
    """
    (first, votes), wide = start, tile.shape[1] >= 4 * SETS
    room, ends = np.empty((2, SETS), np.float32), np.empty((2, votes), np.float32)
    for i in range(tile.shape[0]):
        lows, highs, slack = values[i, 0], values[i, 1], slacks[i]
        lowest, highest = np.float32(np.inf), np.float32(np.inf)
        if wide and lows[votes - 1] == np.inf and votes <= SETS:
            reach(tile[i], squares, room, ends)
            lowest, highest = ends[0, votes - 1] + slack, ends[1, votes - 1] + slack
        below, above = min(bound(lows, votes, slack), lowest), -min(bound(highs, votes, slack), highest)
        for many in range(0, tile.shape[1], LANES):
            if not hit(tile[i, many : many + LANES], squares[many : many + LANES], below, above):
                continue
            for some in range(many, min(many + LANES, tile.shape[1]), FEW):
                part, own = tile[i, some : some + FEW], squares[some : some + FEW]
                if not hit(part, own, below, above):
                    continue
                for k in range(len(part)):
                    value = own[k] + part[k]
                    if value < below:
                        put(lows, columns[i, 0], value, first + some + k)
                        below = min(bound(lows, votes, slack), lowest)
                    if value > above:
                        put(highs, columns[i, 1], -value, first + some + k)
                        above = -min(bound(highs, votes, slack), highest)


def _join(values: Vectors, columns: Ints, other_values: Vectors, other_columns: Ints) -> None:
    """Carry the entries of other lists of the same rows into lists, all (rows, 2, kept)."""
    for i in range(values.shape[0]):
        for side in range(2):
            best, last = values[i, side], values.shape[2] - 1
            for k in range(values.shape[2]):
                if other_values[i, side, k] >= best[last]:
                    break
                put(best, columns[i, side], other_values[i, side, k], other_columns[i, side, k])


def _hit(part: Vectors, own: Vectors, below: np.float32, above: np.float32) -> bool:
    """Say whether any sum lies outside of both limits; without a branch inside, so that it is done by vectors."""
    found = np.int32(0)
    for k in range(len(part)):
        value = own[k] + part[k]
        found |= np.int32(value < below) | np.int32(value > above)
    return bool(found != 0)


def _mark(bits: Numbers, places: Ints, factors: Numbers, marks: Numbers) -> None:
    """Write the sum of the lines of bits at these places times the factors, modulo 2^64, to the same places."""
    for place in places:
        line, total = bits[place], np.uint64(0)
        for k in range(len(factors)):
            total += line[k] * factors[k]
        marks[place] = total


def _thin(mine: Vectors, vectors: Vectors, places: Ints, tile: Vectors) -> None:
    """Write the products of few rows with the vectors at these places, which are read where they lie.

    BLAS packs both sides before it multiplies, which pays off for many rows only. Four rows with two vectors at a
    time: so many sums fit into registers. tile: (rows, places).
    """
    last = len(places) - 1
    for j in range(0, len(places), 2):
        x, y = vectors[places[j]], vectors[places[min(j + 1, last)]]
        for i in range(0, len(mine) - 3, 4):
            a, b, c, d = mine[i], mine[i + 1], mine[i + 2], mine[i + 3]
            ax, bx, cx, dx = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
            ay, by, cy, dy = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
            for k in range(len(x)):
                ax, bx, cx, dx = ax + a[k] * x[k], bx + b[k] * x[k], cx + c[k] * x[k], dx + d[k] * x[k]
                ay, by, cy, dy = ay + a[k] * y[k], by + b[k] * y[k], cy + c[k] * y[k], dy + d[k] * y[k]
            tile[i, j], tile[i + 1, j], tile[i + 2, j], tile[i + 3, j] = ax, bx, cx, dx
            if j < last:
                tile[i, j + 1], tile[i + 1, j + 1], tile[i + 2, j + 1], tile[i + 3, j + 1] = ay, by, cy, dy
        for i in range(len(mine) - len(mine) % 4, len(mine)):
            a, ax, ay = mine[i], np.float32(0), np.float32(0)
            for k in range(len(x)):
                ax, ay = ax + a[k] * x[k], ay + a[k] * y[k]
            tile[i, j] = ax
            if j < last:
                tile[i, j + 1] = ay


put, bound, hit, reach = compiled(_put), compiled(_bound), compiled(_hit), compiled(_reach)
_SINGLES, _INTS = types.float32, types.int64
scan = entrance(
    read(_SINGLES, 2),
    read(_SINGLES, 1),
    types.UniTuple(_INTS, 2),
    read(_SINGLES, 1),
    written(_SINGLES, 3),
    written(_INTS, 3),
)(_scan)
join = entrance(written(_SINGLES, 3), written(_INTS, 3), read(_SINGLES, 3), read(_INTS, 3))(_join)
mark = entrance(read(types.uint64, 2), read(_INTS, 1), read(types.uint64, 1), written(types.uint64, 1))(_mark)
thin = entrance(
    read(_SINGLES, 2), read(_SINGLES, 2), read(_INTS, 1), written(_SINGLES, 2), fastmath={"reassoc", "contract", "nsz"}
)(_thin)
