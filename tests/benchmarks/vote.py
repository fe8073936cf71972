"""The vote before its noise, against the matrix product that no exact search can do without."""

from typing import Any

import numpy as np

from tasks.accounting import Noise, VotePrivacy, calibrate
from tasks.private.nearest import Running, rank
from tasks.private.votes import Ballot, Candidates, clean_votes
from tests.benchmarks.race import Line, compare

VOTES = 8
ITERATIONS = 5


def election(rows: int, size: int, dimension: int) -> tuple[Ballot, Candidates]:
    """Return unit vectors around fifty centres, as embeddings of texts lie; one class."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(50, dimension))

    def drawn(count: int) -> Any:
        vectors = centres[rng.integers(0, len(centres), count)] + rng.normal(size=(count, dimension))
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)

    labels = np.array(["a"] * size, dtype=object)
    return Ballot(drawn(rows), ["a"] * rows, VOTES), Candidates(np.arange(size), labels, drawn(size))


def vote(tiny: bool) -> list[Line]:
    """Nearest and furthest eight of every row, counted, against one product and against torch's nearest eight."""
    import torch

    noise: Noise = calibrate(VotePrivacy(4.0, 1e-5, 4, votes=VOTES))
    lines = []
    for rows, size in ((5, 40),) if tiny else ((100, 6_000), (1_000, 20_000)):
        ballot, standing = election(rows, size, 384)
        mine, others = torch.from_numpy(ballot.vectors), torch.from_numpy(standing.vectors)
        squares = (others * others).sum(dim=1)
        peers = {
            "numpy matrix product": lambda b=ballot, s=standing: b.vectors @ s.vectors.T,
            "torch product and topk": lambda m=mine, o=others, s=squares: torch.topk(
                torch.addmm(s, m, o.T, alpha=-2), VOTES, largest=False
            ),
        }
        notes = {
            "numpy matrix product": "the floor: no list, no count",
            "torch product and topk": "the peer finds the nearest only, ties as they come",
        }
        ours = lambda b=ballot, s=standing: clean_votes(b, s, noise)  # noqa: E731
        lines += compare("vote", f"{rows} x {size}, d=384", ours, peers, 1 if tiny else 5, notes)
    return lines


def incremental(tiny: bool) -> list[Line]:
    """All votes of a run whose texts grow by a fifth each time: only new texts against everything anew."""
    lines = []
    for rows, size in ((5, 40),) if tiny else ((100, 6_000), (1_000, 20_000)):
        ballot, standing = election(rows, size, 384)
        growing = [standing.take(np.arange(size * (step + 1) // ITERATIONS)) for step in range(ITERATIONS)]

        def merged(ballot: Ballot = ballot, growing: list[Candidates] = growing) -> Running:
            state = None
            for part in growing:
                state = rank(ballot, part, state)
            assert state is not None
            return state

        def anew(ballot: Ballot = ballot, growing: list[Candidates] = growing) -> Running:
            return [rank(ballot, part) for part in growing][-1]

        if rows <= 100 and not np.array_equal(merged().near_ids, anew().near_ids):
            raise AssertionError("the incremental vote differs from a vote from nothing")
        note = {"recompute": "ideal 1/3; both give the same lists"}
        case = f"{rows} x {size}, {ITERATIONS} votes"
        lines += compare("incremental", case, merged, {"recompute": anew}, 1 if tiny else 3, note)
    return lines
