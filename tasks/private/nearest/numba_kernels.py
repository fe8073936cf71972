"""The inner loops that propose candidates in a block; numba compiles them on import.

The import takes half a second with the disk cache, three seconds without it. `tasks.private.nearest.blocks` imports
this module for large votes only. `thin` may reorder a sum, as any product does, because the margins hold for any order.
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
"""Columns checked together; the compiler turns this length into vector instructions."""
FEW: Final = 16
"""Columns checked together within LANES columns that have a hit."""
SETS: Final = 64
"""Sets of columns whose minima bound the first entries of a list."""


def compiled(function: Loop) -> Loop:
    """Compile a function for every signature that it is called with."""
    return numba.njit(nogil=True, error_model="numpy")(function)  # type: ignore[no-any-return]


def compiled_on_import(*takes: Any, **more: Any) -> Callable[[Loop], Loop]:
    """Compile a function for exactly these arguments; cache it on disk if possible.

    It compiles one signature only, on import. numba numbers the cached signatures of a function: two processes that
    cache two signatures at the same time can give both the same number, and then one runs in place of the other.
    """
    settings = {"nogil": True, "error_model": "numpy", **more}

    def decorated(function: Loop) -> Loop:
        try:
            return numba.njit(types.void(*takes), cache=True, **settings)(function)  # type: ignore[no-any-return]
        except RuntimeError:
            return numba.njit(types.void(*takes), **settings)(function)  # type: ignore[no-any-return]

    return decorated


def readonly(kind: Any, axes: int) -> Any:
    """Return the type of a read-only array in C order."""
    return types.Array(kind, axes, "C", readonly=True)


def writable(kind: Any, axes: int) -> Any:
    """Return the type of a writable array in C order."""
    return types.Array(kind, axes, "C")


def _put(values: Vectors, columns: Ints, value: np.float32, column: int) -> None:
    """Insert a value into a sorted list; it replaces the last entry."""
    position = len(values) - 1
    while position > 0 and values[position - 1] > value:
        values[position], columns[position] = values[position - 1], columns[position - 1]
        position -= 1
    values[position], columns[position] = value, column


def _bound(values: Vectors, votes: int, slack: np.float32) -> np.float32:
    """Return the strict upper bound for a value that enters a list.

    It is the smaller of the last entry and the Q-th entry plus slack. slack: two margins and an eighth. A value two
    margins behind the Q-th belongs to no list; the eighth covers the rounding here: a margin is at least 2^-20 of the
    value, the rounding 2^-24.
    """
    return min(values[len(values) - 1], values[votes - 1] + slack)


def _reach(tile: Vectors, squares: Vectors, room: Vectors, ends: Vectors) -> None:
    """Write sorted bounds to `ends` (2, Q): at least k + 1 entries reach the k-th.

    The first line is for small values, the second for large values, negated. room: (2, SETS), a buffer. The minima of
    SETS sets of entries are SETS different entries, and far fewer to sort.
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
            position = len(best)
            while position > 0 and best[position - 1] > value:
                position -= 1
            for later in range(len(best) - 1, position, -1):
                best[later] = best[later - 1]
            if position < len(best):
                best[position] = value


def _scan(
    tile: Vectors, squares: Vectors, start: tuple[int, int], slacks: Vectors, values: Vectors, columns: Ints
) -> None:
    """Insert the smallest and largest of `tile` + `squares` into lists, row by row.

    tile: (rows, columns), -2 times the products; start: number of the first column, and Q; slacks: (rows,), as in
    `bound`; values, columns: (rows, 2, length), near and far: ascending (far negated) and their columns. A value enters
    only below the bound of its list, and below the worst case of that bound.
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
        for wide_start in range(0, tile.shape[1], LANES):
            wide_end = wide_start + LANES
            if not hit(tile[i, wide_start:wide_end], squares[wide_start:wide_end], below, above):
                continue
            for few_start in range(wide_start, min(wide_end, tile.shape[1]), FEW):
                part, own = tile[i, few_start : few_start + FEW], squares[few_start : few_start + FEW]
                if not hit(part, own, below, above):
                    continue
                for k in range(len(part)):
                    value = own[k] + part[k]
                    if value < below:
                        put(lows, columns[i, 0], value, first + few_start + k)
                        below = min(bound(lows, votes, slack), lowest)
                    if value > above:
                        put(highs, columns[i, 1], -value, first + few_start + k)
                        above = -min(bound(highs, votes, slack), highest)


def _join(values: Vectors, columns: Ints, other_values: Vectors, other_columns: Ints) -> None:
    """Insert other lists of the same rows into lists, all (rows, 2, length)."""
    for i in range(values.shape[0]):
        for side in range(2):
            best, last = values[i, side], values.shape[2] - 1
            for k in range(values.shape[2]):
                if other_values[i, side, k] >= best[last]:
                    break
                put(best, columns[i, side], other_values[i, side, k], other_columns[i, side, k])


def _hit(part: Vectors, own: Vectors, below: np.float32, above: np.float32) -> bool:
    """Return whether any sum is below `below` or above `above`.

    The loop has no branch, because vector instructions require that.
    """
    hits = np.int32(0)
    for k in range(len(part)):
        value = own[k] + part[k]
        hits |= np.int32(value < below) | np.int32(value > above)
    return bool(hits != 0)


def _hash_vectors(bits: Numbers, indices: Ints, factors: Numbers, hashes: Numbers) -> None:
    """Write the sum of bits times factors, modulo 2^64, at these indices."""
    for index in indices:
        line, total = bits[index], np.uint64(0)
        for k in range(len(factors)):
            total += line[k] * factors[k]
        hashes[index] = total


def _thin(mine: Vectors, vectors: Vectors, indices: Ints, tile: Vectors) -> None:
    """Write the products of few rows with the vectors at these indices, read in place.

    BLAS packs both sides before it multiplies, which pays off for many rows only. The loop takes four rows and two
    vectors at a time, because that many sums fit into registers. tile: (rows, indices).
    """
    last = len(indices) - 1
    for j in range(0, len(indices), 2):
        x, y = vectors[indices[j]], vectors[indices[min(j + 1, last)]]
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
scan = compiled_on_import(
    readonly(_SINGLES, 2),
    readonly(_SINGLES, 1),
    types.UniTuple(_INTS, 2),
    readonly(_SINGLES, 1),
    writable(_SINGLES, 3),
    writable(_INTS, 3),
)(_scan)
join = compiled_on_import(writable(_SINGLES, 3), writable(_INTS, 3), readonly(_SINGLES, 3), readonly(_INTS, 3))(_join)
hash_vectors = compiled_on_import(
    readonly(types.uint64, 2), readonly(_INTS, 1), readonly(types.uint64, 1), writable(types.uint64, 1)
)(_hash_vectors)
thin = compiled_on_import(
    readonly(_SINGLES, 2),
    readonly(_SINGLES, 2),
    readonly(_INTS, 1),
    writable(_SINGLES, 2),
    fastmath={"reassoc", "contract", "nsz"},
)(_thin)
