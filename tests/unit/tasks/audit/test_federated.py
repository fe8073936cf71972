"""The audit of a federation: sound shares pass, whoever colludes; sabotaged ones are caught."""

import math
from typing import Any

import numpy as np
import pytest

from tasks.accounting.federated import Parties, SharedNoise
from tasks.accounting.sensitivity import VotePrivacy
from tasks.accounting.votes import Noise, calibrate
from tasks.audit.attacks import canary_election, vote_case
from tasks.audit.federated import FederatedRun, divide_ballot
from tasks.private.voting.votes import clean_votes

LOUD = calibrate(VotePrivacy(16, 1e-5, 1, votes=2))
"""Where noise that is a square root of two too small misses the audit once in 10^7 audits of 700 trials."""
TWICE = calibrate(VotePrivacy(4, 1e-5, 2, votes=2))
TURNS: list[str] = []
"""Every second of the two honest parties adds no noise."""


class OneAddsNothing(FederatedRun):
    def vectors(self, ballot: Any, candidates: Any, shares: SharedNoise) -> Any:
        if not TURNS or TURNS.pop() != "silent":
            TURNS.append("silent")
            return super().vectors(ballot, candidates, shares)
        return np.tile(clean_votes(ballot, candidates, shares.total).counts.T.ravel(), (shares.total.releases, 1))


class NobodyIsThoughtToCollude(FederatedRun):
    def vectors(self, ballot: Any, candidates: Any, shares: SharedNoise) -> Any:
        number = self.parties.minimum
        return super().vectors(ballot, candidates, SharedNoise(shares.total, Parties(number, number)))


class OneShareForAllRounds(FederatedRun):
    def vectors(self, ballot: Any, candidates: Any, shares: SharedNoise) -> Any:
        drawn = super().vectors(ballot, candidates, shares)
        return np.repeat(drawn[:1], len(drawn), axis=0)


MUTANTS: dict[str, tuple[Noise, type[FederatedRun], Parties, int]] = {
    "one party adds no noise": (LOUD, OneAddsNothing, Parties(3, 3, 1), 700),
    "shares are made as if nobody colluded": (LOUD, NobodyIsThoughtToCollude, Parties(2, 2, 1), 700),
    "a share is drawn once for all rounds": (TWICE, OneShareForAllRounds, Parties(3, 3, 1), 300),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", MUTANTS)
def test_a_sabotaged_federation_is_caught(name: str) -> None:
    noise, mutant, parties, trials = MUTANTS[name]
    assert not all(finding.passed for finding in vote_case(noise, run=mutant(parties)).attack(trials))


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("privacy", "parties"),
    [
        (VotePrivacy(16, 1e-5, 1, votes=2), Parties(3, 3, 1)),
        (VotePrivacy(16, 1e-5, 1, votes=1, sides=1), Parties(2, 2)),
        (VotePrivacy(16, 1e-5, 1, votes=2, protects="person", rows_per_person=3), Parties(4, 3, 2)),
    ],
    ids=["one of three colludes", "near alone", "person, two of three collude"],
)
def test_a_sound_federation_passes_and_the_bound_comes_near_the_claim(privacy: VotePrivacy, parties: Parties) -> None:
    findings = vote_case(calibrate(privacy), run=FederatedRun(parties)).attack(150)
    assert all(finding.passed for finding in findings), findings
    assert findings[0].bound >= findings[0].claimed - 1.6


@pytest.mark.parametrize("person", [{}, {"protects": "person", "rows_per_person": 3}], ids=["record", "person"])
def test_without_noise_the_releases_are_the_clear_votes(person: dict[str, Any]) -> None:
    noise = calibrate(VotePrivacy(math.inf, 1e-5, 2, votes=2, **person))
    candidates, _, both = canary_election(noise)
    found = FederatedRun(Parties(4, 4, 1))(both, candidates, noise)
    if person:
        owners = [set(part.persons) for part in divide_ballot(both, 2)]
        assert owners[0].isdisjoint(owners[1]), "all rows of a person lie with one party"
    clear = clean_votes(both, candidates, noise).counts
    assert len(found) == 2
    for one in found:
        assert [one.near.tolist(), one.far.tolist()] == clear.T.tolist()
