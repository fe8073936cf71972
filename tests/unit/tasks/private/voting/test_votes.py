"""The vote: its sensitivity in exact integers, its independence of everything but the row, and what leaves it."""

import copy
import json
import math
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.interfaces.errors import ArtifactError, ConfigError, InputError
from tasks.accounting.sensitivity import VotePrivacy
from tasks.accounting.votes import calibrate
from tasks.private.nearest.search import rank
from tasks.private.voting.ballot import Ballot, Candidates
from tasks.private.voting.votes import NoisyVotes, RawVotes, noisy_votes
from tests.support.data.elections import ballot, candidates, counts, elections, noise_for, squared_bound, without
from tests.support.data.nearest_lists import brute_force

FEW = settings(deadline=None, max_examples=60)


# --- sensitivity
@FEW
@given(elections(), st.sampled_from([1, 2]))
def test_removing_a_row_moves_the_votes_by_at_most_the_sensitivity(election: tuple[Ballot, Candidates], sides: int):
    voters, standing = replace(election[0], sides=sides), election[1]
    before = counts(voters, standing, sides=sides)
    assert before.shape == (len(standing.ids), sides)
    for row in range(len(voters.labels)):
        moved = before - counts(without(voters, row), standing, sides=sides)
        assert (moved >= 0).all()
        assert 2 * int((moved**2).sum()) <= sides * squared_bound(voters.votes)


@pytest.mark.parametrize("votes", [1, 2, 8, 11])
def test_the_sensitivity_is_reached_and_is_what_the_noise_was_made_for(votes: int):
    standing = candidates(np.random.default_rng(1).normal(size=(40, 5)))
    moved = counts(ballot(np.zeros((1, 5)), votes), standing)
    noise = noise_for(votes)
    assert int((moved**2).sum()) == squared_bound(votes)
    assert math.sqrt((moved**2).sum()) / noise.scale == pytest.approx(noise.sensitivity, rel=1e-12)


@FEW
@given(elections(), elections())
def test_replacing_a_row_moves_the_votes_by_at_most_sqrt_two_of_that(first: Any, second: Any):
    voters, standing = first
    other = second[0]
    vectors, labels = voters.vectors.copy(), list(voters.labels)
    vectors[0], labels[0] = other.vectors[0], other.labels[0]
    moved = counts(voters, standing) - counts(replace(voters, vectors=vectors, labels=labels), standing)
    assert int((moved**2).sum()) <= 2 * squared_bound(voters.votes)


def test_replacing_a_row_by_its_opposite_reaches_that_bound():
    line = np.arange(32, dtype=np.float32)[:, None]
    moved = counts(ballot([[0.0]], 8), candidates(line)) - counts(ballot([[31.0]], 8), candidates(line))
    assert int((moved**2).sum()) == 2 * squared_bound(8)


# --- a row's votes depend on the row and the candidates alone
def by_hand(voters: Ballot, standing: Candidates) -> Any:
    """Return the votes of each candidate, near and far: every row halves its weight from place to place."""
    given, places = np.zeros((len(standing.ids), voters.sides), dtype=np.int64), standing.ids.tolist()
    for side, lists in enumerate(brute_force(voters, standing)[: voters.sides]):
        for names in lists:
            for place, name in enumerate(names):
                if name >= 0:
                    given[places.index(name), side] += noise_for(voters.votes, sides=voters.sides).scale >> place
    return given


@FEW
@given(elections(), st.sampled_from([1, 2]), st.randoms())
def test_votes_are_those_of_plain_python_in_whatever_order_rows_and_candidates_come(
    election: tuple[Ballot, Candidates], sides: int, random: Any
):
    voters, standing = replace(election[0], sides=sides), election[1]
    rows, places = list(range(len(voters.labels))), list(range(len(standing.ids)))
    random.shuffle(rows)
    random.shuffle(places)
    expected = by_hand(voters, standing)
    mixed = replace(voters, vectors=voters.vectors[rows], labels=[voters.labels[row] for row in rows])
    shuffled = standing.take(np.array(places, dtype=np.int64))
    assert (counts(voters, standing, sides=sides) == expected).all()
    assert (counts(mixed, shuffled, sides=sides) == expected[places]).all()


@pytest.mark.parametrize("label", ["nobody", "", "\ud800", "a\x00"])
def test_a_row_of_an_unknown_class_votes_for_nobody_without_a_word(label: str, recwarn: Any, capfd: Any):
    standing = candidates(np.random.default_rng(2).normal(size=(9, 2)))
    voters = ballot([[0, 1], [1, 1]], 4, ["a", label], persons=["p", label])
    person = {"protects": "person", "rows_per_person": 2}
    expected = counts(without(voters, 1), standing, **person)
    assert (counts(voters, standing, **person) == expected).all()
    assert not recwarn.list
    assert capfd.readouterr() == ("", "")


