"""The loops that decide, compiled when this is imported: what was proposed is measured, and put into lists.

No sum may be reordered here: lists are to be the same wherever they are made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numba import types

from tasks.private.nearest.numba_kernels import compiled, entrance, read, written

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Vectors = NDArray[np.float32]

LINE: Final = 16
"""Numbers that come from memory together."""


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


def _touch(vectors: Vectors, places: Ints) -> np.float32:
    """Ask the memory for vectors one right after the other; what is returned makes nobody leave that out."""
    total = np.float32(0)
    for place in places:
        for k in range(0, vectors.shape[1], LINE):
            total += vectors[np.uint64(place), np.uint64(k)]
    return total


def _settle(
    rows: tuple[Vectors, Ints],
    standing: tuple[Vectors, Ints],
    proposed: tuple[Vectors, Ints, Floats, Vectors],
    keys: Floats,
    lists: Ints,
    unsettled: NDArray[np.bool_],
) -> None:
    """Measure what was proposed and put it into the lists; mark rows whose proposals may leave something out.

    rows: vectors, places in the lists. standing: all vectors, all ids. proposed: values and places among all, -1 where
    there is none, in any order; cuts, beyond which nothing belongs to a list; the least that was missed. keys, lists:
    (sides, all rows, Q), those of far negated. Where something may be missing on one side, neither is changed.
    """
    (mine, at), (vectors, ids), (values, places, cuts, missed) = rows, standing, proposed
    sides, kept = keys.shape[0], values.shape[2]
    chosen, distances = np.empty(2 * kept, np.int64), np.empty(2 * kept, np.float64)
    room, ends = np.zeros((8, mine.shape[1]), np.float64), np.zeros(3, np.int64)
    for i in range(len(mine)):
        number = 0
        for side in range(sides):
            unsettled[i] |= missed[i, side] < np.inf and np.float64(missed[i, side]) <= cuts[i, side]
            for k in range(kept):
                if places[i, side, k] >= 0 and np.float64(values[i, side, k]) <= cuts[i, side]:
                    chosen[number] = places[i, side, k]
                    number += 1
            ends[side + 1] = number
        if unsettled[i]:
            continue
        room[0, 0] = touch(vectors, chosen[:number])  # a number that is written over
        measure(mine[i], vectors, chosen[:number], distances, room)
        for side in range(sides):
            sign = 1.0 if side == 0 else -1.0
            for p in range(ends[side], ends[side + 1]):
                enter(keys[side, at[i]], lists[side, at[i]], sign * distances[p], ids[chosen[p]])


def _enter(keys: Floats, lists: Ints, key: float, identity: int) -> None:
    """Put a candidate into one row's list, which is sorted by (key, id)."""
    place = len(keys)
    while place > 0 and (keys[place - 1] > key or (keys[place - 1] == key and lists[place - 1] > identity)):
        place -= 1
    for later in range(len(keys) - 1, place, -1):
        keys[later], lists[later] = keys[later - 1], lists[later - 1]
    if place < len(keys):
        keys[place], lists[place] = key, identity


enter, measure, touch = compiled(_enter), compiled(_measure), compiled(_touch)
_SINGLES, _DOUBLES, _INTS = types.float32, types.float64, types.int64
settle = entrance(
    types.Tuple((read(_SINGLES, 2), read(_INTS, 1))),
    types.Tuple((read(_SINGLES, 2), read(_INTS, 1))),
    types.Tuple((read(_SINGLES, 3), read(_INTS, 3), read(_DOUBLES, 2), read(_SINGLES, 2))),
    written(_DOUBLES, 3),
    written(_INTS, 3),
    written(types.boolean, 1),
)(_settle)
