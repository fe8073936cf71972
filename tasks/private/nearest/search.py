"""Nearest and furthest candidates of every private row, exactly: by (distance, id), whatever the order of work.

A fast float32 product only proposes: every candidate whose rounded distance lies within a proven error bound of the
list's end is measured again in float64, component after component in fixed order, and lists are ordered by
(distance, id). So a row's list is a function of that row and the candidates alone, bit for bit: block sizes, other
rows, exact duplicates, kernels and earlier merges cannot change it.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from connectors.interfaces.errors import ArtifactError, ConfigError
from tasks.private.nearest import gpu
from tasks.private.nearest.blocks import Election, Fast
from tasks.private.nearest.exact import ANY, Best, Group, Standing, compare, together
from tasks.private.nearest.thread_pool import Crew
from tasks.private.nearest.vector_hashes import Loop, Marks, digest_of, marks_of
from tasks.private.voting.ballot import Ballot, Candidates, Secret, usable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

Way = Literal["plain"] | Fast
OF_IDS: Final = np.uint64(0x9E3779B97F4A7C15)
"""What ids are multiplied by in the digest of candidates: any odd number with many ones."""
LARGE: Final = 10**9
"""Multiplications from which on an election is worth the half second that its loops take to load; the first time on a
machine they are compiled for seconds."""


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
    vectors = np.asarray(np.require(candidates.vectors, requirements=("C", "A")))
    with Crew() as crew:
        known = _Known.of(candidates, vectors, _loop(how))
        start, seen = _continued(before, ballot, known, crew)
        keys = np.stack([start.near_keys, start.far_keys])
        ids = np.stack([start.near_ids, start.far_ids])
        lists = [Best(ids[side], keys[side], 1 - 2 * side) for side in range(ballot.sides)]
        fresh = known.others(seen)
        groups = _by_class(ballot, known, fresh)
        at_hand = known.marks if how == "compiled" else None
        standing = Standing(vectors, np.ascontiguousarray(candidates.ids), candidates.squares, at_hand)
        if how == "plain":
            for group in groups:
                compare(ballot.vectors, standing, group, lists, block)
        else:
            stacked = keys[: ballot.sides], ids[: ballot.sides]
            Election(ballot.vectors, standing, lists, stacked, block, how).run(groups, crew)
        known.read(seen, groups if at_hand else [], crew)
    digest = known.digest(known.ids, known.order)
    return Running(ids[0], keys[0], ids[1], keys[1], known.ids, digest, start.ballot_digest)


# --- comparing
def _way(ballot: Ballot, candidates: Candidates) -> Way:
    """Return how to compare an election of this size: the way never changes a list."""
    multiplications = ballot.vectors.size * len(candidates.ids)
    if multiplications >= gpu.LARGE and gpu.exists():
        return "device"
    return "compiled" if multiplications >= LARGE else "plain"


def _loop(way: Way) -> Loop | None:
    """Return the compiled loop that marks vectors, where the way loads compiled loops anyway."""
    if way == "plain":
        return None
    from tasks.private.nearest.numba_kernels import mark

    return mark


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
        some = order + fresh.start if isinstance(fresh, slice) else fresh[order]
        members = [together(some[ends[place] : ends[place + 1]]) for place in range(len(index))]
    rows = np.argsort(of_rows, kind="stable")
    ends = np.searchsorted(of_rows[rows], np.arange(len(members) + 1))
    groups = (Group(rows[ends[place] : ends[place + 1]], some) for place, some in enumerate(members))
    return [group for group in groups if len(group.rows) and group.size]


# --- the state
def _empty(ballot: Ballot) -> Running:
    shape = len(ballot.labels), ballot.votes
    ids, keys = np.full(shape, -1, dtype=np.int64), np.full(shape, np.inf)
    none = np.zeros(0, dtype=np.int64)
    return Running(ids, keys, ids, keys, none, np.zeros(0, dtype=np.uint8), _ballot_digest(ballot))


def _continued(before: Running | None, ballot: Ballot, known: _Known, crew: Crew) -> tuple[Running, Ints]:
    """Return the state to go on with, an empty one if there is none, and the places of what it has seen."""
    empty = _empty(ballot)
    if before is not None and before.near_ids.shape == empty.near_ids.shape:
        places = known.find(before.seen_ids)
        if places is not None and np.array_equal(before.ballot_digest, empty.ballot_digest):
            known.marks.read(together(places if known.ordered else np.sort(places)), crew)
            if np.array_equal(before.seen_digest, known.digest(before.seen_ids, places)):
                return before, places
    return empty, np.zeros(0, dtype=np.int64)


def _ballot_digest(ballot: Ballot) -> NDArray[np.uint8]:
    state = hashlib.blake2b(marks_of(ballot.vectors).tobytes(), digest_size=32)
    state.update(repr(ballot.labels).encode())
    state.update(b"" if ballot.sides == 2 else b"near alone")
    return np.frombuffer(state.digest(), dtype=np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """Candidates by id: `ids` (n,) sorted, `order` (n,) their places; of each place `marks` and `codes` (n,).

    A code stands for one of the labels `names`. `ordered`: whether they are in this order already.
    """

    ids: Ints
    order: Ints
    ordered: bool
    marks: Marks
    names: list[str]
    codes: NDArray[np.int64] | NDArray[np.int16]

    @classmethod
    def of(cls, candidates: Candidates, vectors: NDArray[np.float32], loop: Loop | None) -> _Known:
        """Read everything but the vectors."""
        ids, ordered = candidates.ids, bool((candidates.ids[1:] > candidates.ids[:-1]).all())
        order = np.arange(len(ids)) if ordered else np.argsort(ids, kind="stable")
        names, codes = _coded(candidates.labels)
        return cls(ids if ordered else ids[order], order, ordered, Marks.of(vectors, loop), names, codes)

    def find(self, ids: Ints) -> Ints | None:
        """Return the places of these sorted ids, None where one is missing."""
        if np.array_equal(self.ids[: len(ids)], ids):
            return self.order[: len(ids)]
        at = np.minimum(np.searchsorted(self.ids, ids), max(len(self.ids) - 1, 0))
        return self.order[at] if len(self.ids) and np.array_equal(self.ids[at], ids) else None

    def others(self, seen: Ints) -> Ints | slice:
        """Return all but these places, ascending, as a slice where they lie together."""
        if not len(seen):
            return slice(0, len(self.ids))
        other = np.ones(len(self.ids), dtype=np.bool_)
        other[seen] = False
        return together(np.flatnonzero(other))

    def read(self, seen: Ints, compared: Sequence[Group], crew: Crew) -> None:
        """Read all marks but those of what was seen, and of what was compared, which are read already."""
        if len(seen) + sum(group.size for group in compared) == len(self.ids):
            return
        left = np.ones(len(self.ids), dtype=np.bool_)
        for part in (seen, *(group.members for group in compared)):
            left[part] = False
        self.marks.read(together(np.flatnonzero(left)), crew)

    def digest(self, ids: Ints, places: Ints) -> NDArray[np.uint8]:
        """Return the digest of the candidates with these sorted ids, at these places, whose marks are read."""
        of_names = np.array([_mark_of(name) for name in self.names], dtype=np.uint64)
        at = together(places) if self.ordered else places
        marks = ids.view(np.uint64) * OF_IDS
        marks += self.marks.values[at]
        marks += of_names[self.codes[at]] if len(of_names) > 1 else of_names
        return digest_of(marks)


def _coded(labels: NDArray[Any]) -> tuple[list[str], NDArray[Any]]:
    """Return the distinct labels, and each candidate's number among them; quickly where equal ones lie together."""
    starts = np.append(np.zeros(min(len(labels), 1), np.int64), np.flatnonzero(labels[1:] != labels[:-1]) + 1)
    apart = 8 * len(starts) > len(labels)
    names, codes = _numbered((labels if apart else labels[starts]).tolist())
    if not all(isinstance(label, str) for label in names):
        # 1 and 1.0 are equal, their words are not.
        (names, codes), apart = _numbered([str(label) for label in labels.tolist()]), True
    codes = codes.astype(np.int16) if len(names) < 2**15 else codes
    return names, codes if apart else np.repeat(codes, np.diff(starts, append=len(labels)))


def _numbered(listed: list[Any]) -> tuple[list[Any], Ints]:
    """Return the distinct ones in the order of their first, and the number of each."""
    numbers: dict[Any, int] = defaultdict(count().__next__)
    codes = np.fromiter(map(numbers.__getitem__, listed), dtype=np.int64, count=len(listed))
    return list(numbers), codes


def _mark_of(label: str) -> int:
    return int.from_bytes(hashlib.blake2b(label.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def _sound(ids: Ints, state: Running) -> bool:
    """Say whether every list holds distinct, seen ids: a repeated one would vote twice for a bin."""
    ordered = np.sort(ids, axis=1)
    repeated = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    return bool(not repeated.any() and np.isin(ids[ids >= 0], state.seen_ids).all())
