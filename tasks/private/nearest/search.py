"""Exact search for the nearest and furthest candidates of every private row, ordered by (distance, id).

A fast float32 product only proposes candidates. Every candidate whose rounded distance is within a proven error bound
of the end of the list is measured again in float64, component by component in fixed order. Lists are ordered by
(distance, id). A row's list is therefore a function of that row and the candidates only, bit for bit: block sizes,
other rows, exact duplicates, kernels and earlier merges cannot change it.
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
from tasks.private.nearest.blocks import BlockSearch, Fast
from tasks.private.nearest.exact import ANY, Best, CandidateArrays, Group, as_slice, compare
from tasks.private.nearest.thread_pool import ThreadPool
from tasks.private.nearest.vector_hashes import Loop, VectorHashes, digest_of, hashes_of
from tasks.private.voting.ballot import Ballot, Candidates, Unprintable, usable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

Way = Literal["plain"] | Fast
OF_IDS: Final = np.uint64(0x9E3779B97F4A7C15)
"""Factor of the ids in the digest of candidates: any odd number with many one bits."""
LARGE: Final = 10**9
"""Multiplications from which on compiled loops are worth their load time of half a second; the first compilation on a
machine takes seconds."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Running(Unprintable):
    """Every private row's best candidates so far; as private as the rows, stored in the private zone only.

    `near_ids`, `far_ids` (M, Q): ids, best first, -1 where the class has fewer. `near_keys`, `far_keys` (M, Q):
    squared distances, negated for far (smaller is better), infinite where the id is -1. `seen_ids`: the candidates
    compared so far. The digests detect changed rows and changed candidates.
    """

    near_ids: Ints
    near_keys: Floats
    far_ids: Ints
    far_keys: Floats
    seen_ids: Ints
    seen_digest: NDArray[np.uint8]
    ballot_digest: NDArray[np.uint8]

    __reduce__ = Unprintable.__reduce__
    __getstate__ = Unprintable.__reduce__

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as arrays for a file in the private zone."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Running:
        """Restore the state from `to_arrays`; ArtifactError if it is damaged."""
        damaged = ArtifactError("The running votes in the private zone are damaged; delete them, the vote starts over.")
        if set(arrays) != set(cls.__dataclass_fields__):
            raise damaged
        state = cls(**{name: np.asarray(array) for name, array in arrays.items()})
        shape = state.near_ids.shape
        same = all(array.shape == shape for array in (state.near_keys, state.far_ids, state.far_keys))
        if (
            len(shape) != 2
            or not same
            or not (_has_valid_lists(state.near_ids, state) and _has_valid_lists(state.far_ids, state))
        ):
            raise damaged
        return state


def rank(
    ballot: Ballot, candidates: Candidates, before: Running | None = None, block: int = ANY, way: Way | None = None
) -> Running:
    """Return each row's nearest and furthest candidates of its class.

    WASP section 3.2. Each list has `ballot.votes` candidates. With a ballot of one side the far lists stay empty. Only
    candidates that `before` has not seen are compared; the result equals that of a start without `before`. `before` is
    ignored if rows, Q or the candidates that it has seen changed. A row without candidates, or whose vector is not
    finite, gets empty lists: no row can make this fail. `block`: maximum number of candidates per block; `way`: method,
    chosen by size if None. Neither changes a list. Raises ConfigError for unequal dimensions.
    """
    if ballot.vectors.shape[1] != candidates.vectors.shape[1]:
        raise ConfigError("Private rows and candidates have vectors of different dimensions; use the same embedder.")
    how = way or _way(ballot, candidates)
    vectors = np.asarray(np.require(candidates.vectors, requirements=("C", "A")))
    with ThreadPool() as pool:
        index = _CandidateIndex.of(candidates, vectors, _loop(how))
        start, seen = _continued(before, ballot, index, pool)
        keys = np.stack([start.near_keys, start.far_keys])
        ids = np.stack([start.near_ids, start.far_ids])
        lists = [Best(ids[side], keys[side], 1 - 2 * side) for side in range(ballot.sides)]
        fresh = index.others(seen)
        groups = _by_class(ballot, index, fresh)
        loop_hashes = index.hashes if how == "compiled" else None
        arrays = CandidateArrays(vectors, np.ascontiguousarray(candidates.ids), candidates.squares, loop_hashes)
        if how == "plain":
            for group in groups:
                compare(ballot.vectors, arrays, group, lists, block)
        else:
            stacked = keys[: ballot.sides], ids[: ballot.sides]
            BlockSearch(ballot.vectors, arrays, lists, stacked, block, how).run(groups, pool)
        index.compute_hashes(seen, groups if loop_hashes else [], pool)
    digest = index.digest(index.ids, index.order)
    return Running(ids[0], keys[0], ids[1], keys[1], index.ids, digest, start.ballot_digest)


