"""Nearest and furthest candidates of every private row, exactly: by (distance, id), whatever the order of work.

A fast float32 product only proposes: every candidate whose rounded distance lies within a proven error bound of the
list's end is measured again in float64, component after component in fixed order, and lists are ordered by
(distance, id). So a row's list is a function of that row and the candidates alone, bit for bit: block sizes, other
rows, exact duplicates, kernels and earlier merges cannot change it.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from connectors.base import ArtifactError, ConfigError
from tasks.private import device
from tasks.private.ballot import Ballot, Candidates, Secret, usable
from tasks.private.blocks import Election
from tasks.private.comparing import Best, Group, Standing, compare
from tasks.private.crew import Crew

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Marks = NDArray[np.uint64]
    Vectors = NDArray[np.float32]

Way = Literal["plain", "compiled", "device"]
LARGE: Final = 5 * 10**9
"""Products from which on an election is worth the half second that its loops take to load."""
ROW_BLOCK: Final = 2048
ANY: Final = 2**40
"""A width of blocks that leaves the choice to whoever compares."""


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


def rank(
    ballot: Ballot, candidates: Candidates, before: Running | None = None, block: int = ANY, way: Way | None = None
) -> Running:
    """Return each row's nearest and furthest candidates of its own class, `ballot.votes` of each (WASP section 3.2).

    A ballot of one side has the nearest alone: its lists of the furthest stay empty.
    Only candidates that `before` has not seen are compared; the result equals a start from nothing. `before` is
    ignored when rows, Q or the candidates it saw have changed. A row without candidates, or whose vector is not
    finite, gets empty lists: no row can make this fail. `block`: candidates to look at together, at most; `way`: how,
    chosen by size if None; neither changes a list. Raises ConfigError for unequal dimensions.
    """
    if ballot.vectors.shape[1] != candidates.vectors.shape[1]:
        raise ConfigError("Private rows and candidates were embedded in different dimensions; use one embedder.")
    how = way or _way(ballot, candidates)
    with Crew() as crew:
        known = _Known.of(candidates, crew if how != "plain" else None)
        start, seen = _continued(before, ballot, known)
        near = Best(start.near_ids.copy(), start.near_keys.copy(), 1)
        far = Best(start.far_ids.copy(), start.far_keys.copy(), -1)
        lists = (near, far)[: ballot.sides]
        groups = _by_class(ballot, known, known.others(seen))
        standing = Standing(np.asarray(candidates.vectors), candidates.ids, candidates.squares)
        if how == "plain":
            for group in groups:
                compare(ballot.vectors, standing, group, lists, block)
        else:
            Election(ballot.vectors, standing, lists, block, how == "device").run(groups, crew)
    digest = known.digest(known.ids, known.order)
    return Running(near.ids, near.keys, far.ids, far.keys, known.ids, digest, start.ballot_digest)


# --- comparing
def _way(ballot: Ballot, candidates: Candidates) -> Way:
    """Return how to compare: what is loaded already costs nothing more, for a large election it is worth loading."""
    large = ballot.vectors.size * len(candidates.ids) >= LARGE
    if large and device.ready():
        return "device"
    return "compiled" if large or "tasks.private.compiled" in sys.modules else "plain"


def _by_class(ballot: Ballot, known: _Known, fresh: Ints | slice) -> list[Group]:
    """Return the private rows and the fresh candidates of every class that has both."""
    index = {name: place for place, name in enumerate(known.names)}
    of_rows = np.array([index.get(label, -1) for label in ballot.labels], dtype=np.int64)
    of_rows[~usable(ballot.vectors)] = -1
    codes = known.codes[fresh]
    if not len(codes):
        return []
    members: list[Ints | slice] = [fresh]
    if len(index) > 1:
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], np.arange(len(index) + 1))
        members = [_places(order[ends[place] : ends[place + 1]], fresh) for place in range(len(index))]
    groups = (Group(np.flatnonzero(of_rows == place), some) for place, some in enumerate(members))
    return [group for group in groups if len(group.rows) and group.size]


def _places(chosen: Ints, fresh: Ints | slice) -> Ints | slice:
    """Return the places of some of the fresh candidates, as a slice where they lie together."""
    places = chosen + fresh.start if isinstance(fresh, slice) else fresh[chosen]
    if not len(places):
        return slice(0, 0)
    first, last = int(places[0]), int(places[-1])
    return slice(first, last + 1) if last - first + 1 == len(places) else places


# --- the state
def _empty(ballot: Ballot) -> Running:
    shape = len(ballot.labels), ballot.votes
    ids, keys = np.full(shape, -1, dtype=np.int64), np.full(shape, np.inf)
    none = np.zeros(0, dtype=np.int64)
    return Running(ids, keys, ids, keys, none, np.zeros(0, dtype=np.uint8), _ballot_digest(ballot))


def _continued(before: Running | None, ballot: Ballot, known: _Known) -> tuple[Running, Ints]:
    """Return the state to go on with, an empty one if there is none, and the places of what it has seen."""
    if before is not None and before.near_ids.shape == (len(ballot.labels), ballot.votes):
        places = known.find(before.seen_ids)
        same_rows = np.array_equal(before.ballot_digest, _ballot_digest(ballot))
        if same_rows and places is not None:
            same = np.array_equal(before.seen_digest, known.digest(before.seen_ids, places))
            return (before, places) if same else (_empty(ballot), places[:0])
    return _empty(ballot), np.zeros(0, dtype=np.int64)


def _ballot_digest(ballot: Ballot) -> NDArray[np.uint8]:
    state = hashlib.blake2b(_marks(ballot.vectors).tobytes(), digest_size=32)
    state.update(repr(ballot.labels).encode())
    state.update(b"" if ballot.sides == 2 else b"near alone")
    return np.frombuffer(state.digest(), dtype=np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """Candidates by id: `ids` (n,) sorted, `order` (n,) their places; of each place `marks` (n,) and `codes` (n,).

    A mark stands for vector and label, a code for one of the labels `names`.
    """

    ids: Ints
    order: Ints
    marks: Marks
    names: list[str]
    codes: NDArray[np.int64] | NDArray[np.int16]

    @classmethod
    def of(cls, candidates: Candidates, crew: Crew | None = None) -> _Known:
        """Read all candidates once."""
        order = np.argsort(candidates.ids, kind="stable")
        names, codes = _coded(candidates.labels)
        of_names = np.array([_mark_of(name) for name in names], dtype=np.uint64)
        marks = _marks(candidates.vectors, crew)
        marks += of_names[codes]
        return cls(candidates.ids[order], order, marks, names, codes)

    def find(self, ids: Ints) -> Ints | None:
        """Return the places of these sorted ids, None where one is missing."""
        if np.array_equal(self.ids[: len(ids)], ids):
            return self.order[: len(ids)]
        at = np.minimum(np.searchsorted(self.ids, ids), max(len(self.ids) - 1, 0))
        return self.order[at] if len(self.ids) and np.array_equal(self.ids[at], ids) else None

    def others(self, seen: Ints) -> Ints | slice:
        """Return all but these places, ascending, as a slice where they lie together."""
        other = np.ones(len(self.ids), dtype=np.bool_)
        other[seen] = False
        return _places(np.flatnonzero(other), slice(0, len(self.ids)))

    def digest(self, ids: Ints, places: Ints) -> NDArray[np.uint8]:
        """Return the digest of the candidates with these sorted ids, at these places."""
        state = hashlib.blake2b(ids.tobytes(), digest_size=32)
        state.update(self.marks[places].tobytes())
        return np.frombuffer(state.digest(), dtype=np.uint8)


def _coded(labels: NDArray[Any]) -> tuple[list[str], NDArray[Any]]:
    """Return the distinct labels, and each candidate's number among them; quickly where equal ones lie together."""
    starts = np.append(np.zeros(min(len(labels), 1), np.int64), np.flatnonzero(labels[1:] != labels[:-1]) + 1)
    apart = 8 * len(starts) > len(labels)
    listed = (labels if apart else labels[starts]).tolist()
    if not all(isinstance(label, str) for label in set(listed)):
        # 1 and 1.0 are equal, their words are not.
        listed, apart = [str(label) for label in labels.tolist()], True
    index = {label: code for code, label in enumerate(dict.fromkeys(listed))}
    kind = np.int16 if len(index) < 2**15 else np.int64
    codes = np.fromiter(map(index.__getitem__, listed), dtype=kind, count=len(listed))
    return list(index), codes if apart else np.repeat(codes, np.diff(starts, append=len(labels)))


