"""Plain, compiled or on a device, on one thread or several, whole or in shards: the lists are the same, bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from threading import Barrier, Thread
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from tasks.private.nearest import blocks, numba_kernels, search, settling, vector_hashes
from tasks.private.nearest.exact import distances, margins
from tasks.private.nearest.search import Running, rank
from tasks.private.nearest.thread_pool import ThreadPool, products_of_one_thread
from tasks.private.voting.ballot import LONGEST, Ballot, usable
from tests.support.data.elections import candidates, counts
from tests.support.data.nearest_lists import NAMES, brute_force, digest_of_lists, election, same

LOOPS = (numba_kernels.scan, numba_kernels.join, settling.settle, numba_kernels.hash_vectors, numba_kernels.thin)
WAYS = ("plain", "compiled", "device")
ELSEWHERE = """
import sys
from tests.support.data.nearest_lists import digest_of_lists
sys.stdout.write(digest_of_lists(sys.argv[1]))
"""


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small elections are cut into as many blocks as large ones."""
    monkeypatch.setattr(blocks, "ROWS", (2, 3))
    monkeypatch.setattr(blocks, "COLUMNS", (5, 7))


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**32),
    rows=st.integers(1, 40),
    size=st.integers(1, 300),
    dimension=st.sampled_from([1, 2, 7, 64]),
    votes=st.sampled_from([1, 3, 8, 11]),
    cut=st.floats(0, 1),
    ways=st.tuples(*[st.sampled_from(WAYS)] * 3),
)
def test_every_way_and_every_mixture_of_ways_gives_the_same_lists(
    seed: int, rows: int, size: int, dimension: int, votes: int, cut: float, ways: Any
):
    ballot, standing = election(seed, rows, size, dimension=dimension, votes=votes)
    expected = rank(ballot, standing, way="plain")
    assert same(rank(ballot, standing, way=ways[0]), expected)
    order = np.random.default_rng(seed).permutation(size)
    part = rank(ballot, standing.take(order[: int(cut * size)]), way=ways[1])
    assert same(rank(ballot, standing, part, way=ways[2]), expected)


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("way", WAYS[1:])
@pytest.mark.parametrize("block", [1, 4, 1000])
def test_lists_of_narrow_blocks_are_those_of_brute_force(way: Any, block: int):
    for seed, rows, size in ((1, 1, 40), (2, 9, 60), (3, 30, 25)):
        ballot, standing = election(seed, rows, size, votes=3)
        state = rank(ballot, standing, block=block, way=way)
        assert (state.near_ids.tolist(), state.far_ids.tolist()) == brute_force(ballot, standing)


@pytest.mark.parametrize("way", WAYS)
def test_more_copies_than_a_row_keeps_are_told_apart_by_id(way: Any):
    rng = np.random.default_rng(3)
    vectors = np.repeat(rng.normal(size=(6, 16)), 50, axis=0).astype(np.float32)
    standing = candidates(vectors, ids=rng.permutation(1000)[:300])
    ballot = Ballot(rng.normal(size=(40, 16)).astype(np.float32), ["a"] * 40, 8)
    state = rank(ballot, standing, way=way)
    near, far = brute_force(ballot, standing)
    assert (state.near_ids.tolist(), state.far_ids.tolist()) == (near, far)
    assert same(state, rank(ballot, standing, rank(ballot, standing.take(np.arange(0, 300, 2)), way=way), way=way))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("scales", [(1e-20, 1e-20), (1e-3, 1e6), (1e14, 1e14), (0.0, 1.0), (1.0, 0.0)])
def test_vectors_of_any_length_are_compared_exactly(way: Any, scales: tuple[float, float]):
    ballot, standing = election(5, 4, 60)
    ballot = replace(ballot, vectors=ballot.vectors * np.float32(scales[0]))
    standing = replace(standing, vectors=standing.vectors * np.float32(scales[1]))
    state, expected = rank(ballot, standing, way=way), brute_force(ballot, standing)
    assert (state.near_ids.tolist(), state.far_ids.tolist()) == expected


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38, 1e16])
def test_a_row_that_is_no_vector_votes_for_nobody_and_moves_nobody(way: Any, value: float):
    ballot, standing = election(8, 5, 40)
    expected = rank(ballot, standing, way="plain")
    vectors = ballot.vectors.copy()
    vectors[2, 3] = value
    state = rank(replace(ballot, vectors=vectors), standing, way=way)
    assert (state.near_ids[2] == -1).all()
    assert (state.far_ids[2] == -1).all()
    others = [0, 1, 3, 4]
    for name in NAMES:
        assert getattr(state, name)[others].tobytes() == getattr(expected, name)[others].tobytes()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("rows", "size", "dimension"), [(0, 5, 3), (3, 0, 3), (3, 5, 0), (0, 0, 0)])
