"""The density of private rows: its own facts; tests/unit/tasks/private/releases/test_sums.py has the contract."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from connectors.interfaces.errors import ConfigError
from tasks.accounting.density import DensityPrivacy, calibrate_density
from tasks.accounting.sensitivity import VotePrivacy
from tasks.accounting.sums import SumNoise, calibrate_sums
from tasks.density.kernels import body, counted
from tasks.private.releases.density import clean_sums
from tasks.private.voting.ballot import Ballot

LABELS = ("a", "b", "c")


def noise_of(**privacy: Any) -> SumNoise[DensityPrivacy]:
    return calibrate_sums(DensityPrivacy(4.0, 1e-5, **privacy))


def test_opposite_rows_of_a_class_move_the_density_by_its_sensitivity() -> None:
    noise = noise_of(adjacency="replace_one")
    directions = np.random.default_rng(5).standard_normal((60, 4)).astype(np.float32)
    rows = np.concatenate([np.eye(4, dtype=np.float32), directions])
    features = [clean_sums(Ballot(row[None], ["a"], 1, sides=1), LABELS, noise).sums for row in (*rows, *-rows)]
    other = [np.roll(sums, 1, axis=0) for sums in features]
    moves = [np.linalg.norm(one - two) / noise.steps for one in features for two in (*features, *other)]
    assert noise.sensitivity * (1 - 1e-4) < max(moves) <= noise.sensitivity


def test_what_a_row_adds_is_the_same_bit_for_bit_whoever_is_beside_it() -> None:
    noise, vectors = noise_of(), np.random.default_rng(0).standard_normal((40, 384)).astype(np.float32)
    rows = Ballot(vectors, ["a"] * 40, 1, sides=1)
    alone = sum(clean_sums(Ballot(vectors[row : row + 1], ["a"], 1, sides=1), LABELS, noise).sums for row in range(40))
    backwards = replace(rows, vectors=vectors[::-1])
    assert np.array_equal(clean_sums(rows, LABELS, noise).sums, alone)
    assert np.array_equal(clean_sums(backwards, LABELS, noise).sums, alone)


def test_sums_tell_how_many_rows_there_are_and_their_mean_vector() -> None:
    noise, vectors = noise_of(), np.random.default_rng(1).standard_normal((30, 16)).astype(np.float32)
    sums = clean_sums(Ballot(vectors, ["b"] * 30, 1, sides=1), LABELS, noise).sums / noise.steps
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert counted(sums) == pytest.approx([0, 30, 0], abs=0.02)
    assert body(sums)[1] == pytest.approx(units.sum(axis=0), abs=0.01)


def test_persons_and_their_noise_go_together() -> None:
    rows = Ballot(np.eye(3, dtype=np.float32), LABELS, 1, sides=1)
    with pytest.raises(ConfigError, match="if, and only if"):
        clean_sums(rows, LABELS, noise_of(protects="person", rows_per_person=2))


@pytest.mark.parametrize(
    ("wrong", "what"),
    [({"calibration": "paper"}, "calibration"), ({"protects": "person", "aggregation": "max"}, "joined_by")],
    ids=["paper", "max"],
)
def test_noise_that_no_proof_covers_is_refused(wrong: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        calibrate_density(VotePrivacy(4.0, 1e-5, 1, **wrong))
