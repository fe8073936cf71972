"""The attack on votes, near and far (WASP) or near alone (private evolution), of one owner."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tasks.attacks.attack import SumsAttack
from tasks.private.made_up import KEY, MadeUpTools, tools_of
from tasks.private.votes.ballot import Ballot, Candidates
from tasks.private.votes.count import NoisyVotes, clean_votes
from tasks.private.votes.promise import VoteNoise
from tasks.private.votes.step import release_votes

Ints = NDArray[np.int64]
RunOf = Callable[[Candidates, VoteNoise], Callable[[Ballot], list[Ints]]]
"""Returns the function that draws all releases of a run for a ballot."""

VOTE: Final = "vote"
"""Name of a vote of the audit."""


def vote_attack(noise: VoteNoise) -> SumsAttack:
    """Return the attack on the votes of one owner."""
    name = "pe" if noise.privacy.sides == 1 else f"wasp {noise.calibration}"
    return election_attack(name, noise, VotesRun)


def election_attack(name: str, noise: VoteNoise, run_of: RunOf) -> SumsAttack:
    """Return the attack on the votes of a run for the canary's candidates; a run is as many releases as planned."""
    candidates, others, both = canary_election(noise)
    sides = noise.privacy.sides
    kinds = np.repeat(("near", "far")[:sides], len(candidates.ids))
    names = " and ".join(("near", "far")[:sides])
    views = {}
    if sides == 2:
        views = {f"who took part, by {kind} votes": kinds == kind for kind in ("near", "far")}
    return SumsAttack(
        name,
        noise,
        what=f"who took part, by {names} votes",
        sides=(others, both),
        clean=lambda ballot: clean_votes(ballot, candidates, noise).counts.T.flatten(),
        draw=run_of(candidates, noise),
        views=views,
    )


def canary_election(noise: VoteNoise) -> tuple[Candidates, Ballot, Ballot]:
    """Return candidates, the ballot without the canary, and the ballot with it.

    The canary moves the votes furthest. One record: all its votes, Q on each side, go to different candidates. A person
    whose votes are joined by maximum: rows in m classes, where no two votes meet; by sum or average: m equal rows.
    """
    privacy = noise.privacy
    rows = privacy.rows_per_person
    classes = rows if privacy.aggregation == "max" else 1
    # Of 2 Q candidates the Q nearest and the Q furthest are different ones, so the canary moves 2 Q counts.
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


@dataclass(frozen=True, slots=True, eq=False)
class VotesRun:
    """All releases of one owner's votes."""

    candidates: Candidates
    noise: VoteNoise

    def __call__(self, ballot: Ballot) -> list[Ints]:
        """Return each release: the counts of all bins, near, then far."""
        tools = tools_of_ballot(ballot)
        return [self._release(tools) for _ in range(self.noise.releases)]

    def _release(self, tools: Any) -> Ints:
        release = release_votes(tools, tools.payer, VOTE, KEY, self.noise, self.candidates)
        votes = NoisyVotes.from_bytes(release.output)
        return np.concatenate([side for side in (votes.near, votes.far) if side is not None])


def tools_of_ballot(ballot: Ballot) -> MadeUpTools:
    """Return tools whose records vote as `ballot`."""
    texts = [f"record {number}" for number in range(len(ballot.labels))]
    return tools_of(texts, ballot.labels, ballot.vectors, ballot.persons)
