"""The vote: every private row gives 1, 1/2, ... to its nearest candidates and the same to its furthest.

WASP, section 3.2 and Eq. 3; on one side (the nearest alone) it is the histogram of private evolution. Where the noise
was made for it, a row also counts in the bin of the PLM that wrote its nearest candidate: K bins more of one release.
Counts are integers, `scale` of them one vote. The clean counts live inside `noisy_votes` only; what leaves has noise on
every bin.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from connectors.interfaces.errors import ArtifactError, ConfigError
from tasks.accounting.sensitivity import choice_steps
from tasks.private.nearest.search import Running, rank
from tasks.private.noise.discrete import add_discrete_gaussian
from tasks.private.voting.ballot import Ballot, Candidates, Secret
from tasks.private.voting.persons import average, join, kept_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tasks.accounting.votes import Noise

    Ints = NDArray[np.int64]

MAGIC: Final = b"WASPVOTE"
HEADER: Final = struct.Struct("<8sBBqqd")
SIDES_OF_FORMAT: Final = {1: 2, 2: 1, 3: 2, 4: 1}
"""How many histograms a stored release of each format holds; those of 3 and 4 have first choices behind them."""
WITH_CHOICES: Final = 2
"""What a format's number is raised by where first choices are counted."""


class RawVotes(Secret):
    """Votes without noise: `counts` (n, sides) int64, near and far; `choices` (K,), none where they are not counted.

    As private as the rows; cannot be stored.
    """

    __slots__ = ("choices", "counts")

    def __init__(self, counts: Ints, choices: Ints) -> None:
        self.counts, self.choices = counts, choices


@dataclass(frozen=True, slots=True, eq=False)
class NoisyVotes:
    """What a release gives away: noisy `near` and `far` counts (n,) of the candidates `ids` (n,), all int64.

    `far` is None where rows vote for the nearest alone. `scale` counts are one vote; `sigma_int` is the noise in
    counts, 0 only if the run is non-private. `choices` (K,): noisy first choices of each
    PLM's texts, None where they are not counted.
    """

    ids: Ints
    near: Ints
    far: Ints | None
    scale: int
    sigma_int: float
    choices: Ints | None = None

    def to_bytes(self) -> bytes:
        """Return one byte string, the same for equal votes on every machine."""
        parts = [part for part in (self.ids, self.near, self.far, self.choices) if part is not None]
        wide = max(int(np.abs(part).max(initial=0)) for part in parts) >= 2**31
        kind, form = "<i8" if wide else "<i4", 1 if self.far is not None else 2
        form += WITH_CHOICES if self.choices is not None else 0
        head = HEADER.pack(MAGIC, form, 8 if wide else 4, len(self.ids), self.scale, self.sigma_int)
        body = head + b"".join(part.astype(kind).tobytes() for part in parts)
        return body + hashlib.sha256(body).digest()

    @classmethod
    def from_bytes(cls, stored: bytes) -> NoisyVotes:
        """Read back what `to_bytes` gave; ArtifactError when it is something else or damaged."""
        body, digest = stored[:-32], stored[-32:]
        if len(body) < HEADER.size or hashlib.sha256(body).digest() != digest:
            raise ArtifactError("The stored votes of a release are damaged; restore the ledger from its backup.")
        magic, form, width, number, scale, sigma_int = HEADER.unpack_from(body)
        sides = SIDES_OF_FORMAT.get(form, 0)
        values, rest = divmod(len(body) - HEADER.size, width) if width else (0, 1)
        more = values - (1 + sides) * number
        if magic != MAGIC or not sides or rest or (more <= 0 if form > WITH_CHOICES else more != 0):
            known = " or ".join(map(str, SIDES_OF_FORMAT))
            raise ArtifactError(f"The stored output is not a vote of format {known}; a newer version wrote it.")
        flat = np.frombuffer(body, dtype=f"<i{width}", offset=HEADER.size).astype(np.int64)
        bins, choices = flat[: len(flat) - more].reshape(1 + sides, number), flat[len(flat) - more :]
        return cls(bins[0], bins[1], bins[2] if sides == 2 else None, scale, sigma_int, choices if more else None)

    def columns(self) -> dict[str, Ints]:
        """Return the columns of a table: sample_id, near and, if rows voted for the furthest too, far."""
        far = {} if self.far is None else {"far": self.far}
        return {"sample_id": self.ids, "near": self.near, **far}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoisyVotes) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash(self.to_bytes())


