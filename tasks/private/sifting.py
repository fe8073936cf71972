"""The inner loops of bfloat16 products, compiled when this is imported: numbers shortened, and distances sifted.

Distances of a tile are read as they are, two bytes each. Each stands for whatever may have been rounded to it, from
`low` = distance - its rounding to `high` = distance + its rounding. What these show to be far behind a list's end is
left out; the rest is kept for `tasks.private.settling.settle`, in no order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numba
import numpy as np
from numba import types

from tasks.private.compiled import Loop, entrance, read, written

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bits = NDArray[np.uint32]
    Halves = NDArray[np.uint16]
    Ints = NDArray[np.int64]
    Numbers = NDArray[np.uint64]
    Vectors = NDArray[np.float32]
    Lists = tuple[Vectors, Vectors, Vectors, Ints, Ints, Vectors]
    """Of rows and both sides: ends (rows, 2, Q), limits (rows, 2), values and places (rows, 2, kept), counts and missed
    (rows, 2). See `tasks.private.halves.Sieve`."""

LANES: Final = 64
"""Columns that are looked at as one, and sets of columns whose lowest stand for all where a list begins."""
BEYOND: Final = 2.0**40
"""What a gap is multiplied by before it is squared, so that squares of small ones are not 0."""
HALF_STEP: Final = np.float32(2.0**-8)
"""What a number changes at most by being rounded to bfloat16, relative to the result."""
_SMALL, _WIDE, _PLACE = np.uint16, np.uint32, np.uint64
_NUMBERS: Final = {"nnan", "nsz"}
"""Vectors are finite, so distances are numbers: a minimum is then one instruction."""


def _whole(half: Halves) -> np.float32:
    """Return a bfloat16 number as float32: the same bits, and none behind them."""
    return _WIDE(_WIDE(half) << _WIDE(16)).view(np.float32)


def _shorten(
    vectors: tuple[Bits, Numbers], places: Ints, halves: Halves, lost: Vectors, factors: Numbers, marks: Numbers
) -> None:
    """Round the vectors at these places to bfloat16, to the nearest and if two are to the even one.

    vectors: their bits, by four and by eight bytes. lost: (places,), squared length of what each loses, times the
    square of `BEYOND`; infinite where it is very long. If there are factors, marks are taken as
    `tasks.private.compiled.mark` does, while numbers are at hand.
    """
    bits, pairs = vectors
    for i in range(len(places)):
        line, short, total = bits[places[i]], halves[i], np.float32(0)
        for k in range(len(line)):
            b = line[k]
            rounded = _WIDE(_WIDE(b + _WIDE(0x7FFF) + _WIDE(_WIDE(b >> _WIDE(16)) & _WIDE(1))) >> _WIDE(16))
            short[k] = _SMALL(rounded)
            gap = _WIDE(b).view(np.float32) - _WIDE(rounded << _WIDE(16)).view(np.float32)
            gap *= np.float32(BEYOND)
            total += gap * gap
        lost[i] = total
        if len(factors) > 0:
            two, mark = pairs[places[i]], np.uint64(0)
            for k in range(len(factors)):
                mark += two[k] * factors[k]
            marks[places[i]] = mark


def _outside(tile: Halves, squares: Vectors, at: tuple[int, int], below: np.float32, above: np.float32) -> Any:
    """Say whether any of the columns from `at` on may lie below the one limit (1), or above the other (2), or both (3).

    Without a branch inside, and with places that cannot be negative, so that it is done by vectors.
    """
    low, high = np.int32(0), np.int32(0)
    for k in range(LANES):
        product = whole(tile[_PLACE(at[0]), _PLACE(at[1] + k)])
        value, rounding = squares[_PLACE(at[1] + k)] + product, abs(product) * HALF_STEP
        low |= np.int32(value - rounding < below)
        high |= np.int32(value + rounding > above)
    return low + 2 * high


def _mask(tile: Halves, squares: Vectors, at: tuple[int, int], limit: np.float32, sign: np.float32) -> np.uint64:
    """Return which of the columns from `at` on have a low below the limit, on the side of this sign."""
    mask = _PLACE(0)
    for k in range(LANES):
        product = whole(tile[_PLACE(at[0]), _PLACE(at[1] + k)])
        low = sign * (squares[_PLACE(at[1] + k)] + product) - abs(product) * HALF_STEP
        mask |= _PLACE(low < limit) << _PLACE(k)
    return mask


def _first(mask: np.uint64) -> Any:
    """Return the number of the lowest bit, which is the exponent of that bit alone."""
    return np.int64(np.float64(mask & (~mask + _PLACE(1))).view(np.int64) >> 52) - 1023


def _enter(ends: Vectors, row: int, side: int, high: np.float32) -> None:
    """Put a value that is below the last of a row's sorted ends into them."""
    place = ends.shape[2] - 1
    while place > 0 and ends[_PLACE(row), _PLACE(side), _PLACE(place - 1)] > high:
        ends[_PLACE(row), _PLACE(side), _PLACE(place)] = ends[_PLACE(row), _PLACE(side), _PLACE(place - 1)]
        place -= 1
    ends[_PLACE(row), _PLACE(side), _PLACE(place)] = high


