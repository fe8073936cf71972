"""bfloat16 products: what they may leave out is proven, and the lists are those of float32, bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier, Thread, get_ident
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

from tasks.private import blocks, crew, halves
from tasks.private.ballot import Ballot, squared_lengths
from tasks.private.comparing import margins
from tasks.private.nearest import rank
from tests.tasks.private.elections import candidates
from tests.tasks.private.test_nearest import election, same


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    scales=st.tuples(*[st.sampled_from([1e-30, 1e-3, 1.0, 1e6, 1e14])] * 2),
    dimension=st.sampled_from([1, 3, 64, 384, 2048]),
)
def test_distances_in_shorter_numbers_lie_within_their_margin(seed: int, scales: tuple[float, float], dimension: int):
    rng = np.random.default_rng(seed)
    mine, theirs = (
        (rng.normal(size=(some, dimension)) * rng.choice([1.0, 3.0], dimension) * scale).astype(np.float32)
        for some, scale in zip((5, 40), scales, strict=True)
    )
    own, squares = (np.einsum("ij,ij->i", some, some, dtype=np.float64) for some in (mine, theirs))
    longest = np.full(5, np.sqrt(squares.max()))
    (rows, gone), (short, lost) = (shortened(some, squared) for some, squared in ((mine, own), (theirs, squares)))
    assert torch.equal(rows, torch.tensor(mine).bfloat16()), "rounded as everybody rounds"
    fixed, each = halves.margins(gone, np.sqrt(own), longest, dimension)
    margin = margins(own, longest, dimension) + fixed + each * lost.max()
    product = ((-2 * rows) @ short.T).float().numpy()
    value, rounding = product + squared_lengths(theirs), np.abs(product) * 2.0**-8
    exact = squares - 2 * mine.astype(float) @ theirs.T.astype(float)
    assert (np.abs(value - exact) <= margin[:, None] + rounding).all()


def shortened(vectors: Any, squares: Any) -> tuple[Any, Any]:
    """Return vectors in bfloat16, and what each loses at most."""
    short, lost = np.empty(vectors.shape, np.uint16), np.empty(len(vectors), np.float32)
    halves.shorten(vectors, np.arange(len(vectors)), short, lost)
    most = np.minimum(halves.lengths_of(lost), halves.ROUNDING * np.sqrt(squares))
    rounded = torch.from_numpy(short).view(torch.bfloat16)
    gaps = vectors.astype(float) - rounded.double().numpy()
    assert (np.sqrt((gaps * gaps).sum(axis=1)) <= most * (1 + 2.0**-10) + 2.0**-96).all()
    return rounded, most


def test_shorter_numbers_propose_all_and_where_they_cannot_longer_ones_are_taken(monkeypatch: pytest.MonkeyPatch):
    ballot, standing = election(51, 300, 6000, dimension=48)
    expected, shares = rank(ballot, standing, way="plain"), []
    surely = blocks.Election._surely

    def counted(self: Any, groups: Any) -> None:
        shares.append(sum(len(group.rows) for group in groups) / 300)
        surely(self, groups)

    monkeypatch.setattr(blocks.Election, "_surely", counted)
    assert same(rank(ballot, standing, way="halves"), expected)
    assert sum(shares) < 0.9, "some rows need no second look"
    shares.clear()
    monkeypatch.setattr(halves, "SPARE", 1)
    monkeypatch.setattr(halves, "ROWS", 30)
    monkeypatch.setattr(blocks, "ROWS", (10, 20))
    assert same(rank(ballot, standing, way="halves"), expected)
    assert sum(shares) > 0.9, "one more than the votes are too few for almost every row"


def test_what_shortening_takes_from_numbers_is_in_the_margins(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(9)
    mine = np.linalg.qr(rng.normal(size=(48, 4)))[0].T
    theirs = rng.normal(size=(2000, 48))
    theirs -= 0.99 * theirs @ mine.T @ mine  # their products are small, and so is the rounding of those
    theirs /= np.linalg.norm(theirs, axis=1, keepdims=True)
    ballot, standing = Ballot(mine.astype(np.float32), ["a"] * 4, 8), candidates(theirs)
    monkeypatch.setattr(halves, "SPARE", 2000)
    monkeypatch.setattr(blocks.Election, "_surely", None)
    assert same(rank(ballot, standing, way="halves"), rank(ballot, standing, way="plain"))
    monkeypatch.setattr(halves, "margins", lambda gone, *_: (0 * gone, 0 * gone))
    assert not same(rank(ballot, standing, way="halves"), rank(ballot, standing, way="plain"))


def test_votes_on_few_and_on_many_sides_and_texts_are_those_in_float32():
    for votes, sides, size in ((1, 1, 700), (8, 1, 64), (70, 2, 900), (8, 2, 65), (3, 2, 63)):
        ballot, standing = election(votes, 70, size, dimension=32, votes=votes)
        ballot = replace(ballot, sides=sides)
        expected = rank(ballot, standing, way="plain")
        assert same(rank(ballot, standing, way="halves"), expected)
        part = rank(ballot, standing.take(np.arange(size // 2)), way="halves")
        assert same(rank(ballot, standing, part, way="halves"), expected)


def test_torch_has_its_threads_back_after_votes_at_the_same_time():
    before, turns, seen = torch.get_num_threads(), [Barrier(2, timeout=30) for _ in range(4)], dict[str, int]()

    def vote(name: str, goes_first: bool) -> None:
        seen[f"{name} before"] = torch.get_num_threads()
        turns[0].wait()
        with halves.one_thread():
            turns[1].wait()
            if not goes_first:
                turns[2].wait()
                seen[f"{name} inside"] = torch.get_num_threads()
                with ThreadPoolExecutor(1) as later:
                    seen["a thread of its own"] = later.submit(torch.get_num_threads).result()
        if goes_first:
            turns[2].wait()
        turns[3].wait()
        seen[f"{name} after"] = torch.get_num_threads()

    torch.set_num_threads(2)
    try:
        assert torch.get_num_threads() == 2
        workers = [Thread(target=vote, args=some) for some in (("one", True), ("other", False))]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        with ThreadPoolExecutor(1) as later:
            seen["a later thread"] = later.submit(torch.get_num_threads).result()
        inside = {name for name, number in seen.items() if number == 1}
        assert inside == {"other inside", "a thread of its own"}
        assert set(seen.values()) == {1, 2}
        with halves.one_thread(), halves.one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_product_takes_one_thread_also_in_a_helper_that_never_used_torch():
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    program = "from tests.tasks.private.test_halves import threads_of_products; print(threads_of_products())"
    found = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["2", "{1}"]


def threads_of_products() -> str:
    """Return how many threads took products of a vote, and how many each of those had."""
    product, met, seen, both = torch.mm, set[int](), set[int](), Barrier(2, timeout=30)

    def watched(*given: Any, **more: Any) -> Any:
        if get_ident() not in met:
            met.add(get_ident())
            both.wait()  # else one might do it all before the other has begun
        seen.update(each["num_threads"] for each in threadpool_info() if each["user_api"] == "openmp")
        return product(*given, **more)

    torch.mm = watched
    blocks.ALONE = 0  # type: ignore[misc]
    rank(*election(4, 200, 3000, dimension=64), way="halves")
    return f"{len(met)} {seen}"


def test_votes_at_the_same_time_do_not_share_helpers():
    alone, other = crew.Crew(), crew.Crew()
    with alone, other:
        assert [each.map(str, range(3)) for each in (alone, other)] == [["0", "1", "2"]] * 2
        assert alone._pool is None or alone._pool is not other._pool
    with crew.Crew() as later:
        assert later.map(str, range(3)) == ["0", "1", "2"]
        assert later._pool in (None, other._pool, alone._pool), "helpers wait for the next vote"