def test_elections_of_nothing_end(way: Any, rows: int, size: int, dimension: int):
    ballot = Ballot(np.zeros((rows, dimension), np.float32), ["a"] * rows, 2)
    state = rank(ballot, candidates(np.zeros((size, dimension), np.float32)), way=way)
    expected = [[0, 1]] * rows if size else [[-1, -1]] * rows
    assert state.near_ids.tolist() == state.far_ids.tolist() == expected


def test_compiled_and_plain_sums_run_from_the_first_component_to_the_last():
    rng = np.random.default_rng(9)
    mine, theirs = (rng.normal(size=(number, 301)).astype(np.float32) for number in (1, 11))
    found = np.zeros(11)
    settling.measure(mine[0], theirs, np.arange(11), found, np.zeros((8, 301)))
    by_hand = []
    for vector in theirs.astype(float).tolist():
        total = 0.0
        for left, right in zip(mine[0].astype(float).tolist(), vector, strict=True):
            total += (left - right) * (left - right)
        by_hand.append(total)
    assert found.tolist() == by_hand
    assert distances(mine, theirs, np.zeros(11, dtype=np.int64), np.arange(11)).tolist() == by_hand


def test_lists_do_not_depend_on_threads_or_on_the_kernel_of_products():
    expected = digest_of_lists("plain")
    for way in WAYS[1:]:
        with threadpool_limits(1, user_api="blas"):
            assert digest_of_lists(way) == expected
    environment = {**os.environ, "OPENBLAS_CORETYPE": "Nehalem", "OPENBLAS_NUM_THREADS": "3"}
    command = [sys.executable, "-c", ELSEWHERE, "compiled"]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert found.stdout == expected


def test_votes_at_the_same_time_give_products_their_threads_back():
    def threads() -> list[int]:
        return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]

    before, seen = threads(), []
    workers = [Thread(target=lambda: seen.append(digest_of_lists("compiled"))) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert seen == [digest_of_lists("plain")] * 3
    assert threads() == before
    with products_of_one_thread() as outer, ThreadPool() as pool:
        assert set(threads()) == {1}
        assert pool.begin() == outer == max(before)
    assert threads() == before


def test_products_have_their_threads_back_whichever_thread_ends_last():
    def threads() -> set[int]:
        return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}

    before, turns = threads(), [Barrier(3, timeout=30) for _ in range(4)]
    seen: list[set[int]] = []

    def vote(goes_first: bool) -> None:
        with products_of_one_thread():
            turns[0].wait()
            if not goes_first:
                turns[1].wait()
                seen.append(threads())
        if goes_first:
            turns[1].wait()
        turns[2].wait()
        turns[3].wait()  # alive while others ask

    workers = [Thread(target=vote, args=(goes_first,)) for goes_first in (True, False)]
    for worker in workers:
        worker.start()
    for turn in turns[:3]:
        turn.wait()
    try:
        assert seen == [{1}]
        assert threads() == before
        with products_of_one_thread():
            assert threads() == {1}
        assert threads() == before
    finally:
        turns[3].wait()
        for worker in workers:
            worker.join()


