"""Attacks on the product's releases: lower bounds on their privacy loss.

The attacker knows everything except the membership of one record. The canary is a record (or a person) whose votes move
the release as far as the promise allows. The attacker knows its votes and everybody else's, projects each release on
them, and decides at the halfway point. The error rates give a lower bound on mu of Gaussian differential privacy (Dong,
Roth and Su 2022, Section 2). A pass proves nothing; a bound above the claim proves that the noise is too small. This
module attacks votes near and far (WASP) and near alone (private evolution). Other modules attack densities
(tasks/audit/density.py), the two parts of DP-KPS (tasks/audit/keyphrases.py), teachers and label counts
(tasks/audit/teachers.py), trainings (tasks/audit/training.py), and sums of parties
(tasks/audit/federated.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from connectors.interfaces.progress import Advance
from tasks.accounting.composition import gaussian_epsilon
from tasks.accounting.votes import Noise
from tasks.audit.bounds import (
    CONFIDENCE,
    Finding,
    check_noise,
    gaussian_finding,
    ignore_progress,
    likely_bound,
    run_sides,
)
from tasks.audit.federated import FederatedRun
from tasks.private.noise.discrete import VERY_MANY
from tasks.private.voting.ballot import Ballot, Candidates
from tasks.private.voting.votes import NoisyVotes, RawVotes, clean_votes, noisy_votes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tasks.accounting.federated import Parties
    from tasks.accounting.keyphrases import KeyphraseNoise
    from tasks.accounting.teachers import PartNoise

    Ints = NDArray[np.int64]

WATCHED = 32
"""Texts without votes that an attack on many texts compares, for the freshness of their noise."""
Mechanism = Callable[[Ballot, Candidates, Noise], Sequence[NoisyVotes]]
"""All releases of one run over one election."""


@dataclass(frozen=True, slots=True)
class Attack:
    """One mechanism to attack.

    Its name, its claimed noise, and the number of trials on each side. `parties`: the parties that add the noise, where
    several vote. `texts`: least number of texts to vote for. `run`: the attack itself, where it is not one on votes;
    trials, confidence, progress -> findings, of which freshness and number are the last. `likely`: trials, confidence
    -> epsilon expected for a sound mechanism; None for that of votes.
    """

    name: str
    noise: Noise | KeyphraseNoise | PartNoise
    trials: int
    confidence: float
    parties: Parties | None = None
    texts: int = 0
    run: Callable[[int, float, Advance], Sequence[Finding]] | None = None
    likely: Callable[[int, float], float] | None = None


@dataclass(frozen=True, slots=True)
class AttackResult:
    """Findings of the attacks on one mechanism.

    Membership (one or more views), freshness, number of releases.
    """

    attack: Attack
    strengths: tuple[Finding, ...]
    freshness: Finding
    number: Finding

    @property
    def strongest(self) -> Finding:
        """The finding with the highest bound."""
        return max(self.strengths, key=lambda finding: finding.bound)

    @property
    def passed(self) -> bool:
        """True if every finding fits a sound mechanism."""
        return all(finding.passed for finding in (*self.strengths, self.freshness, self.number))


def run_attack(attack: Attack, advance: Advance = ignore_progress) -> AttackResult:
    """Attack one mechanism; `advance` is called for every run of it."""
    if attack.run is not None:
        findings = list(attack.run(attack.trials, attack.confidence, advance))
    else:
        run = releases_of_a_run if attack.parties is None else FederatedRun(attack.parties)
        findings = audit_votes(
            cast("Noise", attack.noise), attack.trials, run, advance, attack.confidence, attack.texts
        )
    return AttackResult(attack, tuple(findings[:-2]), findings[-2], findings[-1])


def large_vote_attack(name: str, noise: Noise, trials: int, confidence: float) -> Attack:
    """Return the attack on votes of so many counts that their noise comes from the table."""
    return Attack(name, noise, trials, confidence, texts=-(-VERY_MANY // noise.privacy.sides))


def releases_of_a_run(ballot: Ballot, candidates: Candidates, noise: Noise) -> list[NoisyVotes]:
    """Return the releases of a run about a constant election.

    There are as many noisy votes as planned.
    """
    return [noisy_votes(ballot, candidates, noise) for _ in range(noise.releases)]


def audit_votes(
    noise: Noise,
    trials: int = 1000,
    run: Mechanism = releases_of_a_run,
    advance: Advance = ignore_progress,
    confidence: float = CONFIDENCE,
    texts: int = 0,
) -> list[Finding]:
    """Attack the vote `2 * trials` times.

    Return findings on its strength, freshness and number of releases. `noise`: the claim of the run. `run`: the
    mechanism, the product's unless a test sabotages it. `confidence`: of each lower bound. `texts`: least number of
    texts to vote for; of many only the canary's and WATCHED more are compared. All data is synthetic: no private row is
    opened and no budget spent.
    """
    candidates, others, both = canary_election(noise)
    watched = len(candidates.ids) + (WATCHED if texts else 0)
    candidates = _with_more_texts(candidates, texts)

    def visible(counts: Ints) -> Ints:
        return counts.reshape(noise.privacy.sides, -1)[:, :watched].ravel()

    baseline, all_votes = (visible(_flat(clean_votes(ballot, candidates, noise))) for ballot in (others, both))
    direction = (all_votes - baseline).astype(np.float64)

    def release(ballot: Ballot) -> list[Ints]:
        return [visible(_counts(votes)) for votes in run(ballot, candidates, noise)]

    sides = run_sides(release, (others, both), baseline, trials, advance)
    claimed = claim_of(noise)
    strengths = [
        gaussian_finding(f"who took part, by {name} votes", claimed, sides, view, noise.releases, confidence)
        for name, view in _views(direction, min(watched, len(candidates.ids))).items()
    ]
    return [*strengths, *check_noise(sides, noise.releases, trials)]


def _with_more_texts(candidates: Candidates, texts: int) -> Candidates:
    """Return the candidates, and texts of a class without rows up to the number `texts`."""
    more = max(0, texts - len(candidates.ids))
    labels = np.concatenate([candidates.labels, np.full(more, "class without rows", dtype=object)])
    vectors = np.concatenate([candidates.vectors, np.zeros((more, candidates.vectors.shape[1]), dtype=np.float32)])
    return Candidates(np.arange(len(labels), dtype=np.int64), labels, vectors)


def audit_sums(
    noise: Noise,
    release: Callable[[Ints], Ints],
    canary: Ints,
    trials: int,
    confidence: float = CONFIDENCE,
    advance: Advance = ignore_progress,
) -> list[Finding]:
    """Attack one release of noisy sums `2 * trials` times; return its strength, its freshness and its number.

    `release`: adds noise to integer sums (width,). `canary`: the largest change by one record, in integer steps.
    """
    known = np.zeros_like(canary)
    sides = run_sides(lambda sums: [release(sums)], (known, known + canary), known, trials, advance)
    finding = gaussian_finding(
        "who took part", claim_of(noise), sides, canary.astype(np.float64), noise.releases, confidence
    )
    return [finding, *check_noise(sides, noise.releases, trials)]


def _views(direction: NDArray[np.float64], size: int) -> dict[str, NDArray[np.float64]]:
    """Return the views of an attack.

    All bins together and, where there are several kinds, each kind alone.
    """
    kinds = np.arange(len(direction)) // size
    views = {
        name: np.where(kinds == kind, direction, 0.0)
        for kind, name in enumerate(("near", "far"))
        if (kinds == kind).any()
    }
    return views if len(views) == 1 else {" and ".join(views): direction} | views


def _flat(votes: RawVotes) -> Ints:
    """Return the clean counts of all bins: near, then far."""
    return np.ascontiguousarray(votes.counts.T).ravel()


def _counts(votes: NoisyVotes) -> Ints:
    """Return the counts of all bins of one release: near, then far."""
    return np.concatenate([part for part in (votes.near, votes.far) if part is not None])


def claim_of(noise: Noise) -> float:
    """Return the joint mu that all releases of a run claim."""
    return math.sqrt(noise.releases) / noise.noise_multiplier


def likely_vote(noise: Any, trials: int, confidence: float, half: float = 0.5) -> float:
    """Return the epsilon that `trials` trials can prove for a sound Gaussian release.

    `half`: the squared share of the sensitivity by which an added record moves it, if records are replaced.
    """
    reach = math.sqrt(half) if noise.privacy.adjacency == "replace_one" else 1.0
    bound = likely_bound(reach * claim_of(noise), trials, confidence)
    return gaussian_epsilon(bound, noise.delta) if bound > 0 else 0.0


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
