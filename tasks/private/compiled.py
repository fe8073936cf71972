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


def _scan(tile: Vectors, squares: Vectors, first: int, near: tuple[Vectors, Ints], far: tuple[Vectors, Ints]) -> None:
    """Carry the smallest and the largest of `tile` + `squares` into lists, row by row.

    tile: (rows, columns), -2 times the products; near, far: values (rows, kept), ascending, far ones negated, and their
    columns counted from `first`. A value enters only below the last one of its list.
    """
    (lows, low_columns), (highs, high_columns) = near, far
    last = lows.shape[1] - 1
    for i in range(tile.shape[0]):
        below, above = lows[i, last], -highs[i, last]
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
                    below = lows[i, last]
                if value > above:
                    put(highs[i], high_columns[i], -value, first + start + k)
                    above = -highs[i, last]


def _measure(mine: Vectors, vectors: Vectors, places: Ints, number: int, distances: Floats) -> None:
    """Measure squared distances to the first `number` places, each summed from the first component to the last.

    Four at a time, because each sum must wait for its own last addition only.
    """
    for start in range(0, number, 4):
        end = number - 1
        a, b = places[start], places[min(start + 1, end)]
        c, d = places[min(start + 2, end)], places[min(start + 3, end)]
        sum_a, sum_b, sum_c, sum_d = 0.0, 0.0, 0.0, 0.0
        for k in range(len(mine)):
            x = np.float64(mine[k])
            gap_a, gap_b = x - np.float64(vectors[a, k]), x - np.float64(vectors[b, k])
            gap_c, gap_d = x - np.float64(vectors[c, k]), x - np.float64(vectors[d, k])
            sum_a += gap_a * gap_a
            sum_b += gap_b * gap_b
            sum_c += gap_c * gap_c
            sum_d += gap_d * gap_d
        distances[start : start + 4] = (sum_a, sum_b, sum_c, sum_d)


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
    chosen, distances = np.empty(kept, np.int64), np.empty(kept + 4, np.float64)
    for i in range(len(mine)):
        cut = np.float64(values[i, votes - 1]) + 2 * margins[i]
        if columns[i, kept - 1] >= 0 and np.float64(values[i, kept - 1]) <= cut:
            unsettled[i] = True
            continue
        number = 0
        while number < kept and columns[i, number] >= 0 and np.float64(values[i, number]) <= cut:
            chosen[number] = members[columns[i, number]]
            number += 1
        measure(mine[i], vectors, chosen, number, distances)
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
scan, settle = compiled(_scan), compiled(_settle)
