"""Attacks on the vote of several parties.

The adversary reads the sums, and colluding parties reveal their uploads. Every release is a whole round of parties:
votes of each party's rows, its share of the noise, signed keys, masks, the sum. The fewest allowed parties take part,
and the stated number of them collude, which leaves the least noise.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tasks.accounting.federated import Parties, SharedNoise, shared
from tasks.federation.masked_round import Round, check_announcements
from tasks.federation.masked_sum import unmasked
from tasks.private.federation.masking import RoundKey, masked
from tasks.private.noise.discrete import add_noise_share
from tasks.private.voting.ballot import Ballot, Candidates
from tasks.private.voting.votes import NoisyVotes, clean_votes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tasks.accounting.votes import Noise

    Ints = NDArray[np.int64]


class FederatedRun:
    """A mechanism to attack: all rounds of a run, from the colluders' view.

    Has the type `tasks.audit.attacks.Mechanism`.
    """

    def __init__(self, parties: Parties) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        self.parties = parties
        self.secrets = {f"party-{number:03d}": secrets.token_bytes(32) for number in range(parties.minimum)}
        self.registry = {
            name: Ed25519PrivateKey.from_private_bytes(secret)
            .public_key()
            .public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
            for name, secret in self.secrets.items()
        }

    def __call__(self, ballot: Ballot, candidates: Candidates, noise: Noise) -> list[NoisyVotes]:
        """Return each release minus the contributions of the colluders.

        Colluders have no rows.
        """
        shares, honest = shared(noise, self.parties), self.parties.bearers
        parts = [
            *divide_ballot(ballot, honest),
            *[take_rows(ballot, np.zeros(0, dtype=np.int64))] * self.parties.colluding,
        ]
        sent = np.stack([self.vectors(part, candidates, shares) for part in parts])
        revealed = sent[honest:].sum(axis=0)
        remaining = [self.summed(number, sent[:, number]) - revealed[number] for number in range(noise.releases)]
        return [_votes(candidates, counts, noise) for counts in remaining]

    def vectors(self, ballot: Ballot, candidates: Candidates, shares: SharedNoise) -> Ints:
        """Return the values of one party in all rounds, (releases, sides * n).

        They include its share of the noise.
        """
        clean = clean_votes(ballot, candidates, shares.total).counts.T.ravel()
        return add_noise_share(np.tile(clean, (shares.total.releases, 1)), shares)

    def summed(self, iteration: int, values: Ints) -> Ints:
        """Return the sum of one round over masked `values` (parties, n)."""
        round = Round("audit", iteration, 0, tuple(self.secrets), values.shape[1], hashlib.sha256(b"audit").hexdigest())
        keys = {name: RoundKey.generate(name, round, secret) for name, secret in self.secrets.items()}
        announced = [key.announcement for key in keys.values()]
        transcript = check_announcements(round, announced, self.registry)
        uploads = {
            name: masked(own, key, transcript, announced) for (name, key), own in zip(keys.items(), values, strict=True)
        }
        return unmasked(round, uploads)


def divide_ballot(ballot: Ballot, parties: int) -> list[Ballot]:
    """Return the ballot of each party.

    Rows are assigned in turns, with all rows of a person at one party.
    """
    owners = ballot.persons if ballot.persons is not None else [str(row) for row in range(len(ballot.labels))]
    order = {owner: index % parties for index, owner in enumerate(dict.fromkeys(owners))}
    of_rows = np.array([order[owner] for owner in owners], dtype=np.int64)
    return [take_rows(ballot, np.flatnonzero(of_rows == party)) for party in range(parties)]


def take_rows(ballot: Ballot, rows: Ints) -> Ballot:
    """Return the ballot of these rows alone."""
    persons = None if ballot.persons is None else [ballot.persons[row] for row in rows]
    return replace(ballot, vectors=ballot.vectors[rows], labels=[ballot.labels[row] for row in rows], persons=persons)


def _votes(candidates: Candidates, counts: Ints, noise: Noise) -> NoisyVotes:
    near, *far = counts.reshape(noise.privacy.sides, -1)
    return NoisyVotes(candidates.ids, near, far[0] if far else None, noise.scale, noise.sigma_int)
