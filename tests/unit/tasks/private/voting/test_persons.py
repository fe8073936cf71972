"""Persons: however many rows they have, their joined votes stay within the stated bound."""

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.private.voting.persons import join
from tests.support.data.elections import ballot, candidates, counts, elections, noise_for, squared_bound, without

FEW = settings(deadline=None, max_examples=60)


@FEW
@given(elections(persons=True), st.sampled_from(["max", "sum", "mean"]), st.integers(1, 4), st.sampled_from([1, 2]))
def test_removing_a_person_moves_the_votes_by_at_most_the_person_sensitivity(
    election: Any, how: str, most: int, sides: int
):
    voters, standing = replace(election[0], sides=sides), election[1]
    privacy = {"protects": "person", "rows_per_person": most, "aggregation": how, "sides": sides}
    others = without(voters, *(row for row, person in enumerate(voters.persons) if person == "p"))
    moved = counts(voters, standing, **privacy) - counts(others, standing, **privacy)
    factor = {"max": most, "sum": most**2, "mean": 1}[how]
    finer = noise_for(voters.votes, **privacy).scale // noise_for(voters.votes).scale
    assert 2 * int((moved**2).sum()) <= sides * factor * finer**2 * squared_bound(voters.votes)


def test_the_person_bounds_are_reached():
    line = candidates(np.concatenate([np.arange(40), 1000 + np.arange(40)])[:, None], ["a"] * 40 + ["b"] * 40)
    same = ballot([[0.0]] * 2, 8, persons=["p", "p"])
    apart = ballot([[0.0], [1000.0]], 8, ["a", "b"], persons=["p", "p"])
    privacy = {"protects": "person", "rows_per_person": 2}
    assert int((counts(same, line, aggregation="sum", **privacy) ** 2).sum()) == 4 * squared_bound(8)
    assert int((counts(apart, line, aggregation="max", **privacy) ** 2).sum()) == 2 * squared_bound(8)


def test_equal_rows_of_a_person_count_once_by_maximum_and_each_by_sum():
    line = candidates(np.arange(40)[:, None])
    once = counts(ballot([[0.2]], 8), line)
    voters = ballot([[0.2]] * 3, 8, persons=["p", "p", "p"])
    privacy = {"protects": "person", "rows_per_person": 3}
    assert (counts(voters, line, aggregation="max", **privacy) == once).all()
    assert (counts(voters, line, aggregation="sum", **privacy) == 3 * once).all()


def test_a_person_with_too_many_rows_keeps_the_same_ones_whoever_else_is_there():
    rng = np.random.default_rng(3)
    standing = candidates(rng.normal(size=(30, 4)))
    vectors = rng.normal(size=(8, 4))
    privacy = {"protects": "person", "rows_per_person": 2, "aggregation": "sum"}
    mine = counts(ballot(vectors[:6], 8, persons=["p"] * 6, key=b"k"), standing, **privacy)
    other = counts(ballot(vectors[6:], 8, persons=["q"] * 2, key=b"k"), standing, **privacy)
    both = counts(ballot(vectors[::-1], 8, persons=["q"] * 2 + ["p"] * 6, key=b"k"), standing, **privacy)
    assert (both == mine + other).all()
    assert mine.sum() == 2 * 2 * sum(128 >> place for place in range(8))
    keyed = [ballot(vectors[:6], 8, persons=["p"] * 6, key=bytes([key])) for key in range(20)]
    assert len({counts(each, standing, **privacy).tobytes() for each in keyed}) > 1


def test_an_average_gives_each_person_the_weight_of_one_row_however_many_vote():
    line = candidates(np.concatenate([np.arange(40), 1000 + np.arange(40)])[:, None], ["a"] * 40 + ["b"] * 40)
    privacy = {"protects": "person", "rows_per_person": 4, "aggregation": "mean"}
    finer = 4  # steps of an average over four rows are a quarter as wide
    once = counts(ballot([[0.2]], 8), line) * finer
    assert (counts(ballot([[0.2]] * 4, 8, persons=["p"] * 4), line, **privacy) == once).all()
    apart = counts(ballot([[0.0], [1000.0]], 8, ["a", "b"], persons=["p", "p"]), line, **privacy)
    alone = counts(ballot([[0.0], [1000.0]], 8, ["a", "b"]), line) * finer
    assert (apart == alone // 2).all()
    both = counts(ballot([[0.2]] * 3, 8, persons=["p", "p", "q"]), line, **privacy)
    assert (both == 2 * once).all()


def test_a_person_gives_a_text_the_largest_vote_of_their_rows_and_not_the_sum() -> None:
    rows, bins, weights = np.array([0, 1, 2, 3]), np.array([5, 5, 5, 6]), np.array([8, 4, 8, 2])
    joined = join(["a", "a", "b", "a"], rows, bins, weights)
    assert sorted(zip(*(part.tolist() for part in joined), strict=True)) == [(5, 8), (5, 8), (6, 2)]
