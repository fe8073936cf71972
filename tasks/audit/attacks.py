"""Attacks on releases, each of which names its own, and the attack on votes.

A passed attack proves nothing; a bound above the claim proves that the noise is too small. Votes are attacked near and
far (WASP) or near alone (private evolution), of one owner or of several parties. tasks/audit/parts.py has the attacks
on densities, keyphrases, teachers and label counts, tasks/audit/training.py the one on trainings.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from connectors.interfaces.progress import Advance
from tasks.accounting.federated import Parties, SharedNoise
from tasks.accounting.votes import Noise
from tasks.audit.bounds import Finding
from tasks.audit.sums import SumsCase
from tasks.private.noise.discrete import add_noise_share
from tasks.private.voting.ballot import Ballot, Candidates
from tasks.private.voting.votes import NoisyVotes, clean_votes, noisy_votes

Ints = NDArray[np.int64]
Run = Callable[[int, float, Advance], Sequence[Finding]]

Mechanism = Callable[[Ballot, Candidates, "Noise"], Sequence[NoisyVotes]]
"""All releases of one run over one election."""


@dataclass(frozen=True, slots=True)
class Attack:
    """One release to attack.

    Its name and its claimed noise. `run`: the attack; trials on each side, confidence, progress -> findings, of which
    freshness and number are the last. `parties`: the parties that add the noise, where several vote.
    """

    name: str
    noise: Any
    run: Run
    parties: Parties | None = None

    @property
    def claims(self) -> dict[str, Any]:
        """The claims of the noise, and the parties."""
        parties = self.parties
        about = {"parties": parties.number, "colluding": parties.colluding} if parties is not None else {}
        return claims_of(self.name, self.noise) | about


def claims_of(name: str, noise: Any) -> dict[str, Any]:
    """Return the claims of a mechanism: `epsilon_stated` is requested, `epsilon_claimed` accounted."""
    charge, plan = noise.charge, getattr(noise, "training", None)
    training = {"noise": "dp_sgd", "steps": plan.steps, "sample_rate": plan.sample_rate} if plan else {}
    return {
        "mechanism": name,
        "adjacency": charge.adjacency,
        "delta": noise.delta,
        "sensitivity": charge.sensitivity,
        "epsilon_stated": noise.epsilon_stated,
        "epsilon_claimed": noise.epsilon_exact,
        "calibration": noise.privacy.calibration,
        "protects": charge.protects,
        "noise": noise.kind,
        "noise_scale": charge.noise_scale,
        "releases": noise.releases,
    } | training


@dataclass(frozen=True, slots=True)
class AttackResult:
    """Findings of the attack on one release: membership (one or more views), freshness, number of releases."""

    attack: Attack
    findings: Sequence[Finding]

    @property
    def strongest(self) -> Finding:
        """The finding on membership with the highest bound."""
        return max(self.findings[:-2], key=lambda finding: finding.bound)

    @property
    def passed(self) -> bool:
        """True if every finding fits a sound mechanism."""
        return all(finding.passed for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """Return the claims and the findings."""
        claimed, delta = self.attack.claims, self.attack.noise.delta
        *strengths, freshness, number = self.findings
        return claimed | {
            "epsilon_proven": self.strongest.proven(delta),
            "stated_holds": claimed["epsilon_claimed"] <= claimed["epsilon_stated"],
            "sound": all(strength.passed for strength in strengths),
            "fresh": freshness.passed,
            "number_kept": number.passed,
            "passed": self.passed,
            "findings": [
                {
                    "what": strength.what,
                    "passed": strength.passed,
                    "epsilon_proven": strength.proven(delta),
                    "remark": strength.remark,
                }
                for strength in strengths
            ],
            "freshness": freshness.remark,
            "number": number.remark,
        }


def run_attack(attack: Attack, trials: int, confidence: float, advance: Advance = lambda _: None) -> AttackResult:
    """Attack one release; `advance` is called for every run of it."""
    return AttackResult(attack, attack.run(trials, confidence, advance))


def vote_attack(noise: Noise, parties: Parties | None = None) -> Attack:
    """Return the attack on the votes of a run."""
    kind = "federated" if parties else "pe" if noise.privacy.sides == 1 else f"wasp {noise.calibration}"
    return Attack(kind, noise, vote_case(noise, parties).attack, parties)


def vote_case(noise: Noise, parties: Parties | None = None, run: Mechanism | None = None) -> SumsCase:
    """Return the attack on votes for the canary's candidates; a run is as many releases about them as planned."""

    def one_owner(*election: Any) -> list[NoisyVotes]:
        return [noisy_votes(*election) for _ in range(noise.releases)]

    run = run or (one_owner if parties is None else FederatedRun(parties))
    sides = noise.privacy.sides
    candidates, others, both = canary_election(noise)
    kinds = np.repeat(("near", "far")[:sides], len(candidates.ids))
    names = "near and far" if sides == 2 else "near"
    return SumsCase(
        what=f"who took part, by {names} votes",
        sides=(others, both),
        clean=lambda ballot: clean_votes(ballot, candidates, noise).counts.T.flatten(),
        draw=lambda ballot: [_counts(votes) for votes in run(ballot, candidates, noise)],
        scale_int=noise.sigma_int,
        claimed=math.sqrt(noise.releases) / noise.noise_multiplier,
        noise=noise,
        views={f"who took part, by {kind} votes": kinds == kind for kind in ("near", "far") if sides == 2},
    )


