"""The vote before its noise, against the matrix product that no exact search can do without, and against searches.

Every line says what the other leaves out. The loops of large votes are loaded before anything is measured. Threads of
BLAS look for more work a tenth of a second long after a product, and take a core from whatever comes next: so every arm
begins when they sleep.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tasks.accounting.sensitivity import VotePrivacy
from tasks.accounting.votes import Noise, calibrate
from tasks.private.nearest.search import Running, Way, rank
from tasks.private.voting.ballot import Ballot, Candidates
from tasks.private.voting.votes import clean_votes
from tests.benchmarks.goals import toward
from tests.benchmarks.race import Line, Work, in_turns, line

VOTES = 8
ITERATIONS = 5
WIDTH = 4096
REST = 0.15
"""Seconds after which the threads of BLAS sleep (its THREAD_TIMEOUT is 2^28 ticks of a clock of about 2.6 GHz)."""
NOISE: Noise = calibrate(VotePrivacy(4.0, 1e-5, 4, votes=VOTES))
FLOOR = {"numpy matrix product": "in float32: no list, no count"}


def election(rows: int, size: int, dimension: int) -> tuple[Ballot, Candidates]:
    """Return unit vectors around fifty centres, as embeddings of texts lie; one class."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(50, dimension)).astype(np.float32)

    def drawn(count: int) -> Any:
        vectors = centres[rng.integers(0, len(centres), count)] + rng.standard_normal((count, dimension), np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    labels = np.array(["a"] * size, dtype=object)
    return Ballot(drawn(rows), ["a"] * rows, VOTES), Candidates(np.arange(size), labels, drawn(size))


def product(mine: Any, theirs: Any) -> Work:
    """Return the product of both in blocks that stay in the cache, as the vote needs it, by all threads of BLAS."""
    room = np.empty((len(mine), WIDTH), dtype=np.float32)

    def work() -> None:
        for start in range(0, len(theirs), WIDTH):
            part = theirs[start : start + WIDTH]
            np.matmul(mine, part.T, out=room[:, : len(part)])

    return work


def compare(
    subject: str, case: str, ours: Work, peers: Mapping[str, Work], rounds: int, notes: Mapping[str, str]
) -> list[Line]:
    """Do as `race.compare`, with a rest before each arm."""
    taken = in_turns({"": ours, **peers}, rounds, rest=REST if rounds > 1 else 0)
    return [line(subject, case, name, taken[""], taken[name], notes.get(name, "")) for name in peers]


def vote(tiny: bool) -> list[Line]:
    """Nearest and furthest eight of every row, counted: how far from the product."""
    lines = []
    sizes = {(100, 6_000, 384): "P2", (1_000, 100_000, 384): "P1", (1_000, 100_000, 768): "P1"}
    for (rows, size, dimension), goal in ({(5, 40, 8): "P2"} if tiny else sizes).items():
        ballot, standing = election(rows, size, dimension)
        rank(ballot, standing, way="compiled")
        floor = {"numpy matrix product": product(ballot.vectors, standing.vectors)}
        rounds = 1 if tiny else 15 if size < 10_000 else 5
        ways: tuple[Way, ...] = ("compiled", "plain") if goal == "P2" else ("compiled",)
        for way in ways:
            ours = lambda b=ballot, s=standing, way=way: rank(b, s, way=way)  # noqa: E731
            found = compare("vote", f"{rows} x {size}, d={dimension}, {way}", ours, floor, rounds, FLOOR)
            lines += [toward(one, goal) if way == "compiled" else one for one in found]
    return lines


def rivals(tiny: bool) -> list[Line]:
    """Both ends and eight of each, against what others need for less."""
    lines = []
    for rows, size in ((5, 40),) if tiny else ((100, 6_000), (1_000, 20_000), (1_000, 100_000)):
        ballot, standing = election(rows, size, 384)
        rank(ballot, standing, way="compiled")
        both, one = _both_ends(ballot, standing), _nearest_one(ballot, standing)
        notes = dict.fromkeys(both, "ties as they come") | dict.fromkeys(one, "the nearest alone, ties as they come")
        rounds = 1 if tiny else 15 if size < 10_000 else 3
        ours = lambda b=ballot, s=standing: clean_votes(b, s, NOISE)  # noqa: E731
        for each in compare("rivals", f"{rows} x {size}, d=384", ours, {**both, **one}, rounds, notes):
            if each.against in one:
                lines.append(toward(each, "P5", 1 / each.ratio))
            elif each.against.startswith("faiss") and size != 20_000:
                lines.append(toward(each, "P4" if size > 20_000 else "P4-small", 1 / each.ratio))
            else:
                lines.append(each)
    return lines


def _both_ends(ballot: Ballot, standing: Candidates) -> Mapping[str, Work]:
    import faiss
    import torch

    nearest, furthest = faiss.IndexFlatL2(standing.vectors.shape[1]), faiss.IndexFlatIP(standing.vectors.shape[1])
    nearest.add(standing.vectors)
    furthest.add(standing.vectors)
    mine, others = torch.from_numpy(ballot.vectors), torch.from_numpy(standing.vectors)
    squares = (others * others).sum(dim=1)

    def two_passes() -> None:
        nearest.search(ballot.vectors, VOTES)
        furthest.search(-ballot.vectors, VOTES)

    def two_lists() -> None:
        for start in range(0, len(others), 4 * WIDTH):
            part = slice(start, start + 4 * WIDTH)
            distances = torch.addmm(squares[part], mine, others[part].T, alpha=-2)
            for largest in (False, True):
                torch.topk(distances, min(VOTES, distances.shape[1]), largest=largest)

    return {"faiss, two passes": two_passes, "torch addmm, two topk": two_lists}


def _nearest_one(ballot: Ballot, standing: Candidates) -> Mapping[str, Work]:
    import faiss
    import torch
    from sklearn.neighbors import NearestNeighbors

    index = faiss.IndexFlatL2(standing.vectors.shape[1])
    index.add(standing.vectors)
    mine, others = torch.from_numpy(ballot.vectors), torch.from_numpy(standing.vectors)
    squares = (others * others).sum(dim=1)
    fitted = NearestNeighbors(n_neighbors=1, algorithm="brute", metric="euclidean").fit(standing.vectors)
    return {
        "faiss, nearest one": lambda: index.search(ballot.vectors, 1),
        "torch addmm, nearest one": lambda: torch.addmm(squares, mine, others.T, alpha=-2).min(dim=1),
        "scikit-learn, nearest one": lambda: fitted.kneighbors(ballot.vectors),
    }


def classes(tiny: bool) -> list[Line]:
    """Rows vote inside their class, against products of the blocks of classes; candidates sorted by class, or not."""
    lines = []
    for number in (2,) if tiny else (10, 77):
        ballot, standing = election(*((5, 40, 8) if tiny else (1_000, 100_000, 384)))
        rng = np.random.default_rng(number)
        own, codes = (rng.integers(0, number, len(one)) for one in (ballot.labels, standing.ids))
        names = np.array([f"class {code}" for code in range(number)], dtype=object)
        ballot = replace(ballot, labels=names[own].tolist())
        order = np.argsort(codes, kind="stable")
        mixed = replace(standing, labels=names[codes])
        in_order = Candidates(standing.ids, names[codes[order]], standing.vectors[order])
        products = [
            product(ballot.vectors[own == code], in_order.vectors[codes[order] == code]) for code in range(number)
        ]
        floor = {"numpy products by class": lambda products=products: [each() for each in products]}
        for case, some in (("sorted", in_order), ("mixed", mixed)):
            rank(ballot, some, way="compiled")
            ours = lambda b=ballot, s=some: clean_votes(b, s, NOISE)  # noqa: E731
            found = compare("classes", f"{number} classes, {case}", ours, floor, 1 if tiny else 7, FLOOR)
            lines += [toward(one, "P6") if case == "sorted" else one for one in found]
    return lines


def incremental(tiny: bool) -> list[Line]:
    """All votes of a run whose texts grow by a fifth each time: only new texts against everything anew."""
    lines = []
    for rows, size in ((5, 40),) if tiny else ((100, 6_000), (1_000, 20_000), (1_000, 100_000)):
        ballot, standing = election(rows, size, 384)
        rank(ballot, standing, way="compiled")
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
        rounds = 1 if tiny else 15 if size < 10_000 else 5
        lines += [toward(one, "P7") for one in compare("incremental", case, merged, {"recompute": anew}, rounds, note)]
    return lines