def _keep(lists: Lists, at: tuple[int, int], bound: np.float32, low: np.float32, column: int) -> None:
    """Keep a candidate; if there is no room left, throw out what lies beyond the bound by now, or else the furthest."""
    _, _, values, places, counts, missed = lists
    row, side = _PLACE(at[0]), _PLACE(at[1])
    count = counts[row, side]
    if count == values.shape[2]:
        left = 0
        for k in range(count):
            if values[row, side, k] < bound:
                values[row, side, left], places[row, side, left] = values[row, side, k], places[row, side, k]
                left += 1
        for k in range(left, count):
            places[row, side, k] = -1
        if left == count:
            worst = 0
            for k in range(count):
                worst = k if values[row, side, k] > values[row, side, worst] else worst
            missed[row, side] = min(missed[row, side], max(low, values[row, side, worst]))
            if low < values[row, side, worst]:
                values[row, side, worst], places[row, side, worst] = low, column
            return
        count = left
    values[row, side, _PLACE(count)], places[row, side, _PLACE(count)] = low, column
    counts[row, side] = count + 1


def _lower(tile: Halves, squares: Vectors, at: tuple[int, int], room: Vectors, turn: int) -> None:
    """Bring the smallest high of each set up to date, on both sides; from two lines of `room` (4, LANES) to the others.

    Written where nothing is read: a number that a set leaves as it is would otherwise not be written at all, and
    reading it again would then wait.
    """
    for k in range(LANES):
        product = whole(tile[_PLACE(at[0]), _PLACE(at[1] + k)])
        value, rounding = squares[_PLACE(at[1] + k)] + product, abs(product) * HALF_STEP
        near, far = value + rounding, rounding - value
        before, behind = room[_PLACE(turn), _PLACE(k)], room[_PLACE(turn + 1), _PLACE(k)]
        room[_PLACE(2 - turn), _PLACE(k)] = near if near < before else before
        room[_PLACE(3 - turn), _PLACE(k)] = far if far < behind else behind


def _reach(tile: Halves, squares: Vectors, at: tuple[int, int], room: Vectors, ends: Vectors) -> None:
    """Find values that as many of a row's first columns reach as `ends` (1, 2, Q) has, from both sides.

    The smallest high of each of LANES sets of columns are that many different ones; they are far fewer to sort.
    """
    room[:], ends[:] = np.inf, np.inf
    for start in range(0, at[1] - 2 * LANES + 1, 2 * LANES):
        lower(tile, squares, (at[0], start), room, 0)
        lower(tile, squares, (at[0], start + LANES), room, 2)
    last = ends.shape[2] - 1
    for side in range(2):
        for k in range(LANES):
            if room[side, k] < ends[0, side, last]:
                enter(ends, 0, side, room[side, k])


def _fresh(many: int, some: int, width: int) -> np.uint64:
    """Return which of the columns from `some` on are there, and not before `many`."""
    fresh = ~_PLACE(0) << _PLACE(many - some)
    return fresh if width - some >= LANES else fresh & ((_PLACE(1) << _PLACE(width - some)) - _PLACE(1))