def _marks(vectors: Vectors, crew: Crew | None = None) -> Marks:
    """Return 64 bits of each vector, (n,): sums of its bits times fixed odd numbers, modulo 2^64.

    It notices what was embedded anew, not what somebody builds to escape it: votes on wrong vectors would be useless,
    and no less private. A cryptographic digest of all vectors would take a third of the time of the vote.
    """
    whole = vectors.shape[1] % 2 == 0
    factors = _factors(vectors.shape[1] // 2 if whole else vectors.shape[1])
    marks = np.empty(len(vectors), dtype=np.uint64)

    def mark(start: int) -> None:
        part = np.ascontiguousarray(vectors[start : start + ROW_BLOCK])
        bits = part.view(np.uint64) if whole else part.view(np.uint32).astype(np.uint64)
        marks[start : start + ROW_BLOCK] = np.einsum("ij,j->i", bits, factors)

    starts = range(0, len(vectors), ROW_BLOCK)
    if crew is None:
        for start in starts:
            mark(start)
    else:
        crew.map(mark, starts)
    return marks


@lru_cache(maxsize=8)
def _factors(number: int) -> Marks:
    drawn = hashlib.shake_256(b"marks of vectors").digest(8 * number)
    return np.frombuffer(drawn, dtype="<u8").astype(np.uint64) | np.uint64(1)


def _mark_of(label: str) -> int:
    return int.from_bytes(hashlib.blake2b(label.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def _sound(ids: Ints, state: Running) -> bool:
    """Say whether every list holds distinct, seen ids: a repeated one would vote twice for a bin."""
    ordered = np.sort(ids, axis=1)
    repeated = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    return bool(not repeated.any() and np.isin(ids[ids >= 0], state.seen_ids).all())