def noisy_votes(
    ballot: Ballot, candidates: Candidates, noise: Noise, running: Running | None = None
) -> tuple[NoisyVotes, Running]:
    """Return the noisy votes on `candidates`, and the running state for the next vote of the same rows.

    Draws fresh noise once, on every bin of each side and of first choices. Nothing in `ballot` or `running` can make it
    fail; ConfigError when public numbers contradict each other (`noise` made for other votes, for persons, for no
    release, or for first choices among candidates whose writers are not known).
    """
    require_fitting(ballot, noise)
    require_writers(candidates, noise)
    after = rank(ballot, candidates, running)
    raw = _count(ballot, candidates, noise, after)
    flat = np.concatenate([raw.counts.ravel(), raw.choices])
    noisy = add_discrete_gaussian(flat, noise.sigma_int, non_private=noise.non_private)
    counts, choices = noisy[: raw.counts.size].reshape(raw.counts.shape), noisy[raw.counts.size :]
    near, *far = (np.ascontiguousarray(side) for side in counts.T)
    known = choices if len(choices) else None
    return NoisyVotes(candidates.ids, near, far[0] if far else None, noise.scale, noise.sigma_int, known), after


def clean_votes(ballot: Ballot, candidates: Candidates, noise: Noise, running: Running | None = None) -> RawVotes:
    """Return the votes without noise, counts (n, sides) in the order of `candidates`; `noise` gives scale and persons.

    A row votes inside its class only, for as many candidates as there are up to Q; a row whose class has none, or
    whose vector is not finite, votes for nobody.
    """
    return _count(ballot, candidates, noise, rank(ballot, candidates, running))


def _count(ballot: Ballot, candidates: Candidates, noise: Noise, state: Running) -> RawVotes:
    bins_of = _Bins.of(candidates.ids)
    weights = np.int64(noise.scale) >> np.arange(ballot.votes)
    counts = np.zeros((len(candidates.ids), ballot.sides), dtype=np.int64)
    keep = kept_rows(ballot, noise.privacy.rows_per_person)
    for side, ids in enumerate((state.near_ids, state.far_ids)[: ballot.sides]):
        rows, ranks = np.nonzero((ids >= 0) & keep[:, None])
        bins = bins_of.find(ids[rows, ranks])
        _add(counts[:, side], ballot, noise, keep, (rows, bins, weights[ranks]))
    weight = choice_steps(noise.privacy)
    choices = np.zeros(candidates.models if weight else 0, dtype=np.int64)
    if weight and candidates.writers is not None:
        rows = np.flatnonzero((state.near_ids[:, 0] >= 0) & keep)
        chosen = bins_of.find(state.near_ids[rows, 0])
        _add(choices, ballot, noise, keep, (rows, candidates.writers[chosen], np.full(len(rows), weight)))
    return RawVotes(counts, choices)


@dataclass(frozen=True, slots=True, eq=False)
class _Bins:
    """Where a candidate's bin is: `ids` (n,) sorted, `places` (n,) of each."""

    ids: Ints
    places: Ints

    @classmethod
    def of(cls, ids: Ints) -> _Bins:
        """Put the candidates into order."""
        places = np.argsort(ids, kind="stable")
        return cls(ids[places], places)

    def find(self, ids: Ints) -> Ints:
        """Return the places of candidates with these ids; at once where no id is left out between them."""
        if len(self.ids) and self.ids[-1] - self.ids[0] == len(self.ids) - 1:
            return np.asarray(self.places[ids - self.ids[0]])
        return np.asarray(self.places[np.searchsorted(self.ids, ids)])


def _add(counts: Ints, ballot: Ballot, noise: Noise, keep: NDArray[np.bool_], votes: tuple[Ints, Ints, Ints]) -> None:
    """Add votes (rows, bins, what was given) to the counts of their bins, a person's joined bin by bin."""
    rows, bins, given = votes
    if ballot.persons is not None and noise.privacy.aggregation == "max":
        bins, given = join(ballot.persons, rows, bins, given)
    elif ballot.persons is not None and noise.privacy.aggregation == "mean":
        bins, given = average(ballot.persons, keep, (rows, bins, given))
    np.add.at(counts, bins, given)


def require_fitting(ballot: Ballot, noise: Noise) -> None:
    """Raise ConfigError unless the noise was made for the votes of this ballot and for persons as it has them."""
    if noise.releases < 1:
        raise ConfigError("This run planned no vote (releases is 0), so none may be drawn; raise method.iterations.")
    if (noise.privacy.votes, noise.privacy.sides) != (ballot.votes, ballot.sides):
        raise ConfigError(
            f"The noise was made for {noise.privacy.votes} votes on {noise.privacy.sides} side(s), the ballot casts "
            f"{ballot.votes} on {ballot.sides}; calibrate with the same numbers."
        )
    if (noise.privacy.protects == "person") != (ballot.persons is not None):
        raise ConfigError("Persons are protected if, and only if, the ballot names the person of each row.")


def require_writers(candidates: Candidates, noise: Noise) -> None:
    """Raise ConfigError where first choices are to be counted and nobody says which PLM wrote which candidate."""
    if choice_steps(noise.privacy) and (candidates.writers is None or candidates.models < 1):
        raise ConfigError("First choices are counted by PLM, so that every candidate must name the PLM that wrote it.")
