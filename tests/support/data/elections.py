"""Small elections for tests: voters, candidates and counts."""

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tasks.private.votes.ballot import Ballot, Candidates
from tasks.private.votes.count import clean_votes
from tasks.private.votes.promise import VoteNoise, VotePrivacy, calibrate


def noise_for(votes: int, **privacy: Any) -> VoteNoise:
    return calibrate(VotePrivacy(4, 1e-5, 4, votes=votes, **privacy))


def candidates(vectors: Any, labels: Any = None, ids: Any = None) -> Candidates:
    vectors = np.asarray(vectors, dtype=np.float32)
    labels = ["a"] * len(vectors) if labels is None else labels
    ids = np.arange(len(vectors)) if ids is None else ids
    return Candidates(np.asarray(ids, dtype=np.int64), np.asarray(labels, dtype=object), vectors)


def ballot(vectors: Any, votes: int, labels: Any = None, **more: Any) -> Ballot:
    vectors = np.asarray(vectors, dtype=np.float32)
    return Ballot(vectors, ["a"] * len(vectors) if labels is None else labels, votes, **more)


def counts(voters: Ballot, some: Candidates, **privacy: Any) -> Any:
    return clean_votes(voters, some, noise_for(voters.votes, **privacy)).counts


def without(voters: Ballot, *rows: int) -> Ballot:
    left = [position for position in range(len(voters.labels)) if position not in rows]
    persons = None if voters.persons is None else [voters.persons[position] for position in left]
    labels = [voters.labels[position] for position in left]
    return replace(voters, vectors=voters.vectors[left], labels=labels, persons=persons)


def squared_bound(votes: int) -> int:
    """Return the squared sensitivity in integer steps, exactly."""
    scale = max(2 ** (votes - 1), 128)
    return 2 * sum((scale >> position) ** 2 for position in range(votes))


@st.composite
def elections(draw: Any, persons: bool = False) -> tuple[Ballot, Candidates]:
    """Draw small elections full of ties: few distinct vectors, up to three classes, a label without candidates."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    votes, size, number = (
        draw(st.sampled_from([1, 2, 8, 11])),
        draw(st.integers(0, 30)),
        draw(st.integers(1, 7)),
    )
    pool = rng.integers(-2, 3, size=(max(1, size * 3 // 4), 3)).astype(np.float32)
    chosen = pool[rng.integers(0, len(pool), size)]
    standing = candidates(chosen, rng.choice(["a", "b", "c"], size), rng.permutation(1000)[:size])
    more = {"persons": rng.choice(["p", "q"], number).tolist()} if persons else {}
    labels = rng.choice(["a", "b", "c", "nobody"], number).tolist()
    return ballot(rng.integers(-2, 3, size=(number, 3)), votes, labels, **more), standing
