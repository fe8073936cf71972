"""Attacks on the vote of several parties.

The adversary reads the sums, and colluding parties reveal their uploads. Every release sums the votes of each party's
rows and its share of the noise; masks cancel in the sum, and hide nothing from this adversary. The fewest allowed
parties take part, and the stated number of them collude, which leaves the least noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tasks.accounting.federated import Parties, SharedNoise, shared
from tasks.private.noise.discrete import add_noise_share
from tasks.private.voting.ballot import Ballot, Candidates
from tasks.private.voting.votes import NoisyVotes, clean_votes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tasks.accounting.votes import Noise

    Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FederatedRun:
    """A mechanism to attack: all rounds of a run, minus the contributions of the colluders, who have no rows.

    Has the type `tasks.audit.attacks.Mechanism`.
    """

    parties: Parties

    def __call__(self, ballot: Ballot, candidates: Candidates, noise: Noise) -> list[NoisyVotes]:
        """Return each release as the colluders see it."""
        shares = shared(noise, self.parties)
        parts = divide_ballot(ballot, self.parties.bearers)
        remaining = np.sum([self.vectors(part, candidates, shares) for part in parts], axis=0)
        releases = []
        for counts in remaining:
            near, *far = counts.reshape(noise.privacy.sides, -1)
            releases.append(NoisyVotes(candidates.ids, near, far[0] if far else None, noise.scale, noise.sigma_int))
        return releases

    def vectors(self, ballot: Ballot, candidates: Candidates, shares: SharedNoise) -> Ints:
        """Return the values of one party in all rounds with its share of the noise, (releases, sides * n)."""
        clean = clean_votes(ballot, candidates, shares.total).counts.T.ravel()
        return add_noise_share(np.tile(clean, (shares.total.releases, 1)), shares)


def divide_ballot(ballot: Ballot, parties: int) -> list[Ballot]:
    """Return the ballot of each party; rows are assigned in turns, with all rows of a person at one party."""
    owners = ballot.persons if ballot.persons is not None else [str(row) for row in range(len(ballot.labels))]
    order = {owner: index % parties for index, owner in enumerate(dict.fromkeys(owners))}
    of_rows = np.array([order[owner] for owner in owners], dtype=np.int64)
    return [_take_rows(ballot, np.flatnonzero(of_rows == party)) for party in range(parties)]


def _take_rows(ballot: Ballot, rows: Ints) -> Ballot:
    persons = None if ballot.persons is None else [ballot.persons[row] for row in rows]
    return replace(ballot, vectors=ballot.vectors[rows], labels=[ballot.labels[row] for row in rows], persons=persons)
