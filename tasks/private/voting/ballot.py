"""Who votes and who stands for election."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np

from connectors.interfaces.errors import ConfigError, InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Vectors = NDArray[np.float32]

LONGEST: Final = 1e15
"""Vectors longer than this overflow float32 products; no embedder makes them."""
BLOCK: Final = 2048


class Secret:
    """A value that stays in the private zone: it cannot be pickled or copied, and prints nothing."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a private value is never serialised")

    def __getstate__(self) -> NoReturn:
        raise TypeError("a private value is never serialised")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(hidden)"


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Public synthetic rows that stand for election: `ids` (n,) unique, from 0; `labels` (n,); `vectors` (n, d).

    `writers` (n,): the number of the PLM that wrote each, below `models`; only where first choices are counted.
    `squares` (n,): squared lengths in float32, made here because they also say whether a vector can be used.
    Exact duplicate texts are the caller's to leave out. Raises InputError for ids that are not int64, unique and
    from 0, and for vectors that are not finite float32.
    """

    ids: Ints
    labels: NDArray[Any]
    vectors: Vectors
    writers: Ints | None = None
    models: int = 0
    squares: Vectors = field(init=False)

    def __post_init__(self) -> None:
        if self.writers is not None:
            self._check_writers(self.writers)
        shapes = self.ids.shape, self.labels.shape, self.vectors.shape[:1]
        if self.vectors.ndim != 2 or len(set(shapes)) != 1:
            raise InputError(f"Candidates disagree in length: ids, labels and vectors have shapes {shapes}.")
        if self.ids.dtype != np.int64 or self.vectors.dtype != np.float32:
            raise InputError("Candidates need int64 ids and float32 vectors.")
        # Sorted, because that is several times as fast as a table of what was seen, and mostly they are.
        ordered = np.sort(self.ids)
        if (ordered[1:] == ordered[:-1]).any() or (len(ordered) and ordered[0] < 0):
            raise InputError("Candidate ids must be unique and not negative; two rows with one id would share a bin.")
        object.__setattr__(self, "squares", squared_lengths(self.vectors))
        wrong = np.flatnonzero(~usable(self.vectors, self.squares))
        if len(wrong):
            raise InputError(f"The vector of candidate {self.ids[wrong[0]]} is not finite; embed its text again.")

    def take(self, places: Ints) -> Candidates:
        """Return the candidates at these places, in this order."""
        writers = None if self.writers is None else self.writers[places]
        ids, labels, vectors = self.ids[places], self.labels[places], self.vectors[places]
        return Candidates(ids, labels, vectors, writers, self.models)

    def _check_writers(self, writers: Ints) -> None:
        if writers.shape != self.ids.shape or writers.dtype != np.int64:
            raise InputError("Candidates need one int64 number of a writer each.")
        if len(writers) and not 0 <= writers.min() <= writers.max() < self.models:
            raise InputError(f"A candidate was written by none of the {self.models} models.")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Ballot(Secret):
    """The private rows as the vote sees them: `vectors` (M, d) float32 and one of `labels` each.

    `votes`: candidates every row votes for on each side (Q). `persons`: whose row each is, when persons are
    protected; `key`: secret bytes, at most 64, that decide which rows of a person with too many are kept. `sides`: 2
    for the nearest and the furthest, 1 for the nearest alone.
    """

    vectors: Vectors
    labels: Sequence[str]
    votes: int
    persons: Sequence[str] | None = None
    key: bytes = b""
    sides: int = 2

    __reduce__ = Secret.__reduce__
    __getstate__ = Secret.__getstate__

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", tuple(str(label) for label in self.labels))
        if self.persons is not None:
            object.__setattr__(self, "persons", tuple(str(person) for person in self.persons))
        fits = len(self.vectors) == len(self.labels) == len(self.persons if self.persons is not None else self.labels)
        if self.vectors.ndim != 2 or self.vectors.dtype != np.float32 or not fits:
            raise ConfigError("Private vectors must be float32, shape (rows, dimension), with one label each.")
        if len(self.key) > 64:
            raise ConfigError("The key that chooses a person's rows has more than 64 bytes; use 32 random ones.")
        if self.votes < 1:
            raise ConfigError(f"Every row needs at least one vote on each side, not {self.votes}; raise method.votes.")
        if self.sides not in (1, 2):
            raise ConfigError(f"Rows vote on 1 side (near) or on 2 (near and far), not on {self.sides}.")


def squared_lengths(vectors: Vectors) -> Vectors:
    """Return squared lengths (n,) in float32, infinite or not a number where a vector is too long or is none."""
    squares = np.empty(len(vectors), dtype=np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(vectors), BLOCK):
            part = vectors[start : start + BLOCK]
            squares[start : start + BLOCK] = np.einsum("ij,ij->i", part, part)
    return squares


def usable(vectors: Vectors, squares: Vectors | None = None) -> NDArray[np.bool_]:
    """Say of each vector whether it is finite and short enough for float32 products; `squares`: of their lengths."""
    dimension = max(vectors.shape[1], 1)
    fine = (squared_lengths(vectors) if squares is None else squares) <= LONGEST**2 / dimension / 2
    # No component is longer than the vector; only vectors at the border or past it are looked at one by one.
    near = np.flatnonzero(~fine)
    fine[near] = np.abs(vectors[near]).max(axis=1, initial=0.0) * np.sqrt(dimension) <= LONGEST
    return np.asarray(fine)
