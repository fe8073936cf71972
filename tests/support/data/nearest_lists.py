"""Nearest and furthest lists: an independent search, elections full of ties, and comparisons."""

from typing import Any

import numpy as np

from tasks.private.votes.ballot import Ballot, Candidates
from tasks.private.votes.nearest import Ranking

NAMES = ("near_ids", "near_keys", "far_ids", "far_keys")


def brute_force(ballot: Ballot, standing: Candidates) -> tuple[Any, Any]:
    """Return (near ids, far ids) by plain Python: every distance, summed in order, sorted by (distance, id)."""
    near, far = [], []
    for vector, label in zip(ballot.vectors.astype(float), ballot.labels, strict=True):
        scored = []
        for identity, name, other in zip(
            standing.ids, standing.labels, standing.vectors.astype(float), strict=True
        ):
            distance = 0.0
            for left, right in zip(vector, other, strict=True):
                distance += (left - right) * (left - right)
            scored += [(distance, int(identity))] if name == label else []
        for lists, sign in ((near, 1), (far, -1)):
            best = [
                identity
                for _, identity in sorted(
                    (sign * distance, identity) for distance, identity in scored
                )
            ]
            lists.append((best + [-1] * ballot.votes)[: ballot.votes])
    return near, far


def same(first: Ranking, second: Ranking) -> bool:
    return all(getattr(first, name).tobytes() == getattr(second, name).tobytes() for name in NAMES)


def election(
    seed: int, rows: int, size: int, dimension: int = 6, votes: int = 8
) -> tuple[Ballot, Candidates]:
    """Return unit vectors, a quarter of the candidates exact copies, a quarter all but copies."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(size, dimension)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    places = rng.permutation(size)
    copies, close = places[: size // 4], places[size // 4 : size // 2]
    vectors[copies] = vectors[rng.integers(0, size, len(copies))]
    shift = rng.integers(-2, 3, (len(close), dimension)) * np.float32(2**-23)
    vectors[close] = vectors[rng.integers(0, size, len(close))] + shift.astype(np.float32)
    mine = vectors[rng.integers(0, size, rows)] + rng.normal(
        scale=0.01, size=(rows, dimension)
    ).astype(np.float32)
    labels = rng.choice(["a", "b"], size).astype(object)
    own = [str(label) for label in rng.choice(["a", "b"], rows)]
    return Ballot(mine, own, votes), Candidates(rng.permutation(9999)[:size], labels, vectors)
