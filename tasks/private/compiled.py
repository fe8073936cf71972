"""The two inner loops of the vote, compiled on first use: what a block proposes, and what is measured of that.

Importing this module imports numba and takes about half a second; `tasks.private.comparing` does so for large elections
only. No loop may reorder a sum: there is no `fastmath` here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numba
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Vectors = NDArray[np.float32]

Loop = TypeVar("Loop", bound=Callable[..., Any])
LANES: Final = 64
"""Columns that are looked at as one; the compiler turns this length into vector instructions."""
SETS: Final = 64
"""Sets of columns whose smallest stand for all where a list begins."""


def compiled(function: Loop) -> Loop:
    """Return the function as machine code, kept on disk between processes where a folder for that can be written."""
    settings = {"nogil": True, "error_model": "numpy"}
    try:
        return numba.njit(cache=True, **settings)(function)  # type: ignore[no-any-return]
    except RuntimeError:
        return numba.njit(**settings)(function)  # type: ignore[no-any-return]


def _put(values: Vectors, columns: Ints, value: np.float32, column: int) -> None:
    """Put a value into a sorted list whose last entry it replaces."""
    place = len(values) - 1
    while place > 0 and values[place - 1] > value:
        values[place], columns[place] = values[place - 1], columns[place - 1]
        place -= 1
    values[place], columns[place] = value, column


def _reach(tile: Vectors, squares: Vectors, room: tuple[Vectors, Vectors], ends: Vectors, columns: Ints) -> None:
    """Find values that as many entries of a row reach as a list keeps, from both ends: `ends`, the second one negated.

    The smallest of each of SETS sets of entries are that many different ones; they are far fewer to sort.
    """
    lows, highs = room
    lows[:], highs[:] = np.inf, np.inf
    for start in range(0, len(tile) - len(lows) + 1, len(lows)):
        part, own = tile[start : start + len(lows)], squares[start : start + len(lows)]
        for k in range(len(part)):
            value = own[k] + part[k]
            lows[k] = value if value < lows[k] else lows[k]
        for k in range(len(part)):
            value = -own[k] - part[k]
            highs[k] = value if value < highs[k] else highs[k]
    kept = np.empty(len(columns), dtype=np.float32)
    for side in range(2):
        kept[:] = np.inf
        for value in room[side]:
            if value < kept[-1]:
                put(kept, columns, value, 0)
        ends[side] = np.nextafter(kept[-1], np.float32(np.inf))


def _scan(tile: Vectors, squares: Vectors, first: int, near: tuple[Vectors, Ints], far: tuple[Vectors, Ints]) -> None:
    """Carry the smallest and the largest of `tile` + `squares` into lists, row by row.

    tile: (rows, columns), -2 times the products; near, far: values (rows, kept), ascending, far ones negated, and their
    columns counted from `first`. A value enters only below the last one of its list, and below what the list will end
    with at worst.
    """
    (lows, low_columns), (highs, high_columns) = near, far
    last, ends = lows.shape[1] - 1, np.empty(2, np.float32)
    room, scratch = (np.empty(SETS, np.float32), np.empty(SETS, np.float32)), np.empty(last + 1, np.int64)
    for i in range(tile.shape[0]):
        ends[:] = np.inf
        if lows[i, last] == np.inf and tile.shape[1] >= 4 * SETS and last < SETS:
            reach(tile[i], squares, room, ends, scratch)
        below, above = min(lows[i, last], ends[0]), -min(highs[i, last], ends[1])
        for start in range(0, tile.shape[1], LANES):
            part, own = tile[i, start : start + LANES], squares[start : start + LANES]
            hit = np.int32(0)
            for k in range(len(part)):
                value = own[k] + part[k]
                hit |= np.int32(value < below) | np.int32(value > above)
            if hit == 0:
                continue
            for k in range(len(part)):
                value = own[k] + part[k]
                if value < below:
                    put(lows[i], low_columns[i], value, first + start + k)
                    below = min(lows[i, last], ends[0])
                if value > above:
                    put(highs[i], high_columns[i], -value, first + start + k)
                    above = -min(highs[i, last], ends[1])


def _measure(mine: Vectors, vectors: Vectors, places: Ints, distances: Floats, room: Floats) -> None:
    """Measure squared distances to the vectors at `places`, each summed from the first component to the last.

    room: (8, d). Eight sums at a time, because each must wait for its own last addition.
    """
    for start in range(0, len(places), len(room)):
        lanes = min(len(room), len(places) - start)
        for p in range(lanes):
            other, squares = vectors[places[start + p]], room[p]
            for k in range(len(mine)):
                gap = np.float64(mine[k]) - np.float64(other[k])
                squares[k] = gap * gap
        a, b, c, d, e, f, g, h = room[0], room[1], room[2], room[3], room[4], room[5], room[6], room[7]
        s0, s1, s2, s3, s4, s5, s6, s7 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for k in range(len(mine)):
            s0, s1, s2, s3 = s0 + a[k], s1 + b[k], s2 + c[k], s3 + d[k]
            s4, s5, s6, s7 = s4 + e[k], s5 + f[k], s6 + g[k], s7 + h[k]
        for p, total in enumerate((s0, s1, s2, s3, s4, s5, s6, s7)):
            if p < lanes:
                distances[start + p] = total


def _settle(
    rows: tuple[Vectors, Ints, Floats],
    standing: tuple[Vectors, Ints, Ints],
    proposed: tuple[Vectors, Ints],
    best: tuple[Floats, Ints],
    sign: float,
    unsettled: NDArray[np.bool_],
) -> None:
    """Measure what was proposed and put it into the lists; mark rows whose proposals may leave something out.

    rows: vectors, places in the lists, margins. standing: all vectors, all ids, places of the proposed columns.
    Whatever is not among a row's kept proposals is worse than the last of them; if that one lies more than two margins
    behind the Q-th, nothing is missing.
    """
    (mine, at, margins), (vectors, ids, members), (values, columns), (keys, lists) = rows, standing, proposed, best
    votes, kept = keys.shape[1], values.shape[1]
    chosen, distances = np.empty(kept, np.int64), np.empty(kept, np.float64)
    room = np.zeros((8, mine.shape[1]), np.float64)
    for i in range(len(mine)):
        cut = np.float64(values[i, votes - 1]) + 2 * margins[i]
        if columns[i, kept - 1] >= 0 and np.float64(values[i, kept - 1]) <= cut:
            unsettled[i] = True
            continue
        number = 0
        while number < kept and columns[i, number] >= 0 and np.float64(values[i, number]) <= cut:
            chosen[number] = members[columns[i, number]]
            number += 1
        measure(mine[i], vectors, chosen[:number], distances, room)
        for p in range(number):
            enter(keys[at[i]], lists[at[i]], sign * distances[p], ids[chosen[p]])


def _enter(keys: Floats, lists: Ints, key: float, identity: int) -> None:
    """Put a candidate into one row's list, which is sorted by (key, id)."""
    place = len(keys)
    while place > 0 and (keys[place - 1] > key or (keys[place - 1] == key and lists[place - 1] > identity)):
        place -= 1
    for later in range(len(keys) - 1, place, -1):
        keys[later], lists[later] = keys[later - 1], lists[later - 1]
    if place < len(keys):
        keys[place], lists[place] = key, identity


put, enter, measure = compiled(_put), compiled(_enter), compiled(_measure)
reach = compiled(_reach)
scan, settle = compiled(_scan), compiled(_settle)
