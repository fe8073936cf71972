"""The attack on votes of several parties, some of which collude with the adversary."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tasks.attacks.attack import SumsAttack
from tasks.private.made_up import MadeUpTools
from tasks.private.parties.masked_vote import masked_votes
from tasks.private.parties.promise import Parties
from tasks.private.parties.rounds import RoundPlan, unmasked
from tasks.private.votes.attack import VOTE, election_attack, tools_of_ballot
from tasks.private.votes.ballot import Ballot, Candidates
from tasks.private.votes.promise import VoteNoise

Ints = NDArray[np.int64]

MANY_ROWS: Final = 1000
"""Declared rows of a party, at which it cuts its votes: more than an attack has."""


def federated_vote_attack(noise: VoteNoise, parties: Parties) -> SumsAttack:
    """Return the attack on the votes of several parties."""
    attack = election_attack("federated", noise, partial(FederatedRun, parties=parties))
    return replace(attack, about={"parties": parties.number, "colluding": parties.colluding})


@dataclass(frozen=True, slots=True, eq=False)
class FederatedRun:
    """All rounds of several parties, minus the contributions of the colluders, who have no rows.

    The adversary reads the sums, and colluders reveal their uploads. Masks cancel in the sum and hide nothing from it,
    so none are added; nor does it matter which party has the rows: the first one. The fewest allowed parties take part,
    and the stated number of them collude, which leaves the least noise.
    """

    candidates: Candidates
    noise: VoteNoise
    parties: Parties

    def __call__(self, ballot: Ballot) -> list[Ints]:
        """Return each release as the colluders see it: the counts of all bins, near, then far."""
        nobody = replace(
            ballot,
            vectors=ballot.vectors[:0],
            labels=(),
            persons=() if ballot.persons is not None else None,
        )
        first = tools_of_ballot(ballot)
        other = tools_of_ballot(nobody)
        tools = [first, *[other] * (self.parties.bearers - 1)]
        return [
            self._round(self._plan(iteration), tools) for iteration in range(self.noise.releases)
        ]

    def _round(self, plan: RoundPlan, parties: Sequence[MadeUpTools]) -> Ints:
        """Return the sum of the parties' uploads."""
        uploads = [self._upload(tools, plan) for tools in parties]
        return unmasked(plan, dict(zip(plan.parties, uploads, strict=True)))

    def _upload(self, tools: Any, plan: RoundPlan) -> bytes:
        return masked_votes(
            tools, plan, tools.payer.fingerprint, MANY_ROWS, self.candidates, _without_mask
        )

    def _plan(self, iteration: int) -> RoundPlan:
        """Return the plan of a round whose parties are the honest ones."""
        parties = self.parties
        privacy = self.noise.privacy
        return RoundPlan(
            run_id=VOTE,
            iteration=iteration,
            attempt=0,
            parties=tuple(f"party {number}" for number in range(parties.bearers)),
            length=len(self.candidates.ids) * privacy.sides,
            flow="wasp",
            privacy=privacy,
            number=parties.number,
            minimum=parties.minimum,
            colluding=parties.colluding,
            labels=tuple(sorted(set(self.candidates.labels))),
            # What a party compares with its own files, or what names messages, has no part in the noise.
            embedder="",
            texts="",
            registry="",
            step="",
        )


def _without_mask(values: Ints) -> NDArray[np.uint32]:
    return np.mod(values, 2**32).astype(np.uint32)
