"""The density of private rows: no row and no person adds more than the proof says, and every number has noise."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.interfaces.errors import ConfigError
from tasks.accounting.density import GuidanceNoise, calibrate_density
from tasks.accounting.sensitivity import VotePrivacy
from tasks.density.kernels import body, counted
from tasks.private.releases.density import clean_sums, noisy_density
from tasks.private.releases.keyphrase_release import NoisySums
from tasks.private.voting.ballot import Ballot
from tests.support.data.elections import without

LABELS = ("a", "b", "c")
ODD = [0.0, 1.0, -3.5, 1e-30, 1e30, float("inf"), float("nan")]


def noise_of(**privacy: Any) -> GuidanceNoise:
    given = {"aggregation": "mean"} | privacy
    return calibrate_density(VotePrivacy(4.0, 1e-5, 1, votes=1, sides=1, **given))


@st.composite
def ballots(draw: st.DrawFn, persons: bool = False) -> Ballot:
    number = draw(st.integers(1, 7))
    values = st.one_of(st.sampled_from(ODD), st.floats(-2, 2, width=32))
    vectors = np.array([[draw(values) for _ in range(4)] for _ in range(number)], dtype=np.float32)
    labels = [draw(st.sampled_from([*LABELS, "unknown"])) for _ in range(number)]
    names = [draw(st.sampled_from("pqr")) for _ in range(number)] if persons else None
    return Ballot(vectors, labels, 1, names, b"key", 1)


def length(moved: np.ndarray, noise: GuidanceNoise) -> float:
    """Length in features, from exact integers."""
    return float(sum(int(value) ** 2 for value in moved.ravel())) ** 0.5 / noise.scale


@settings(deadline=None, max_examples=60)
@given(rows=ballots())
def test_taking_a_row_away_moves_the_density_by_no_more_than_1_and_its_class_alone(rows: Ballot) -> None:
    noise = noise_of()
    whole = clean_sums(rows, LABELS, noise).sums
    for row, label in enumerate(rows.labels):
        moved = whole - clean_sums(without(rows, row), LABELS, noise).sums
        assert length(moved, noise) <= noise.sensitivity == 1.0
        touched = [LABELS[place] for place, part in enumerate(moved) if part.any()]
        assert touched in ([], [label])


@settings(deadline=None, max_examples=60)
@given(rows=ballots(), other=ballots())
def test_replacing_a_row_moves_the_density_by_no_more_than_its_sensitivity(rows: Ballot, other: Ballot) -> None:
    noise = noise_of(adjacency="replace_one")
    vectors, labels = rows.vectors.copy(), [other.labels[0], *rows.labels[1:]]
    vectors[0] = other.vectors[0]
    exchanged = replace(rows, vectors=vectors, labels=labels)
    moved = clean_sums(rows, LABELS, noise).sums - clean_sums(exchanged, LABELS, noise).sums
    assert length(moved, noise) <= noise.sensitivity < 1.898


def test_opposite_rows_of_a_class_move_the_density_by_its_sensitivity() -> None:
    noise = noise_of(adjacency="replace_one")
    directions = np.random.default_rng(5).standard_normal((60, 4)).astype(np.float32)
    rows = np.concatenate([np.eye(4, dtype=np.float32), directions])
    features = [clean_sums(Ballot(row[None], ["a"], 1, sides=1), LABELS, noise).sums for row in (*rows, *-rows)]
    other = [np.roll(sums, 1, axis=0) for sums in features]
    moves = [length(first - second, noise) for first in features for second in (*features, *other)]
    assert noise.sensitivity * (1 - 1e-4) < max(moves) <= noise.sensitivity


@settings(deadline=None, max_examples=60)
@given(rows=ballots(persons=True), most=st.integers(1, 3))
def test_taking_a_person_away_moves_the_density_by_no_more_than_1(rows: Ballot, most: int) -> None:
    noise = noise_of(protects="person", rows_per_person=most)
    whole = clean_sums(rows, LABELS, noise).sums
    assert rows.persons is not None
    for person in set(rows.persons):
        left = [place for place, name in enumerate(rows.persons) if name != person]
        labels, names = [rows.labels[place] for place in left], [rows.persons[place] for place in left]
        others = replace(rows, vectors=rows.vectors[left], labels=labels, persons=names)
        moved = whole - clean_sums(others, LABELS, noise).sums
        assert length(moved, noise) <= noise.sensitivity == 1.0


def test_what_a_row_adds_is_the_same_bit_for_bit_whoever_is_beside_it() -> None:
    noise, vectors = noise_of(), np.random.default_rng(0).standard_normal((40, 384)).astype(np.float32)
    rows = Ballot(vectors, ["a"] * 40, 1, sides=1)
    alone = sum(clean_sums(Ballot(vectors[row : row + 1], ["a"], 1, sides=1), LABELS, noise).sums for row in range(40))
    backwards = replace(rows, vectors=vectors[::-1])
    assert np.array_equal(clean_sums(rows, LABELS, noise).sums, alone)
    assert np.array_equal(clean_sums(backwards, LABELS, noise).sums, alone)


def test_sums_tell_how_many_rows_there_are_and_their_mean_vector() -> None:
    noise, vectors = noise_of(), np.random.default_rng(1).standard_normal((30, 16)).astype(np.float32)
    sums = clean_sums(Ballot(vectors, ["b"] * 30, 1, sides=1), LABELS, noise).sums / noise.scale
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert counted(sums) == pytest.approx([0, 30, 0], abs=0.02)
    assert body(sums)[1] == pytest.approx(units.sum(axis=0), abs=0.01)


def test_every_number_has_fresh_noise_of_the_calibrated_width_whatever_is_seeded() -> None:
    noise, rows = noise_of(), Ballot(np.ones((5, 900), dtype=np.float32), ["a"] * 5, 1, sides=1)
    clean = clean_sums(rows, LABELS, noise).sums
    drawn = []
    for _ in range(2):
        np.random.seed(0)
        drawn.append(noisy_density(rows, LABELS, noise).sums - clean)
    assert not np.array_equal(*drawn)
    both = np.stack(drawn) / noise.sigma_int
    assert both.std() == pytest.approx(1, abs=0.06)  # 5406 numbers: six standard errors
    assert abs(np.corrcoef(both[0].ravel(), both[1].ravel())[0, 1]) < 0.12


def test_a_release_reads_back_as_it_was_and_clean_sums_cannot_be_stored() -> None:
    noise, rows = noise_of(), Ballot(np.eye(3, dtype=np.float32), LABELS, 1, sides=1)
    found = noisy_density(rows, LABELS, noise)
    again = NoisySums.from_bytes(found.to_bytes())
    assert np.array_equal(again.sums, found.sums)
    assert (again.steps, again.scale_int) == (noise.scale, noise.sigma_int)
    clean = clean_sums(rows, LABELS, noise)
    assert repr(clean) == "CleanSums(hidden)"
    with pytest.raises(TypeError, match="never serialised"):
        pickle.dumps(clean)


def test_persons_and_their_noise_go_together() -> None:
    rows = Ballot(np.eye(3, dtype=np.float32), LABELS, 1, sides=1)
    with pytest.raises(ConfigError, match="if, and only if"):
        noisy_density(rows, LABELS, noise_of(protects="person", rows_per_person=2))


@pytest.mark.parametrize(
    ("wrong", "what"),
    [({"calibration": "paper"}, "calibration"), ({"protects": "person", "aggregation": "max"}, "joined_by")],
    ids=["paper", "max"],
)
def test_noise_that_no_proof_covers_is_refused(wrong: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        noise_of(**wrong)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0, 8.0])
def test_the_density_costs_what_was_asked_for_in_one_release(epsilon: float) -> None:
    noise = calibrate_density(VotePrivacy(epsilon, 1e-5, 1))
    assert epsilon * (1 - 1e-4) < noise.epsilon_exact <= epsilon
    assert len(noise.charges) == 1
    assert noise.charge.noise_scale == noise.sigma
    twice = calibrate_density(VotePrivacy(epsilon, 1e-5, 1, adjacency="replace_one"))
    assert twice.sigma == pytest.approx(2 * 0.9**0.5 * noise.sigma)
    person = {"protects": "person", "aggregation": "mean", "adjacency": "replace_one"}
    assert calibrate_density(VotePrivacy(epsilon, 1e-5, 1, **person)).sigma == pytest.approx(2 * noise.sigma)
