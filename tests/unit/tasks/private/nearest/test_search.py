"""Nearest and furthest lists: exact, the same however the work is cut, kept between votes."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.interfaces.errors import ArtifactError, ConfigError
from tasks.private.nearest.search import Running, rank
from tests.support.data.nearest_lists import NAMES, brute_force, election, same


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


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**32),
    size=st.integers(1, 120),
    cuts=st.lists(st.floats(0, 1), max_size=4),
    blocks=st.tuples(st.integers(1, 150), st.integers(1, 150)),
)
def test_merging_new_candidates_equals_starting_over_for_any_blocks(seed: int, size: int, cuts: Any, blocks: Any):
    ballot, standing = election(seed, 5, size)
    order = np.random.default_rng(seed + 1).permutation(size)
    running = None
    for cut in [*sorted(cuts), 1.0]:
        running = rank(ballot, standing.take(order[: int(cut * size)]), running, block=blocks[0])
    assert running is not None
    assert same(running, rank(ballot, standing, block=blocks[1]))


def test_many_dimensions_and_many_copies_give_one_answer_for_every_block_size():
    ballot, standing = election(11, 600, 1500, dimension=96)
    whole = rank(ballot, standing)
    for block in (64, 997):
        assert same(whole, rank(ballot, standing, block=block))
    half = rank(ballot, standing.take(np.arange(700)), block=333)
    assert same(whole, rank(ballot, standing, half))


def test_a_row_has_the_same_list_bit_for_bit_whoever_else_votes():
    ballot, standing = election(12, 40, 400, dimension=64)
    everybody = rank(ballot, standing)
    for row in (0, 17, 39):
        alone = rank(replace(ballot, vectors=ballot.vectors[[row]], labels=[ballot.labels[row]]), standing)
        left = [place for place in range(40) if place != row]
        others = replace(ballot, vectors=ballot.vectors[left], labels=[ballot.labels[place] for place in left])
        rest = rank(others, standing)
        for name in NAMES:
            assert getattr(alone, name).tobytes() == getattr(everybody, name)[row].tobytes()
            assert getattr(rest, name).tobytes() == getattr(everybody, name)[left].tobytes()


def test_lists_hold_no_candidate_twice_and_pad_only_behind():
    ballot, standing = election(13, 20, 9, votes=8)
    for ids in (rank(ballot, standing).near_ids, rank(ballot, standing).far_ids):
        for one in ids.tolist():
            real = [identity for identity in one if identity >= 0]
            assert len(set(real)) == len(real)
            assert one == real + [-1] * (8 - len(real))


def test_the_state_survives_a_file_and_goes_on():
    ballot, standing = election(14, 6, 50)
    file = io.BytesIO()
    np.savez(file, **rank(ballot, standing.take(np.arange(20))).to_arrays())
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        running = Running.from_arrays(dict(arrays))
    assert same(rank(ballot, standing, running), rank(ballot, standing))


def test_only_new_candidates_are_compared():
    ballot, standing = election(15, 6, 50)
    running = rank(ballot, standing.take(np.arange(49)))
    marked = replace(running, near_keys=np.full_like(running.near_keys, -1.0))
    assert (rank(ballot, standing, marked).near_keys == -1).all()


def test_a_state_of_something_else_is_ignored():
    ballot, standing = election(16, 6, 50)
    expected = rank(ballot, standing)
    moved = replace(ballot, vectors=ballot.vectors + np.float32(0.5))
    other_vectors = replace(standing, vectors=-standing.vectors)
    for state in (
        rank(moved, standing.take(np.arange(20))),
        rank(replace(ballot, votes=4), standing.take(np.arange(20))),
        rank(ballot, other_vectors.take(np.arange(20))),
        rank(replace(ballot, labels=["a"] * 6), standing.take(np.arange(20))),
    ):
        assert same(rank(ballot, standing, state), expected)
    assert same(rank(ballot, standing.take(np.arange(20)), expected), rank(ballot, standing.take(np.arange(20))))


def test_a_damaged_state_is_refused_without_a_word_about_rows():
    ballot, standing = election(17, 6, 50)
    arrays = rank(ballot, standing).to_arrays()
    twice = arrays["near_ids"].copy()
    twice[0, 1] = twice[0, 0]
    unseen = arrays["far_ids"].copy()
    unseen[0, 0] = 12345
    for damage in ({"near_ids": twice}, {"far_ids": unseen}, {"near_keys": arrays["near_keys"][1:]}):
        with pytest.raises(ArtifactError, match="damaged; delete"):
            Running.from_arrays({**arrays, **damage})
    arrays.pop("seen_ids")
    with pytest.raises(ArtifactError):
        Running.from_arrays(arrays)


def test_rows_and_candidates_of_different_embedders_are_refused():
    ballot, standing = election(18, 2, 5)
    with pytest.raises(ConfigError, match="dimension"):
        rank(replace(ballot, vectors=ballot.vectors[:, :3]), standing)