@settings(deadline=None, max_examples=60)
@given(
    dimension=st.sampled_from([1, 2, 5, 384]),
    value=st.sampled_from([0.0, 1.0, 1e-30, np.nan, np.inf, -np.inf, 3e38])
    | st.floats(0.3, 3).map(lambda x: x * LONGEST),
    equal=st.booleans(),
)
def test_a_vector_is_usable_if_its_largest_component_says_so(dimension: int, value: float, equal: bool):
    vectors = np.ones((3, dimension), dtype=np.float32)
    scaled = np.float32(value / np.sqrt(dimension) if np.isfinite(value) else value)
    vectors[1, slice(None) if equal else dimension // 2] = scaled
    widest = np.abs(vectors).max(axis=1) * np.sqrt(dimension)
    assert usable(vectors).tolist() == (widest <= LONGEST).tolist()


@pytest.mark.parametrize(("rows", "size", "dimension"), [(1, 1, 1), (1, 8, 3), (3, 7, 384), (4, 2, 16), (13, 33, 100)])
def test_products_of_few_rows_are_products_within_the_margin(rows: int, size: int, dimension: int):
    rng = np.random.default_rng(rows)
    mine, theirs = (rng.normal(size=(some, dimension)).astype(np.float32) for some in (rows, 50))
    places = rng.permutation(50)[:size]
    tile = np.full((rows, size), np.nan, dtype=np.float32)
    numba_kernels.thin(mine, theirs, places, tile)
    exact = mine.astype(float) @ theirs[places].T.astype(float)
    squares = [np.einsum("ij,ij->i", some, some, dtype=np.float64) for some in (mine, theirs)]
    assert (np.abs(tile - exact) <= margins(squares[0], float(np.sqrt(squares[1].max())), dimension)[:, None]).all()


@pytest.mark.parametrize("rows", [1, 5, 19, 40])
@pytest.mark.parametrize("order", ["sorted", "mixed"])
def test_classes_of_any_size_and_order_are_compared_exactly(rows: int, order: str):
    rng = np.random.default_rng(rows)
    ballot, standing = election(rows, 3 * rows, 300, dimension=24, votes=3)
    labels = [f"class {code}" for code in rng.integers(0, 3, 3 * rows)]
    codes = rng.integers(0, 3, 300)
    codes = np.sort(codes) if order == "sorted" else codes
    names = np.array([f"class {code}" for code in codes], dtype=object)
    ballot, standing = replace(ballot, labels=labels), replace(standing, labels=names)
    state = rank(ballot, standing, way="compiled")
    assert (state.near_ids.tolist(), state.far_ids.tolist()) == brute_force(ballot, standing)
    assert same(state, rank(ballot, standing, way="plain"))


def test_labels_of_any_kind_and_order_are_told_apart():
    for labels in (["b", "a", "b"], ["a"] * 40 + ["b"] * 40, [1, 1.0, "1", None], [f"c{k}" for k in range(40_000)], []):
        names, codes = search._coded(np.array(labels, dtype=object))
        assert [names[code] for code in codes] == [str(label) for label in labels]
        assert len(set(names)) == len(names)


@pytest.mark.parametrize("wrong", [[0, 1, 1, 1], [1, 1, 1, 0], [0, 0, 0, 0]])
def test_what_a_task_of_the_crew_raises_is_raised(wrong: list[int]):
    with ThreadPool() as pool, pytest.raises(ZeroDivisionError):
        pool.map(lambda number: 1 // number, wrong)


def test_the_crew_does_every_task_once_and_keeps_their_order():
    done = []
    with ThreadPool() as pool:
        for number in (0, 1, 2, 100):
            assert pool.map(lambda task: (done.append(task), task)[1], range(number)) == list(range(number))
    assert sorted(done) == sorted([*range(0), *range(1), *range(2), *range(100)])


@pytest.mark.parametrize("way", WAYS)
def test_arrays_however_they_lie_in_memory_are_compared_by_one_and_the_same_machine_code(way: Any, tmp_path: Any):
    ballot, standing = election(5, 20, 90, dimension=10, votes=3)
    expected = rank(ballot, standing, way="plain")
    np.save(tmp_path / "vectors.npy", standing.vectors)
    mapped = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    wide = np.zeros((90, 20), dtype=np.float32)
    wide[:, ::2] = standing.vectors
    shifted = np.frombuffer(b"x" + standing.vectors.tobytes(), dtype=np.float32, offset=1).reshape(90, 10)
    ids = np.repeat(standing.ids, 2)[::2]
    ids.flags.writeable = False
    for vectors in (mapped, wide[:, ::2], np.asfortranarray(standing.vectors), shifted):
        mine = np.asfortranarray(ballot.vectors)
        assert same(rank(replace(ballot, vectors=mine), replace(standing, vectors=vectors, ids=ids), way=way), expected)
    assert [len(loop.signatures) for loop in LOOPS] == [1] * 5


@pytest.mark.parametrize("dimension", [1, 2, 7, 384])
def test_marks_tell_any_change_whatever_computes_them(dimension: int):
    rng = np.random.default_rng(dimension)
    vectors = rng.normal(size=(5, dimension)).astype(np.float32)
    found = vector_hashes.hashes_of(vectors)
    changed = vectors.copy()
    changed[3, dimension // 2] = np.nextafter(changed[3, dimension // 2], np.float32(9))
    assert (vector_hashes.hashes_of(changed) != found).tolist() == [False, False, False, True, False]
    numbers = rng.integers(0, 2**63, 2 * vector_hashes.BLOCK + 3).astype(np.uint64)
    whole, seen = vector_hashes.digest_of(numbers).tobytes(), set()
    for place in (0, 1, vector_hashes.BLOCK, 2 * vector_hashes.BLOCK - 1, 2 * vector_hashes.BLOCK, len(numbers) - 1):
        other = numbers.copy()
        other[place] += np.uint64(1)
        seen.add(vector_hashes.digest_of(other).tobytes())
    seen.add(vector_hashes.digest_of(numbers[:-1]).tobytes())
    assert len(seen - {whole}) == 7
    hashes = vector_hashes.VectorHashes.of(vectors, numba_kernels.hash_vectors)
    hashes.compute(slice(0, 5))
    assert hashes.values.tolist() == found.tolist()


@pytest.mark.parametrize("way", WAYS)
def test_a_state_knows_every_candidate_of_every_class_again(way: Any):
    ballot, standing = election(17, 6, 80)
    ballot = replace(ballot, labels=["a"] * 6)
    state = rank(ballot, standing.take(np.arange(50)), way=way)
    for place in (0, 30, 49):
        vectors = standing.vectors.copy()
        vectors[place] = -vectors[place]
        other = replace(standing, vectors=vectors)
        assert same(rank(ballot, other, state, way=way), rank(ballot, other, way="plain")), place
    ways = [rank(ballot, standing, state, way=one).seen_digest.tobytes() for one in WAYS]
    assert len({*ways, rank(ballot, standing, way=way).seen_digest.tobytes()}) == 1


def test_small_elections_and_the_import_load_no_compiler():
    program = (
        "import sys, numpy as np\n"
        "from tests.support.data.nearest_lists import election\n"
        "from tasks.private.nearest.search import rank\n"
        "rank(*election(1, 100, 500, dimension=64))\n"
        "assert not {'numba', 'torch', 'threadpoolctl'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_way_of_an_election_is_that_of_its_size_and_of_what_the_machine_has(monkeypatch: pytest.MonkeyPatch):
    ballot, standing = election(1, 3, 30)
    monkeypatch.setattr(search.gpu, "exists", lambda: True)
    assert search._way(ballot, standing) == "plain"
    monkeypatch.setattr(search, "LARGE", 1)
    assert search._way(ballot, standing) == "compiled"
    monkeypatch.setattr(search.gpu, "LARGE", 1)
    assert search._way(ballot, standing) == "device"
    monkeypatch.setattr(search.gpu, "exists", lambda: False)
    assert search._way(ballot, standing) == "compiled"


def test_loops_are_compiled_where_no_folder_can_keep_them(monkeypatch: pytest.MonkeyPatch):
    really = numba.njit

    def read_only(**wanted: Any) -> Any:
        if wanted.get("cache"):
            raise RuntimeError("cannot cache function: no locator available for file")
        return really(**wanted)

    monkeypatch.setattr(numba, "njit", read_only)
    values, columns = np.array([1.0, 2.0, 9.0], np.float32), np.array([5, 6, -1])
    numba_kernels.compiled(numba_kernels._put)(values, columns, np.float32(1.5), 7)
    assert (values.tolist(), columns.tolist()) == ([1.0, 1.5, 2.0], [5, 7, 6])


def test_lists_of_shards_of_candidates_merge_into_those_of_all():
    ballot, standing = election(21, 30, 400, dimension=16)
    places = np.random.default_rng(0).permutation(400)
    shards = [rank(ballot, standing.take(part)) for part in np.array_split(places, 7)]
    whole = rank(ballot, standing)
    for ids, keys in (("near_ids", "near_keys"), ("far_ids", "far_keys")):
        all_ids = np.concatenate([getattr(shard, ids) for shard in shards], axis=1)
        all_keys = np.concatenate([getattr(shard, keys) for shard in shards], axis=1)
        order = np.lexsort((all_ids, all_keys), axis=1)[:, : ballot.votes]
        assert np.array_equal(np.take_along_axis(all_ids, order, axis=1), getattr(whole, ids))
        assert np.array_equal(np.take_along_axis(all_keys, order, axis=1), getattr(whole, keys))


def test_votes_of_shards_of_private_rows_add_up_to_those_of_all():
    ballot, standing = election(22, 60, 200, dimension=16)

    def part(places: Any) -> Ballot:
        return replace(ballot, vectors=ballot.vectors[places], labels=[ballot.labels[place] for place in places])

    shards = [counts(part(places), standing) for places in np.array_split(np.arange(60), 4)]
    assert np.array_equal(np.sum(shards, axis=0), counts(ballot, standing))


@pytest.mark.gpu
def test_a_graphics_processor_proposes_the_same_lists():
    import torch

    if not torch.cuda.is_available():
        pytest.skip("no device")
    ballot, standing = election(41, 3000, 40_000, dimension=384)
    expected: Running = rank(ballot, standing, way="compiled")
    assert same(rank(ballot, standing, way="device"), expected)
    assert same(rank(ballot, standing, rank(ballot, standing.take(np.arange(30_000))), way="device"), expected)
