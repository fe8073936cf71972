"""Nearest and furthest lists: exact, and the same for any blocks, kernels and other rows."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.interfaces.errors import ConfigError
from tasks.private.votes import nearest as search
from tasks.private.votes.ballot import MAX_NORM, Ballot, Candidates, squared_lengths, usable
from tasks.private.votes.nearest import margins, rank
from tests.support.data.elections import candidates
from tests.support.data.nearest_lists import NAMES, brute_force, election, same

ELSEWHERE = """
import sys
from tasks.private.votes.nearest import rank
from tests.support.data.nearest_lists import NAMES, election
state = rank(*election(31, 150, 2500, dimension=64))
sys.stdout.buffer.write(b"".join(getattr(state, name).tobytes() for name in NAMES))
"""


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32), size=st.integers(1, 40), votes=st.sampled_from([1, 3, 8]))
def test_lists_are_those_of_brute_force(seed: int, size: int, votes: int):
    ballot, standing = election(seed, 3, size, votes=votes)
    state, (near, far) = rank(ballot, standing, block=7), brute_force(ballot, standing)
    assert state.near_ids.tolist() == near
    assert state.far_ids.tolist() == far


def test_distances_are_summed_from_the_first_component_to_the_last():
    ballot, standing = election(6, 3, 30, dimension=200, votes=1)
    state = rank(ballot, standing)
    for row, identity in enumerate(state.near_ids[:, 0]):
        distance = 0.0
        vector = standing.vectors[np.flatnonzero(standing.ids == identity)[0]]
        for left, right in zip(ballot.vectors[row].tolist(), vector.tolist(), strict=True):
            distance += (left - right) * (left - right)
        assert state.near_keys[row, 0] == distance


@pytest.mark.parametrize("scales", [(1e-12, 1e-12), (1e-3, 1e6), (1e6, 1e-3), (1e10, 1e10)])
def test_lists_are_exact_for_vectors_of_any_length(scales: tuple[float, float]):
    ballot, standing = election(5, 4, 60)
    ballot = replace(ballot, vectors=ballot.vectors * np.float32(scales[0]))
    standing = replace(standing, vectors=standing.vectors * np.float32(scales[1]))
    state, (near, far) = rank(ballot, standing), brute_force(ballot, standing)
    assert (state.near_ids.tolist(), state.far_ids.tolist()) == (near, far)


def test_lists_do_not_depend_on_the_sizes_of_blocks_and_of_pending_proposals(
    monkeypatch: pytest.MonkeyPatch,
):
    ballot, standing = election(11, 600, 1500, dimension=96)
    whole = rank(ballot, standing)
    for block in (64, 997):
        assert same(whole, rank(ballot, standing, block=block))
    for name, size in (("PENDING", 5), ("ROWS", 7), ("SETS", 3)):
        monkeypatch.setattr(search, name, size)
    assert same(whole, rank(ballot, standing, block=100))


def test_candidates_closer_together_than_a_rounded_distance_are_ordered_exactly():
    rng = np.random.default_rng(4)
    base = rng.normal(size=(1, 384)).astype(np.float32)
    vectors = base + rng.normal(scale=1e-5, size=(80, 384)).astype(np.float32)
    ballot = Ballot(base + rng.normal(scale=1e-5, size=(3, 384)).astype(np.float32), ["a"] * 3, 2)
    state = rank(ballot, candidates(vectors))
    assert (state.near_ids.tolist(), state.far_ids.tolist()) == brute_force(
        ballot, candidates(vectors)
    )


@pytest.mark.parametrize(
    ("rows", "size", "dimension"), [(0, 5, 3), (3, 0, 3), (3, 5, 0), (0, 0, 0)]
)
def test_elections_of_nothing_end(rows: int, size: int, dimension: int):
    ballot = Ballot(np.zeros((rows, dimension), np.float32), ["a"] * rows, 2)
    state = rank(ballot, candidates(np.zeros((size, dimension), np.float32)))
    expected = [[0, 1]] * rows if size else [[-1, -1]] * rows
    assert state.near_ids.tolist() == state.far_ids.tolist() == expected


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38, 1e16])
def test_a_row_that_is_no_vector_votes_for_nobody_and_moves_nobody(value: float):
    ballot, standing = election(8, 5, 40)
    expected, vectors, others = rank(ballot, standing), ballot.vectors.copy(), [0, 1, 3, 4]
    vectors[2, 3] = value
    state = rank(replace(ballot, vectors=vectors), standing)
    assert (state.near_ids[2] == -1).all()
    assert (state.far_ids[2] == -1).all()
    for name in NAMES:
        assert getattr(state, name)[others].tobytes() == getattr(expected, name)[others].tobytes()


@settings(deadline=None, max_examples=60)
@given(
    dimension=st.sampled_from([1, 2, 5, 384]),
    value=st.sampled_from([0.0, 1.0, 1e-30, np.nan, np.inf, -np.inf, 3e38])
    | st.floats(0.3, 3).map(lambda x: x * MAX_NORM),
    equal=st.booleans(),
)
def test_a_vector_is_usable_if_its_largest_component_says_so(
    dimension: int, value: float, equal: bool
):
    vectors = np.ones((3, dimension), dtype=np.float32)
    scaled = np.float32(value / np.sqrt(dimension) if np.isfinite(value) else value)
    vectors[1, slice(None) if equal else dimension // 2] = scaled
    widest = np.abs(vectors).max(axis=1) * np.sqrt(dimension)
    assert usable(vectors).tolist() == (widest <= MAX_NORM).tolist()


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    dimension=st.sampled_from([1, 3, 16, 384]),
    scale=st.sampled_from([-12, 0, 9]),
)
def test_rounded_distances_are_within_the_margin(seed: int, dimension: int, scale: int):
    rng = np.random.default_rng(seed)
    mine = rng.normal(size=(9, dimension)).astype(np.float32)
    theirs = (10.0**scale * rng.normal(size=(50, dimension))).astype(np.float32)
    squares = squared_lengths(theirs)
    rounded = (
        np.hstack([-2 * mine, np.ones((9, 1), np.float32)])
        @ np.hstack([theirs, squares[:, None]]).T
    )
    own = np.einsum("ij,ij->i", mine, mine, dtype=np.float64)
    exact = ((mine[:, None].astype(np.longdouble) - theirs[None]) ** 2).sum(axis=2) - own[:, None]
    bound = margins(own, float(np.sqrt(squares.max())), dimension)
    assert (np.abs(rounded - exact) <= bound[:, None]).all()


def test_labels_of_any_kind_are_compared_as_text():
    vectors = np.arange(4, dtype=np.float32)[:, None]
    standing = Candidates(np.arange(4), np.array([1, 1.0, "1", None], dtype=object), vectors)
    assert rank(Ballot(vectors[:2], ["1", "None"], 4), standing).near_ids.tolist() == [
        [0, 2, -1, -1],
        [3, -1, -1, -1],
    ]


def test_arrays_in_any_memory_order_give_the_same_lists():
    ballot, standing = election(5, 20, 90, dimension=10, votes=3)
    wide = np.zeros((90, 20), dtype=np.float32)
    wide[:, ::2] = standing.vectors
    shifted = np.frombuffer(b"x" + standing.vectors.tobytes(), dtype=np.float32, offset=1).reshape(
        90, 10
    )
    for vectors in (wide[:, ::2], np.asfortranarray(standing.vectors), shifted):
        mine = replace(ballot, vectors=np.asfortranarray(ballot.vectors))
        assert same(rank(mine, replace(standing, vectors=vectors)), rank(ballot, standing))


def test_lists_do_not_depend_on_the_kernel_or_the_threads_of_products():
    ballot, standing = election(31, 150, 2500, dimension=64)
    environment = {**os.environ, "OPENBLAS_CORETYPE": "Nehalem", "OPENBLAS_NUM_THREADS": "3"}
    other = subprocess.run(
        [sys.executable, "-c", ELSEWHERE], env=environment, capture_output=True, check=True
    ).stdout
    assert other == b"".join(getattr(rank(ballot, standing), name).tobytes() for name in NAMES)


def test_a_row_has_the_same_list_bit_for_bit_whoever_else_votes():
    ballot, standing = election(12, 40, 400, dimension=64)
    everybody = rank(ballot, standing)
    for row in (0, 17, 39):
        alone = rank(
            replace(ballot, vectors=ballot.vectors[[row]], labels=[ballot.labels[row]]), standing
        )
        left = [position for position in range(40) if position != row]
        others = replace(
            ballot,
            vectors=ballot.vectors[left],
            labels=[ballot.labels[position] for position in left],
        )
        rest = rank(others, standing)
        for name in NAMES:
            assert getattr(alone, name).tobytes() == getattr(everybody, name)[row].tobytes()
            assert getattr(rest, name).tobytes() == getattr(everybody, name)[left].tobytes()


def test_rows_and_candidates_of_different_embedders_are_refused():
    ballot, standing = election(18, 2, 5)
    with pytest.raises(ConfigError, match="dimension"):
        rank(replace(ballot, vectors=ballot.vectors[:, :3]), standing)