def _counts(votes: NoisyVotes) -> Ints:
    """Return the counts of all bins of one release: near, then far."""
    return np.concatenate([part for part in (votes.near, votes.far) if part is not None])


def canary_election(noise: Noise) -> tuple[Candidates, Ballot, Ballot]:
    """Return candidates, the ballot without the canary, and the ballot with it.

    The canary moves the votes furthest. One record: all its votes, Q on each side, go to different candidates. A person
    whose votes are joined by maximum: rows in m classes, where no two votes meet; by sum or average: m equal rows.
    """
    privacy = noise.privacy
    rows = privacy.rows_per_person
    classes = rows if privacy.aggregation == "max" else 1
    size = 2 * privacy.votes
    line = np.concatenate([np.arange(size) + 1000.0 * number for number in range(classes)])
    labels = np.repeat([f"class {number}" for number in range(classes)], size).astype(object)
    vectors = line.astype(np.float32)[:, None]
    candidates = Candidates(np.arange(len(line), dtype=np.int64), labels, vectors)
    positions = [1000.0 * (number % classes) for number in range(rows)]
    own = np.array(positions, dtype=np.float32)[:, None]
    own_labels = [f"class {number % classes}" for number in range(rows)]
    other = np.full((3, 1), size / 2, dtype=np.float32)
    persons = privacy.protects == "person"
    names = ["a", "b", "c"] if persons else None
    others = Ballot(other, ["class 0"] * 3, privacy.votes, names, sides=privacy.sides)
    both = replace(
        others,
        vectors=np.concatenate([other, own]),
        labels=[*others.labels, *own_labels],
        persons=["a", "b", "c", *["canary"] * rows] if persons else None,
    )
    return candidates, others, both


@dataclass(frozen=True, slots=True)
class FederatedRun:
    """A mechanism to attack: all rounds of several parties, minus the contributions of the colluders, who have no rows.

    The adversary reads the sums, and colluders reveal their uploads. Masks cancel in the sum and hide nothing from it.
    The fewest allowed parties take part, and the stated number of them collude, which leaves the least noise.
    """

    parties: Parties

    def __call__(self, ballot: Ballot, candidates: Candidates, noise: Noise) -> list[NoisyVotes]:
        """Return each release as the colluders see it."""
        shares = SharedNoise(noise, self.parties)
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
