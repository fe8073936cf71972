"""The loops that measure proposals and put them into lists; numba compiles them on import.

No sum may be reordered here: the lists must be identical on every machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numba import types

from tasks.private.nearest.numba_kernels import compiled, compiled_on_import, readonly, writable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Vectors = NDArray[np.float32]

LINE: Final = 16
"""Numbers per cache line."""


def _measure(mine: Vectors, vectors: Vectors, indices: Ints, distances: Floats, room: Floats) -> None:
    """Measure squared distances to the vectors at `indices`.

    Each is summed from the first component to the last. room: (8, d). Eight sums run at a time, because each addition
    waits for the previous one of the same sum.
    """
    for start in range(0, len(indices), len(room)):
        lanes = min(len(room), len(indices) - start)
        for p in range(lanes):
            candidate, squares = vectors[indices[start + p]], room[p]
            for k in range(len(mine)):
                gap = np.float64(mine[k]) - np.float64(candidate[k])
                squares[k] = gap * gap
        a, b, c, d, e, f, g, h = room[0], room[1], room[2], room[3], room[4], room[5], room[6], room[7]
        s0, s1, s2, s3, s4, s5, s6, s7 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for k in range(len(mine)):
            s0, s1, s2, s3 = s0 + a[k], s1 + b[k], s2 + c[k], s3 + d[k]
            s4, s5, s6, s7 = s4 + e[k], s5 + f[k], s6 + g[k], s7 + h[k]
        for p, total in enumerate((s0, s1, s2, s3, s4, s5, s6, s7)):
            if p < lanes:
                distances[start + p] = total


def _touch(vectors: Vectors, indices: Ints) -> np.float32:
    """Prefetch vectors; returning a sum stops the compiler from removing the loop."""
    total = np.float32(0)
    for index in indices:
        for k in range(0, vectors.shape[1], LINE):
            total += vectors[np.uint64(index), np.uint64(k)]
    return total


def _settle(
    rows: tuple[Vectors, Ints],
    arrays: tuple[Vectors, Ints],
    proposed: tuple[Vectors, Ints, Floats, Vectors],
    keys: Floats,
    lists: Ints,
    unsettled: NDArray[np.bool_],
) -> None:
    """Measure proposals and put them into lists; flag rows with incomplete proposals.

    rows: vectors, indices in the lists. arrays: all vectors, all ids. proposed: values; indices among all, -1 for none,
    in any order; cuts, beyond which no candidate belongs to a list; the least value that was missed. keys, lists:
    (sides, all rows, Q), far keys negated. If a candidate may be missing on one side, neither side is changed.
    """
    (mine, at), (vectors, ids), (values, indices, cuts, missed) = rows, arrays, proposed
    sides, length = keys.shape[0], values.shape[2]
    chosen, distances = np.empty(2 * length, np.int64), np.empty(2 * length, np.float64)
    room, ends = np.zeros((8, mine.shape[1]), np.float64), np.zeros(3, np.int64)
    for i in range(len(mine)):
        number = 0
        for side in range(sides):
            unsettled[i] |= missed[i, side] < np.inf and np.float64(missed[i, side]) <= cuts[i, side]
            for k in range(length):
                if indices[i, side, k] >= 0 and np.float64(values[i, side, k]) <= cuts[i, side]:
                    chosen[number] = indices[i, side, k]
                    number += 1
            ends[side + 1] = number
        if unsettled[i]:
            continue
        room[0, 0] = touch(vectors, chosen[:number])  # overwritten by measure
        measure(mine[i], vectors, chosen[:number], distances, room)
        for side in range(sides):
            sign = 1.0 if side == 0 else -1.0
            for p in range(ends[side], ends[side + 1]):
                enter(keys[side, at[i]], lists[side, at[i]], sign * distances[p], ids[chosen[p]])


def _enter(keys: Floats, lists: Ints, key: float, identity: int) -> None:
    """Insert a candidate into one row's list, sorted by (key, id)."""
    position = len(keys)
    while position > 0 and (keys[position - 1] > key or (keys[position - 1] == key and lists[position - 1] > identity)):
        position -= 1
    for later in range(len(keys) - 1, position, -1):
        keys[later], lists[later] = keys[later - 1], lists[later - 1]
    if position < len(keys):
        keys[position], lists[position] = key, identity


enter, measure, touch = compiled(_enter), compiled(_measure), compiled(_touch)
_SINGLES, _DOUBLES, _INTS = types.float32, types.float64, types.int64
settle = compiled_on_import(
    types.Tuple((readonly(_SINGLES, 2), readonly(_INTS, 1))),
    types.Tuple((readonly(_SINGLES, 2), readonly(_INTS, 1))),
    types.Tuple((readonly(_SINGLES, 3), readonly(_INTS, 3), readonly(_DOUBLES, 2), readonly(_SINGLES, 2))),
    writable(_DOUBLES, 3),
    writable(_INTS, 3),
    writable(types.boolean, 1),
)(_settle)