def _sift(tile: Halves, squares: Vectors, start: tuple[int, int, int, int], slacks: Vectors, lists: Lists) -> None:
    """Keep what may belong to the lists of rows, of a tile of -2 times the products, (rows, columns).

    start: first of the rows and how many; number of the first column and how many; what a tile has beyond these is not
    read, but there are LANES columns at least. slacks: (all rows,), what a low must not lie further than behind the
    Q-th high. Nothing is kept beyond that, or beyond a row's limits; what is left out for want of room shows in
    `missed`.
    """
    (begin, rows, first, width), (ends, limits) = start, (lists[0], lists[1])
    last = ends.shape[2] - 1
    room, begun = np.empty((4, LANES), np.float32), np.empty((1, 2, last + 1), np.float32)
    for line in range(rows):
        i = begin + line
        slack, near, far = slacks[i], limits[i, 0], limits[i, 1]
        if width >= 4 * LANES and last < LANES and ends[i, 0, last] == near == np.inf:
            reach(tile, squares, (line, width), room, begun)
            near, far = min(near, begun[0, 0, last] + slack), min(far, begun[0, 1, last] + slack)
        below, above = min(ends[i, 0, last] + slack, near), min(ends[i, 1, last] + slack, far)
        for many in range(0, width, LANES):
            some = max(0, min(many, width - LANES))
            found = outside(tile, squares, (line, some), below, -above)
            if found == 0:
                continue
            new = fresh(many, some, width)
            mask = beyond(tile, squares, (line, some), below, np.float32(1)) & new
            while mask != 0:
                k = some + lowest(mask)
                mask &= mask - _PLACE(1)
                product = whole(tile[_PLACE(line), _PLACE(k)])
                value, rounding = squares[_PLACE(k)] + product, abs(product) * HALF_STEP
                keep(lists, (i, 0), below, value - rounding, first + k)
                if value + rounding < ends[_PLACE(i), 0, last]:
                    enter(ends, i, 0, value + rounding)
                    below = min(ends[i, 0, last] + slack, near)
            mask = beyond(tile, squares, (line, some), above, np.float32(-1)) & new
            while mask != 0:
                k = some + lowest(mask)
                mask &= mask - _PLACE(1)
                product = whole(tile[_PLACE(line), _PLACE(k)])
                value, rounding = squares[_PLACE(k)] + product, abs(product) * HALF_STEP
                keep(lists, (i, 1), above, -value - rounding, first + k)
                if rounding - value < ends[_PLACE(i), 1, last]:
                    enter(ends, i, 1, rounding - value)
                    above = min(ends[i, 1, last] + slack, far)


def _pour(lists: Lists, other: Lists, slacks: Vectors) -> None:
    """Carry what other lists of the same rows keep into lists."""
    ends, limits, missed = lists[0], lists[1], lists[5]
    last = ends.shape[2] - 1
    for i in range(len(slacks)):
        for side in range(2):
            missed[i, side] = min(missed[i, side], other[5][i, side])
            for k in range(last + 1):
                if other[0][i, side, k] < ends[i, side, last]:
                    enter(ends, i, side, other[0][i, side, k])
            bound = min(ends[i, side, last] + slacks[i], limits[i, side])
            for k in range(other[4][i, side]):
                if other[2][i, side, k] < bound:
                    keep(lists, (i, side), bound, other[2][i, side, k], other[3][i, side, k])


def _inlined(function: Loop) -> Loop:
    """Return the function as part of the machine code of whatever calls it: a call hands over arrays one by one."""
    return numba.njit(inline="always", nogil=True, error_model="numpy")(function)  # type: ignore[no-any-return]


whole, lowest, fresh = _inlined(_whole), _inlined(_first), _inlined(_fresh)
outside, beyond, lower = _inlined(_outside), _inlined(_mask), _inlined(_lower)
enter, keep = _inlined(_enter), _inlined(_keep)
reach = numba.njit(nogil=True, error_model="numpy", fastmath=_NUMBERS)(_reach)
_SINGLES, _INTS = types.float32, types.int64
_LISTS = types.Tuple(
    (
        written(_SINGLES, 3), read(_SINGLES, 2), written(_SINGLES, 3),
        written(_INTS, 3), written(_INTS, 2), written(_SINGLES, 2),
    )
)  # fmt: skip
_OF_TILES = read(types.uint16, 2), read(_SINGLES, 1), types.UniTuple(_INTS, 4), read(_SINGLES, 1)
shorten = entrance(
    types.Tuple((read(types.uint32, 2), read(types.uint64, 2))), read(_INTS, 1),
    written(types.uint16, 2), written(_SINGLES, 1), read(types.uint64, 1), written(types.uint64, 1),
    fastmath={"reassoc", "contract", "nsz"},
)(_shorten)  # fmt: skip
sift = entrance(*_OF_TILES, _LISTS, fastmath=_NUMBERS)(_sift)
pour = entrance(_LISTS, _LISTS, read(_SINGLES, 1))(_pour)
