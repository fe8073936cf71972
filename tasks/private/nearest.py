"""Nearest and furthest candidates of every private row, exactly: by (distance, id), whatever the order of work.

A fast float32 product only proposes: every candidate whose rounded distance lies within a proven error bound of the
list's end is measured again in float64, component after component in fixed order, and lists are ordered by
(distance, id). So a row's list is a function of that row and the candidates alone, bit for bit: block sizes, other
rows, exact duplicates, kernels and earlier merges cannot change it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from connectors.base import ArtifactError, ConfigError
from tasks.private.ballot import Ballot, Candidates, Secret, usable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Vectors = NDArray[np.float32]

ROW_BLOCK: Final = 512
PAIR_BLOCK: Final = 4096


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Running(Secret):
    """Every private row's best candidates so far; as private as the rows, kept in the private zone only.

    `near_ids`, `far_ids` (M, Q): ids, best first, -1 where the class has fewer. `near_keys`, `far_keys` (M, Q):
    squared distances, negated for far, so that smaller is better; infinite where the id is -1. `seen_ids`: the
    candidates compared so far. The digests tell whether rows and seen candidates are still the same.
    """

    near_ids: Ints
    near_keys: Floats
    far_ids: Ints
    far_keys: Floats
    seen_ids: Ints
    seen_digest: NDArray[np.uint8]
    ballot_digest: NDArray[np.uint8]

    __reduce__ = Secret.__reduce__
    __getstate__ = Secret.__reduce__

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as named arrays, for a file in the private zone."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Running:
        """Read back what `to_arrays` gave; ArtifactError when it cannot be that."""
        damaged = ArtifactError("The running votes of the private zone are damaged; delete them, the vote starts over.")
        if set(arrays) != set(cls.__dataclass_fields__):
            raise damaged
        state = cls(**{name: np.asarray(array) for name, array in arrays.items()})
        shape = state.near_ids.shape
        same = all(array.shape == shape for array in (state.near_keys, state.far_ids, state.far_keys))
        if len(shape) != 2 or not same or not (_sound(state.near_ids, state) and _sound(state.far_ids, state)):
            raise damaged
        return state


def rank(ballot: Ballot, candidates: Candidates, before: Running | None = None, block: int = 4096) -> Running:
    """Return each row's nearest and furthest candidates of its own class, `ballot.votes` of each (WASP section 3.2).

    A ballot of one side has the nearest alone: its lists of the furthest stay empty.
    Only candidates that `before` has not seen are compared; the result equals a start from nothing. `before` is
    ignored when rows, Q or the candidates it saw have changed. A row without candidates, or whose vector is not
    finite, gets empty lists: no row can make this fail. Raises ConfigError for unequal dimensions.
    """
    if ballot.vectors.shape[1] != candidates.vectors.shape[1]:
        raise ConfigError("Private rows and candidates were embedded in different dimensions; use one embedder.")
    start = _empty(ballot) if before is None or not _continues(before, ballot, candidates) else before
    fresh = candidates.take(np.flatnonzero(~np.isin(candidates.ids, start.seen_ids)))
    near = _Best(start.near_ids.copy(), start.near_keys.copy(), 1)
    far = _Best(start.far_ids.copy(), start.far_keys.copy(), -1)
    for places, some in _by_class(ballot, fresh, block):
        _compare(ballot.vectors[places], places, some, (near, far)[: ballot.sides])
    seen = np.sort(candidates.ids)
    return Running(near.ids, near.keys, far.ids, far.keys, seen, _digest(candidates, seen), start.ballot_digest)


# --- comparing
@dataclass(frozen=True, slots=True, eq=False)
class _Best:
    """Lists that are being filled in place; `sign` 1 looks for small distances, -1 for large ones."""

    ids: Ints
    keys: Floats
    sign: int

    def hits(self, places: Ints, rounded: Vectors, squares: Floats, margin: Floats) -> tuple[Ints, Ints]:
        """Return (row, column) of all entries of `rounded` that could belong to the lists of the rows at `places`."""
        votes = self.keys.shape[1]
        limit = self.keys[places, -1] - self.sign * squares + margin
        extreme = rounded.min(axis=1) if self.sign > 0 else -rounded.max(axis=1)
        improved = np.flatnonzero(extreme <= limit)
        part = rounded[improved] if self.sign > 0 else -rounded[improved]
        mask = part <= _up(limit[improved])
        if part.shape[1] > votes and np.count_nonzero(mask) > 4 * votes * len(improved):
            closest = np.partition(part, votes - 1, axis=1)[:, votes - 1] + 2 * margin[improved]
            mask &= part <= _up(closest)
        found, columns = np.nonzero(mask)
        return improved[found], columns

    def merge(self, places: Ints, distances: Floats, ids: Ints) -> None:
        """Put candidates `ids` at `distances` into the lists of the rows at `places`; all three have one length."""
        rows, votes = np.unique(places), self.keys.shape[1]
        all_rows = np.concatenate([np.repeat(rows, votes), places])
        all_keys = np.concatenate([self.keys[rows].ravel(), self.sign * distances])
        all_ids = np.concatenate([self.ids[rows].ravel(), ids])
        order = np.lexsort((all_ids, all_keys, all_rows))
        first = np.searchsorted(all_rows[order], rows)
        best = order[first[:, None] + np.arange(votes)]
        self.ids[rows], self.keys[rows] = all_ids[best], all_keys[best]


def _compare(vectors: Vectors, places: Ints, some: Candidates, lists: Sequence[_Best]) -> None:
    squares = np.einsum("ij,ij->i", some.vectors, some.vectors, dtype=np.float64)
    longest = float(np.sqrt(squares.max()))
    for start in range(0, len(places), ROW_BLOCK):
        mine, here = vectors[start : start + ROW_BLOCK], places[start : start + ROW_BLOCK]
        own = np.einsum("ij,ij->i", mine, mine, dtype=np.float64)
        rounded = mine @ some.vectors.T
        rounded *= -2
        rounded += squares.astype(np.float32)
        margin = _margin(np.sqrt(own), longest, vectors.shape[1])
        for best in lists:
            found, columns = best.hits(here, rounded, own, margin)
            if len(found):
                best.merge(here[found], _distances(mine, some.vectors, found, columns), some.ids[columns])


def _margin(lengths: Floats, longest: float, dimension: int) -> Floats:
    """Bound how far a rounded distance, or the float64 one, may lie from the true one; any order of summation.

    A float32 product of two vectors errs by at most d * 2^-24 * |x||y| (Higham 2002, section 3.1); doubled throughout.
    """
    product = (dimension + 8) * 2.0**-22 * lengths * longest + 4 * 2.0**-23 * longest**2
    measured = (dimension + 8) * 2.0**-50 * (lengths + longest) ** 2
    return product + measured + 1e-35


def _distances(mine: Vectors, theirs: Vectors, rows: Ints, columns: Ints) -> Floats:
    """Return squared distances of pairs, float64, summed from the first component to the last."""
    result = np.empty(len(rows))
    for start in range(0, len(rows), PAIR_BLOCK):
        part = slice(start, start + PAIR_BLOCK)
        gap = mine[rows[part]].astype(np.float64) - theirs[columns[part]]
        # A running sum has one order by definition; a plain sum may choose its order by the shape of the block.
        result[part] = np.add.accumulate(gap * gap, axis=1)[:, -1] if gap.shape[1] else 0.0
    return result


def _up(limit: Floats) -> Vectors:
    """Return limits as a float32 column, rounded upwards."""
    return np.nextafter(limit.astype(np.float32), np.float32(np.inf))[:, None]


def _by_class(ballot: Ballot, fresh: Candidates, block: int) -> Iterator[tuple[Ints, Candidates]]:
    """Yield (places of a class's private rows, a block of its candidates)."""
    names = [str(label) for label in fresh.labels]
    index = {name: place for place, name in enumerate(dict.fromkeys(names))}
    of_rows = np.array([index.get(label, -1) for label in ballot.labels], dtype=np.int64)
    of_rows[~usable(ballot.vectors)] = -1
    of_fresh = np.array([index[name] for name in names], dtype=np.int64)
    order = np.argsort(of_fresh, kind="stable")
    ends = np.searchsorted(of_fresh[order], np.arange(len(index) + 1))
    for place in range(len(index)):
        mine = np.flatnonzero(of_rows == place)
        members = order[ends[place] : ends[place + 1]]
        for start in range(0, len(members) if len(mine) else 0, block):
            yield mine, fresh.take(members[start : start + block])


# --- the state
def _empty(ballot: Ballot) -> Running:
    shape = len(ballot.labels), ballot.votes
    ids, keys = np.full(shape, -1, dtype=np.int64), np.full(shape, np.inf)
    none = np.zeros(0, dtype=np.int64)
    return Running(ids, keys, ids, keys, none, np.zeros(0, dtype=np.uint8), _ballot_digest(ballot))


def _continues(before: Running, ballot: Ballot, candidates: Candidates) -> bool:
    same_shape = before.near_ids.shape == (len(ballot.labels), ballot.votes)
    if not same_shape or not np.isin(before.seen_ids, candidates.ids).all():
        return False
    same_rows = np.array_equal(before.ballot_digest, _ballot_digest(ballot))
    return same_rows and np.array_equal(before.seen_digest, _digest(candidates, before.seen_ids))


def _ballot_digest(ballot: Ballot) -> NDArray[np.uint8]:
    state = hashlib.blake2b(np.ascontiguousarray(ballot.vectors).tobytes(), digest_size=32)
    state.update(repr(ballot.labels).encode())
    state.update(b"" if ballot.sides == 2 else b"near alone")
    return np.frombuffer(state.digest(), dtype=np.uint8)


def _digest(candidates: Candidates, ids: Ints) -> NDArray[np.uint8]:
    """Return the digest of the candidates with these sorted ids, in this order."""
    order = np.argsort(candidates.ids, kind="stable")
    places = order[np.searchsorted(candidates.ids[order], ids)]
    state = hashlib.blake2b(ids.tobytes(), digest_size=32)
    for start in range(0, len(places), PAIR_BLOCK):
        state.update(candidates.vectors[places[start : start + PAIR_BLOCK]].tobytes())
    state.update(repr([str(candidates.labels[place]) for place in places]).encode())
    return np.frombuffer(state.digest(), dtype=np.uint8)


def _sound(ids: Ints, state: Running) -> bool:
    """Say whether every list holds distinct, seen ids: a repeated one would vote twice for a bin."""
    ordered = np.sort(ids, axis=1)
    repeated = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    return bool(not repeated.any() and np.isin(ids[ids >= 0], state.seen_ids).all())