# --- comparison
def _way(ballot: Ballot, candidates: Candidates) -> Way:
    """Return the method for a vote of this size; the method never changes a list."""
    multiplications = ballot.vectors.size * len(candidates.ids)
    if multiplications >= gpu.LARGE and gpu.exists():
        return "device"
    return "compiled" if multiplications >= LARGE else "plain"


def _loop(way: Way) -> Loop | None:
    """Return the compiled hash loop if the method loads compiled loops anyway."""
    if way == "plain":
        return None
    from tasks.private.nearest.numba_kernels import hash_vectors

    return hash_vectors


def _by_class(ballot: Ballot, index: _CandidateIndex, fresh: Ints | slice) -> list[Group]:
    """Return the private rows and the new candidates of every class that has both."""
    class_codes = {name: code for code, name in enumerate(index.names)}
    of_rows = np.array([class_codes.get(label, -1) for label in ballot.labels], dtype=np.int64)
    of_rows[~usable(ballot.vectors)] = -1
    codes = index.codes[fresh]
    if not len(codes):
        return []
    members: list[Ints | slice] = [fresh]
    if len(class_codes) > 1:
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], np.arange(len(class_codes) + 1))
        by_class = order + fresh.start if isinstance(fresh, slice) else fresh[order]
        members = [as_slice(by_class[ends[code] : ends[code + 1]]) for code in range(len(class_codes))]
    rows = np.argsort(of_rows, kind="stable")
    ends = np.searchsorted(of_rows[rows], np.arange(len(members) + 1))
    groups = (Group(rows[ends[code] : ends[code + 1]], part) for code, part in enumerate(members))
    return [group for group in groups if len(group.rows) and group.size]


# --- the state
def _empty(ballot: Ballot) -> Running:
    shape = len(ballot.labels), ballot.votes
    ids, keys = np.full(shape, -1, dtype=np.int64), np.full(shape, np.inf)
    none = np.zeros(0, dtype=np.int64)
    return Running(ids, keys, ids, keys, none, np.zeros(0, dtype=np.uint8), _ballot_digest(ballot))


def _continued(
    before: Running | None, ballot: Ballot, index: _CandidateIndex, pool: ThreadPool
) -> tuple[Running, Ints]:
    """Return the state to continue (maybe empty) and the indices that it has seen."""
    empty = _empty(ballot)
    if before is not None and before.near_ids.shape == empty.near_ids.shape:
        indices = index.find(before.seen_ids)
        if indices is not None and np.array_equal(before.ballot_digest, empty.ballot_digest):
            index.hashes.compute(as_slice(indices if index.ordered else np.sort(indices)), pool)
            if np.array_equal(before.seen_digest, index.digest(before.seen_ids, indices)):
                return before, indices
    return empty, np.zeros(0, dtype=np.int64)


