"""Private evolution's histogram: one row moves one count by one, and what is released can be read back."""

from __future__ import annotations

import numpy as np
import pytest

from connectors.base import ArtifactError, ConfigError
from tasks.accounting import VotePrivacy, calibrate, vote_charge
from tasks.private.histogram import NoisyHistogram, noisy_histogram
from tasks.private.votes import Ballot, Candidates, noisy_votes

NOISE = calibrate(VotePrivacy(4, 1e-5, 3, votes=1, sides=1))
FREE = calibrate(VotePrivacy(float("inf"), 1e-5, 3, votes=1, sides=1))


def election(rows: int, seed: int = 0) -> tuple[Ballot, Candidates]:
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((20, 5)).astype(np.float32)
    standing = Candidates(np.arange(20), np.array(["a", "b"] * 10), vectors)
    return Ballot(rng.standard_normal((rows, 5)).astype(np.float32), ["a", "b"] * (rows // 2), 1), standing


def test_every_row_gives_one_vote_to_the_nearest_text_of_its_class() -> None:
    ballot, standing = election(40)
    counts = noisy_histogram(ballot, standing, FREE)[0].counts
    expected = np.zeros(20, dtype=np.int64)
    for vector, label in zip(ballot.vectors, ballot.labels, strict=True):
        same = np.flatnonzero(standing.labels == label)
        nearest = same[np.argmin(((standing.vectors[same] - vector) ** 2).sum(axis=1))]
        expected[nearest] += FREE.scale
    assert np.array_equal(counts, expected)


def test_one_row_moves_one_count_by_one_and_that_is_what_is_charged() -> None:
    ballot, standing = election(40)
    fewer = Ballot(ballot.vectors[1:], ballot.labels[1:], 1)
    with_row, without = (noisy_histogram(one, standing, FREE)[0].counts for one in (ballot, fewer))
    assert np.linalg.norm(with_row - without) / FREE.scale == 1.0
    charge = vote_charge(NOISE)
    assert (charge.sensitivity, charge.mechanism) == (1.0, "discrete_gaussian")
    assert charge.noise_scale == NOISE.sigma


def test_votes_of_earlier_rounds_are_not_compared_again() -> None:
    ballot, standing = election(40)
    _, running = noisy_histogram(ballot, standing.take(np.arange(10)), FREE)
    assert np.array_equal(
        noisy_histogram(ballot, standing, FREE, running)[0].counts, noisy_histogram(ballot, standing, FREE)[0].counts
    )


def test_a_release_is_read_back_and_another_kind_refused() -> None:
    ballot, standing = election(4)
    released = noisy_histogram(ballot, standing, NOISE)[0]
    back = NoisyHistogram.from_bytes(released.to_bytes())
    assert np.array_equal(back.counts, released.counts)
    assert np.array_equal(back.ids, released.ids)
    assert (back.scale, back.sigma_int) == (NOISE.scale, NOISE.sigma_int)
    with pytest.raises(ArtifactError, match="damaged"):
        NoisyHistogram.from_bytes(released.to_bytes()[:-1] + b"\x00")
    two = calibrate(VotePrivacy(4, 1e-5, 3, votes=1))
    with pytest.raises(ArtifactError):
        NoisyHistogram.from_bytes(noisy_votes(ballot, standing, two)[0].to_bytes())


def test_noise_for_two_sides_is_refused() -> None:
    ballot, standing = election(4)
    with pytest.raises(ConfigError, match="sides=1"):
        noisy_histogram(ballot, standing, calibrate(VotePrivacy(4, 1e-5, 3, votes=1)))
    with pytest.raises(ConfigError, match="sides=2"):
        noisy_votes(ballot, standing, NOISE)
    with pytest.raises(ConfigError, match="made for 1 votes"):
        noisy_histogram(Ballot(ballot.vectors, ballot.labels, 2), standing, NOISE)
