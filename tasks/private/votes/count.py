"""The vote: every private row gives 1, 1/2, ... to its nearest candidates and the same to its furthest.

WASP, section 4.4 and Eq. 3. With one side (nearest only) it is the histogram of private evolution. Counts are integers;
one vote is `scale` counts. Clean counts exist only inside `noisy_votes`; its result has noise on every bin.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from connectors.interfaces.errors import ArtifactError, ConfigError
from tasks.private.noise.discrete import add_discrete_gaussian
from tasks.private.rows.quarantine import Unprintable
from tasks.private.votes.ballot import Ballot, Candidates
from tasks.private.votes.nearest import rank
from tasks.private.votes.persons import average, join, selected_rows
from tasks.private.votes.promise import VoteNoise

Ints = NDArray[np.int64]

MAGIC: Final = b"WASPVOTE"
HEADER: Final = struct.Struct("<8sBBqqd")
SIDES_OF_FORMAT: Final = {1: 2, 2: 1}
"""Number of histograms in a stored release of each format."""


class RawVotes(Unprintable):
    """Votes without noise: `counts` (n, sides) int64, near and far.

    As private as the rows; cannot be stored.
    """

    __slots__ = ("counts",)

    def __init__(self, counts: Ints) -> None:
        self.counts = counts


@dataclass(frozen=True, slots=True, eq=False)
class NoisyVotes:
    """The output of a release: noisy `near` and `far` counts (n,) of the candidates `ids` (n,), all int64.

    `far` is None if rows vote for the nearest only. One vote is `scale` counts. `sigma_int` is the noise in counts, 0
    only if the run is non-private.
    """

    ids: Ints
    near: Ints
    far: Ints | None
    scale: int
    sigma_int: float

    def to_bytes(self) -> bytes:
        """Serialise the votes; equal votes give the same bytes on every machine."""
        parts = [part for part in (self.ids, self.near, self.far) if part is not None]
        # Votes nearly always fit four bytes, which halves the ledger.
        width = 4
        if max(int(np.abs(part).max(initial=0)) for part in parts) >= 2**31:
            width = 8
        form = 1
        if self.far is None:
            form = 2
        head = HEADER.pack(MAGIC, form, width, len(self.ids), self.scale, self.sigma_int)
        body = head + b"".join(part.astype(f"<i{width}").tobytes() for part in parts)
        return body + hashlib.sha256(body).digest()

    @classmethod
    def from_bytes(cls, stored: bytes) -> NoisyVotes:
        """Return the votes of `to_bytes`; ArtifactError if damaged or another format."""
        body = stored[:-32]
        digest = stored[-32:]
        if len(body) < HEADER.size or hashlib.sha256(body).digest() != digest:
            raise ArtifactError(
                "The stored votes of a release are damaged; restore the ledger from its backup."
            )
        magic, form, width, number, scale, sigma_int = HEADER.unpack_from(body)
        sides = SIDES_OF_FORMAT.get(form, 0)
        # The width of bytes that are no vote may be zero.
        values, rest = divmod(len(body) - HEADER.size, width) if width else (0, 1)
        if magic != MAGIC or not sides or rest or values != (1 + sides) * number:
            formats = " or ".join(map(str, SIDES_OF_FORMAT))
            raise ArtifactError(
                f"The stored output is not a vote of format {formats}; a newer version wrote it. Update wasp."
            )
        flat = np.frombuffer(body, dtype=f"<i{width}", offset=HEADER.size).astype(np.int64)
        bins = flat.reshape(1 + sides, number)
        return cls(bins[0], bins[1], bins[2] if sides == 2 else None, scale, sigma_int)

    def columns(self) -> dict[str, Ints]:
        """Return table columns: sample_id, near and, if far votes exist, far."""
        columns = {"sample_id": self.ids, "near": self.near}
        if self.far is not None:
            columns["far"] = self.far
        return columns

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoisyVotes) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash(self.to_bytes())


def noisy_votes(ballot: Ballot, candidates: Candidates, noise: VoteNoise) -> NoisyVotes:
    """Return the noisy votes on `candidates`.

    Draws fresh noise once, on every bin of each side. Nothing in `ballot` can make it
    fail. Raises ConfigError if public numbers contradict each other: `noise` calibrated for other votes, for persons,
    or for no release.
    """
    require_fitting(ballot, noise)
    return add_noise(clean_votes(ballot, candidates, noise), candidates, noise)


def add_noise(raw: RawVotes, candidates: Candidates, noise: VoteNoise) -> NoisyVotes:
    """Return votes with fresh noise on every bin of each side; no noise if not private."""
    counts = add_discrete_gaussian(raw.counts, noise.sigma_int, non_private=noise.non_private)
    near, *far = (np.ascontiguousarray(side) for side in counts.T)
    return NoisyVotes(candidates.ids, near, far[0] if far else None, noise.scale, noise.sigma_int)


def clean_votes(ballot: Ballot, candidates: Candidates, noise: VoteNoise) -> RawVotes:
    """Return the votes without noise, counts (n, sides) in the order of `candidates`.

    `noise` contains the scale and the protection of persons. A row votes only within its class, for up to Q candidates.
    A row whose class has no candidate, or whose vector is not finite, casts no vote.
    """
    ranking = rank(ballot, candidates)
    bins_of = _Bins.of(candidates.ids)
    # 1, 1/2, 1/4, ... of a vote in whole steps: the scale is a power of two, at least 2^(Q-1).
    weights = np.int64(noise.scale) >> np.arange(ballot.votes)
    counts = np.zeros((len(candidates.ids), ballot.sides), dtype=np.int64)
    selected = selected_rows(ballot, noise.privacy.rows_per_person)
    for side, ids in enumerate((ranking.near_ids, ranking.far_ids)[: ballot.sides]):
        rows, ranks = np.nonzero((ids >= 0) & selected[:, None])
        bins = bins_of.find(ids[rows, ranks])
        _add(counts[:, side], ballot, noise, selected, (rows, bins, weights[ranks]))
    return RawVotes(counts)


@dataclass(frozen=True, slots=True, eq=False)
class _Bins:
    """Index of the candidates' bins: `ids` (n,) sorted, `positions` (n,) of each."""

    ids: Ints
    positions: Ints

    @classmethod
    def of(cls, ids: Ints) -> _Bins:
        """Build the index."""
        positions = np.argsort(ids, kind="stable")
        return cls(ids[positions], positions)

    def find(self, ids: Ints) -> Ints:
        """Return the bins of these ids; consecutive ids need no search."""
        if len(self.ids) and self.ids[-1] - self.ids[0] == len(self.ids) - 1:
            return np.asarray(self.positions[ids - self.ids[0]])
        return np.asarray(self.positions[np.searchsorted(self.ids, ids)])


