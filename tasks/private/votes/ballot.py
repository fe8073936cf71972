"""The inputs of a vote: private records that vote and synthetic candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from connectors.interfaces.errors import ConfigError, InputError
from tasks.private.rows.quarantine import Unprintable

Ints = NDArray[np.int64]
Vectors = NDArray[np.float32]

MAX_NORM: Final = 1e15
"""Longer vectors overflow float32 products; no embedder produces them."""
BLOCK: Final = 2048


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Public synthetic rows that receive votes: `ids` (n,) unique, from 0; `labels` (n,); `vectors` (n, d).

    `squares` (n,): squared lengths in float32, computed here because they also show whether a vector is usable.
    The caller removes exact duplicate texts. Raises InputError for ids that are not int64, unique and from 0, and for
    vectors that are not finite float32.
    """

    ids: Ints
    labels: NDArray[Any]
    vectors: Vectors
    squares: Vectors = field(init=False)

    def __post_init__(self) -> None:
        shapes = self.ids.shape, self.labels.shape, self.vectors.shape[:1]
        if self.vectors.ndim != 2 or len(set(shapes)) != 1:
            raise InputError(
                f"Candidates: ids, labels and vectors have shapes {shapes}; the lengths must be equal."
            )
        if self.ids.dtype != np.int64 or self.vectors.dtype != np.float32:
            raise InputError("Candidates need int64 ids and float32 vectors.")
        # Sorting is several times as fast as a hash table, and the ids are mostly sorted already.
        ordered = np.sort(self.ids)
        if (ordered[1:] == ordered[:-1]).any() or (len(ordered) and ordered[0] < 0):
            raise InputError(
                "Candidate ids must be unique and not negative; rows with the same id would share a bin."
            )
        object.__setattr__(self, "squares", squared_lengths(self.vectors))
        unusable = np.flatnonzero(~usable(self.vectors, self.squares))
        if len(unusable):
            raise InputError(
                f"The vector of candidate {self.ids[unusable[0]]} is not finite; embed its text again."
            )

    def take(self, indices: Ints) -> Candidates:
        """Return the candidates at these indices, in this order."""
        return Candidates(self.ids[indices], self.labels[indices], self.vectors[indices])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Ballot(Unprintable):
    """The private rows as the vote reads them: `vectors` (M, d) float32 and one of `labels` each.

    `votes`: number of candidates each row votes for on each side (Q). `persons`: the person of each row, if persons are
    protected. `key`: secret bytes, at most 64, that decide which rows of a person with too many rows vote. `sides`: 2
    for the nearest and the furthest candidates, 1 for the nearest only.
    """

    vectors: Vectors
    labels: Sequence[str]
    votes: int
    persons: Sequence[str] | None = None
    key: bytes = b""
    sides: int = 2

    __reduce__ = Unprintable.__reduce__
    __getstate__ = Unprintable.__getstate__

    def __post_init__(self) -> None:
        # The dataclass is frozen, so `object` sets the fields; strings of numpy become plain ones.
        object.__setattr__(self, "labels", tuple(str(label) for label in self.labels))
        if self.persons is not None:
            object.__setattr__(self, "persons", tuple(str(person) for person in self.persons))
        lengths = {len(self.vectors), len(self.labels)}
        if self.persons is not None:
            lengths.add(len(self.persons))
        if self.vectors.ndim != 2 or self.vectors.dtype != np.float32 or len(lengths) > 1:
            raise ConfigError(
                "Private vectors must be float32, shape (rows, dimension), with one label each."
            )
        if self.sides not in (1, 2):
            raise ConfigError(
                f"Rows vote on 1 side (near) or on 2 (near and far), not on {self.sides}."
            )


def squared_lengths(vectors: Vectors) -> Vectors:
    """Return squared lengths (n,) in float32; inf or NaN for unusable vectors."""
    squares = np.empty(len(vectors), dtype=np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(vectors), BLOCK):
            part = vectors[start : start + BLOCK]
            squares[start : start + BLOCK] = np.einsum("ij,ij->i", part, part)
    return squares


def usable(vectors: Vectors, squares: Vectors | None = None) -> NDArray[np.bool_]:
    """Return which vectors are finite and short enough for float32 products.

    `squares`: their squared lengths, if already known.
    """
    if squares is None:
        squares = squared_lengths(vectors)
    dimension = max(vectors.shape[1], 1)
    # Half of the limit: a square in float32 is rounded.
    is_usable = squares <= MAX_NORM**2 / dimension / 2
    # No component is longer than the vector, so only vectors at or beyond the limit need a closer check.
    near = np.flatnonzero(~is_usable)
    is_usable[near] = (
        np.abs(vectors[near]).max(axis=1, initial=0.0) * np.sqrt(dimension) <= MAX_NORM
    )
    return np.asarray(is_usable)
