"""The vote before its noise, against the float32 matrix product that no exact search can do without.

Threads of BLAS wait for more work for a tenth of a second after a product and take a core from what follows: every arm
begins when they sleep.
"""

from typing import Any

import numpy as np

from tasks.private.votes.ballot import Ballot, Candidates
from tasks.private.votes.nearest import COLUMNS, ROWS, rank
from tests.benchmarks.goals import toward
from tests.benchmarks.race import Line, Work, in_turns, line

VOTES = 8
REST = 0.15
"""Seconds after which the threads of BLAS sleep (its THREAD_TIMEOUT is 2^28 ticks of a clock of about 2.6 GHz)."""
SIZES = {(300, 6_000): "P1-small", (1_000, 6_000): "P1-small", (10_000, 100_000): "P1"}


def election(rows: int, size: int, dimension: int) -> tuple[Ballot, Candidates]:
    """Return unit vectors around fifty centres, like embeddings of texts; one class."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(50, dimension)).astype(np.float32)

    def drawn(count: int) -> Any:
        vectors = centres[rng.integers(0, len(centres), count)] + rng.standard_normal(
            (count, dimension), np.float32
        )
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    labels = np.array(["a"] * size, dtype=object)
    return Ballot(drawn(rows), ["a"] * rows, VOTES), Candidates(
        np.arange(size), labels, drawn(size)
    )


def product(mine: Any, theirs: Any) -> Work:
    """Return the product of both in blocks of the vote's size."""

    def work() -> None:
        for start in range(0, len(theirs), COLUMNS):
            for first in range(0, len(mine), ROWS):
                np.matmul(mine[first : first + ROWS], theirs[start : start + COLUMNS].T)

    return work


def vote(tiny: bool) -> list[Line]:
    """Nearest and furthest eight of every row."""
    lines = []
    for (rows, size), goal in ({(5, 40): "P1-small"} if tiny else SIZES).items():
        ballot, candidates = election(rows, size, 8 if tiny else 384)
        arms = {
            "": lambda b=ballot, c=candidates: rank(b, c),
            "product": product(ballot.vectors, candidates.vectors),
        }
        taken = in_turns(arms, 1 if tiny or rows >= 10_000 else 9, rest=0 if tiny else REST)
        lines.append(
            toward(
                line("vote", f"{rows} x {size}", "float32 product", taken[""], taken["product"]),
                goal,
            )
        )
    return lines