def _add(
    counts: Ints,
    ballot: Ballot,
    noise: VoteNoise,
    selected: NDArray[np.bool_],
    votes: tuple[Ints, Ints, Ints],
) -> None:
    """Add votes (rows, bins, weights) to `counts`, combining a person's votes per bin."""
    rows, bins, weights = votes
    if ballot.persons is not None and noise.privacy.aggregation == "max":
        bins, weights = join(ballot.persons, rows, bins, weights)
    elif ballot.persons is not None and noise.privacy.aggregation == "mean":
        bins, weights = average(ballot.persons, selected, (rows, bins, weights))
    # add.at, because a plain += adds once to a bin that occurs several times.
    np.add.at(counts, bins, weights)


def require_fitting(ballot: Ballot, noise: VoteNoise) -> None:
    """Raise ConfigError unless the noise fits the votes and persons of this ballot."""
    if noise.releases < 1:
        raise ConfigError("This run planned no vote (releases is 0); raise method.iterations.")
    if (noise.privacy.votes, noise.privacy.sides) != (ballot.votes, ballot.sides):
        raise ConfigError(
            f"The noise fits {noise.privacy.votes} votes on {noise.privacy.sides} side(s), the ballot casts "
            f"{ballot.votes} on {ballot.sides}; calibrate with the same numbers."
        )
    if (noise.privacy.protects == "person") != (ballot.persons is not None):
        raise ConfigError(
            "Persons are protected if, and only if, the ballot names the person of each row."
        )