def _ballot_digest(ballot: Ballot) -> NDArray[np.uint8]:
    state = hashlib.blake2b(hashes_of(ballot.vectors).tobytes(), digest_size=32)
    state.update(repr(ballot.labels).encode())
    state.update(b"" if ballot.sides == 2 else b"near alone")
    return np.frombuffer(state.digest(), dtype=np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class _CandidateIndex:
    """Candidates by id: `ids` (n,) sorted, `order` (n,) their indices; `hashes` and `codes` (n,) in original order.

    A code is an index into the labels `names`. `ordered`: whether the candidates are already sorted by id.
    """

    ids: Ints
    order: Ints
    ordered: bool
    hashes: VectorHashes
    names: list[str]
    codes: NDArray[np.int64] | NDArray[np.int16]

    @classmethod
    def of(cls, candidates: Candidates, vectors: NDArray[np.float32], loop: Loop | None) -> _CandidateIndex:
        """Build the index; hashes are computed later."""
        ids, ordered = candidates.ids, bool((candidates.ids[1:] > candidates.ids[:-1]).all())
        order = np.arange(len(ids)) if ordered else np.argsort(ids, kind="stable")
        names, codes = _coded(candidates.labels)
        return cls(ids if ordered else ids[order], order, ordered, VectorHashes.of(vectors, loop), names, codes)

    def find(self, ids: Ints) -> Ints | None:
        """Return the indices of these sorted ids, None if one is missing."""
        if np.array_equal(self.ids[: len(ids)], ids):
            return self.order[: len(ids)]
        at = np.minimum(np.searchsorted(self.ids, ids), max(len(self.ids) - 1, 0))
        return self.order[at] if len(self.ids) and np.array_equal(self.ids[at], ids) else None

    def others(self, seen: Ints) -> Ints | slice:
        """Return all indices but these, ascending, as a slice if contiguous."""
        if not len(seen):
            return slice(0, len(self.ids))
        other = np.ones(len(self.ids), dtype=np.bool_)
        other[seen] = False
        return as_slice(np.flatnonzero(other))

    def compute_hashes(self, seen: Ints, compared: Sequence[Group], pool: ThreadPool) -> None:
        """Compute the remaining hashes: all but those of `seen` and `compared` candidates."""
        if len(seen) + sum(group.size for group in compared) == len(self.ids):
            return
        remaining = np.ones(len(self.ids), dtype=np.bool_)
        for part in (seen, *(group.members for group in compared)):
            remaining[part] = False
        self.hashes.compute(as_slice(np.flatnonzero(remaining)), pool)

    def digest(self, ids: Ints, indices: Ints) -> NDArray[np.uint8]:
        """Return the digest of candidates by sorted ids and indices; needs their hashes."""
        of_names = np.array([_hash_of_label(name) for name in self.names], dtype=np.uint64)
        at = as_slice(indices) if self.ordered else indices
        hashes = ids.view(np.uint64) * OF_IDS
        hashes += self.hashes.values[at]
        hashes += of_names[self.codes[at]] if len(of_names) > 1 else of_names
        return digest_of(hashes)


def _coded(labels: NDArray[Any]) -> tuple[list[str], NDArray[Any]]:
    """Return distinct labels and candidates' codes; fast if equal ones are adjacent."""
    starts = np.append(np.zeros(min(len(labels), 1), np.int64), np.flatnonzero(labels[1:] != labels[:-1]) + 1)
    apart = 8 * len(starts) > len(labels)
    names, codes = _numbered((labels if apart else labels[starts]).tolist())
    if not all(isinstance(label, str) for label in names):
        # 1 and 1.0 are equal, their strings are not.
        (names, codes), apart = _numbered([str(label) for label in labels.tolist()]), True
    codes = codes.astype(np.int16) if len(names) < 2**15 else codes
    return names, codes if apart else np.repeat(codes, np.diff(starts, append=len(labels)))


def _numbered(values: list[Any]) -> tuple[list[Any], Ints]:
    """Return distinct values in order of first occurrence, and each value's number."""
    numbers: dict[Any, int] = defaultdict(count().__next__)
    codes = np.fromiter(map(numbers.__getitem__, values), dtype=np.int64, count=len(values))
    return list(numbers), codes


def _hash_of_label(label: str) -> int:
    return int.from_bytes(hashlib.blake2b(label.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def _has_valid_lists(ids: Ints, state: Running) -> bool:
    """Return whether all lists have distinct, seen ids; a repeated id votes twice."""
    ordered = np.sort(ids, axis=1)
    repeated = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    return bool(not repeated.any() and np.isin(ids[ids >= 0], state.seen_ids).all())