# --- what leaves
def test_noisy_votes_survive_storage_and_equal_votes_give_equal_bytes():
    noisy = noisy_votes(ballot(np.ones((3, 2)), 8), candidates(np.ones((5, 2)), ids=[9, 3, 5, 7, 1]), noise_for(8))
    stored = noisy.to_bytes()
    again = NoisyVotes.from_bytes(stored)
    assert again == noisy
    assert again.to_bytes() == stored
    assert again.ids.tolist() == [9, 3, 5, 7, 1]
    wide = replace(noisy, near=noisy.near + 2**40)
    assert NoisyVotes.from_bytes(wide.to_bytes()) == wide != noisy


def test_the_stored_form_is_the_same_on_every_machine():
    ids, near, far = (np.array(part, dtype=np.int64) for part in ([1, 2], [-5, 700], [0, 128]))
    stored = NoisyVotes(ids, near, far, 128, 451.5).to_bytes()
    assert stored[:-32].hex() == (
        "57415350564f54450104"
        "0200000000000000"
        "8000000000000000"
        "0000000000387c40"
        "0100000002000000"
        "fbffffffbc020000"
        "0000000080000000"
    )


@pytest.mark.parametrize(
    "spoil", [lambda b: b[:-1], lambda b: b"", lambda b: b[:40] + b"\x01" + b[41:], lambda b: b * 2]
)
def test_damaged_votes_are_refused(spoil: Any):
    noisy = noisy_votes(ballot(np.ones((1, 2)), 2), candidates(np.zeros((3, 2))), noise_for(2))
    with pytest.raises(ArtifactError):
        NoisyVotes.from_bytes(spoil(noisy.to_bytes()))


def test_clean_votes_and_rows_cannot_be_stored_or_shown():
    voters = ballot(np.full((1, 2), 0.625), 2, ["secret-label"])
    standing = candidates(np.zeros((3, 2)))
    ranking = rank(voters, standing)
    for value in (RawVotes(np.full((2, 2), 640)), voters, ranking):
        for store in (pickle.dumps, copy.copy, copy.deepcopy, json.dumps):
            with pytest.raises(TypeError):
                store(value)
        shown = f"{value!r} {value}"
        assert not any(part in shown for part in ("625", "640", "secret", "["))


def test_votes_without_noise_need_the_explicit_mark():
    voters, standing = ballot(np.ones((2, 2)), 8), candidates(np.zeros((3, 2)))
    with pytest.raises(ConfigError, match="releases"):
        noisy_votes(voters, standing, calibrate(VotePrivacy(4, 1e-5, 0)))
    with pytest.raises(ConfigError, match="non_private"):
        noisy_votes(voters, standing, replace(noise_for(8), sigma_int=0.0))
    open_noise = calibrate(VotePrivacy(math.inf, 1e-5, 4))
    noisy = noisy_votes(voters, standing, open_noise)
    assert np.stack([noisy.near, noisy.far], axis=1).tolist() == counts(voters, standing).tolist()
    assert noisy.sigma_int == 0


@pytest.mark.parametrize(
    ("privacy", "persons"),
    [
        ({"votes": 4}, None),
        ({"votes": 8, "sides": 1}, None),
        ({"votes": 8, "protects": "person", "rows_per_person": 2}, None),
        ({"votes": 8}, ["p", "q"]),
    ],
)
def test_noise_made_for_another_vote_is_refused(privacy: dict[str, Any], persons: Any):
    voters = ballot(np.ones((2, 2)), 8, persons=persons)
    with pytest.raises(ConfigError, match="The noise fits|if, and only if, the ballot names the person"):
        noisy_votes(voters, candidates(np.zeros((3, 2))), noise_for(**privacy))
    with pytest.raises(ConfigError, match="1 side"):
        ballot(np.ones((2, 2)), 8, sides=3)


@pytest.mark.parametrize(
    ("ids", "vectors", "message"),
    [
        ([1, 1], [[0.0], [1.0]], "unique"),
        ([-1, 2], [[0.0], [1.0]], "negative"),
        ([1, 7], [[0.0], [math.nan]], "candidate 7"),
        ([1, 2, 3], [[0.0], [1.0]], "length"),
    ],
)
def test_candidates_that_would_share_or_lose_a_bin_are_refused(ids: list[int], vectors: Any, message: str):
    with pytest.raises(InputError, match=message):
        candidates(vectors, ids=ids)
