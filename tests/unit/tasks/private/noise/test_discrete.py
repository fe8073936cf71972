"""Noise of sums and of gradients: its exact laws, fresh for every draw, with any seeds of a process."""

import math
import random
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2, kstest, norm

from connectors.interfaces.errors import ConfigError
from tasks.private.noise import entropy
from tasks.private.noise.discrete import add_discrete_gaussian, add_discrete_laplace
from tasks.private.parties.masked_vote import add_noise_share
from tasks.private.parties.promise import Parties, SharedNoise
from tasks.private.votes.ballot import Ballot, Candidates
from tasks.private.votes.count import noisy_votes
from tasks.private.votes.promise import VotePrivacy, calibrate

ALARM = 1e-6


LAWS = {
    "gaussian": (
        add_discrete_gaussian,
        12,
        lambda support, scale: np.exp(-(support**2) / (2 * scale**2)),
    ),
    "laplace": (add_discrete_laplace, 40, lambda support, scale: np.exp(-np.abs(support) / scale)),
}


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("kind", "scale"),
    [
        ("gaussian", 2.5),
        ("gaussian", 452.0),
        ("laplace", 0.4),
        ("laplace", 2.5),
        ("laplace", 300.0),
    ],
)
def test_the_noise_follows_its_exact_discrete_law(kind: str, scale: float):
    (add, width, density), number = LAWS[kind], 50_000
    drawn = add(np.zeros(number, dtype=np.int64), scale)
    reach = math.ceil(width * scale)
    support = np.arange(-reach, reach + 1)
    mass = density(support, scale)
    mass /= mass.sum()
    edges = np.unique(np.searchsorted(np.cumsum(mass), np.linspace(0, 1, 60)[1:-1]))
    observed = np.bincount(np.searchsorted(edges, drawn + reach), minlength=len(edges) + 1)
    expected = number * np.add.reduceat(mass, np.concatenate([[0], edges + 1]))
    statistic = float(((observed - expected) ** 2 / expected).sum())
    assert expected.min() > 20
    assert chi2.sf(statistic, len(edges)) > ALARM
    variance, fourth = (float((mass * support**power).sum()) for power in (2, 4))
    limit = norm.isf(ALARM / 2)
    assert abs(drawn.mean()) < limit * math.sqrt(variance / number)
    assert abs((drawn.astype(float) ** 2).mean() - variance) < limit * math.sqrt(
        (fourth - variance**2) / number
    )


@pytest.mark.statistical
def test_every_bin_of_both_sides_and_of_every_release_gets_its_own_noise():
    ballot = Ballot(np.zeros((0, 2), dtype=np.float32), (), 2)
    standing = Candidates(
        np.arange(3000), np.array(["a"] * 3000), np.zeros((3000, 2), dtype=np.float32)
    )
    noise = calibrate(VotePrivacy(4, 1e-5, 4, votes=2))
    parts = []
    for _ in range(2):
        noisy = noisy_votes(ballot, standing, noise)
        parts += [noisy.near, noisy.far]
    limit = norm.isf(ALARM / 20)
    for position, part in enumerate(parts):
        assert abs((part.astype(float) ** 2).mean() / noise.sigma_int**2 - 1) < limit * math.sqrt(
            2 / 3000
        )
        for other in parts[:position]:
            assert abs(np.corrcoef(part, other)[0, 1]) < limit / math.sqrt(3000)
        assert abs(np.corrcoef(part[1:], part[:-1])[0, 1]) < limit / math.sqrt(2999)


def test_shape_type_and_input_are_kept():
    values = np.arange(12, dtype=np.int64).reshape(4, 3)
    noisy = add_discrete_gaussian(values, 50.0)
    assert noisy.shape == (4, 3)
    assert noisy.dtype == np.int64
    assert values.tolist() == np.arange(12).reshape(4, 3).tolist()


def test_huge_values_saturate_and_do_not_wrap():
    top = np.full(64, np.iinfo(np.int64).max, dtype=np.int64)
    assert (add_discrete_gaussian(top, 1000.0) > 0).all()


def test_zero_noise_needs_the_explicit_mark_and_the_mark_needs_zero_noise():
    values = np.arange(3, dtype=np.int64)
    assert add_discrete_gaussian(values, 0.0, non_private=True).tolist() == [0, 1, 2]
    with pytest.raises(ConfigError, match="non_private"):
        add_discrete_gaussian(values, 0.0)
    with pytest.raises(ConfigError, match="non_private"):
        add_discrete_gaussian(values, 5.0, non_private=True)


@pytest.mark.parametrize("add", [add_discrete_gaussian, add_discrete_laplace])
@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan])
def test_noise_without_a_scale_and_numbers_that_are_no_integers_are_refused(add: Any, scale: float):
    with pytest.raises(ConfigError, match="scale above 0|sigma of at least 0|non_private"):
        add(np.zeros(3, dtype=np.int64), scale)
    with pytest.raises(ConfigError, match="64-bit integers"):
        add(np.zeros(3), 5.0)
    assert add(np.zeros((0, 2), dtype=np.int64), 50.0).shape == (0, 2)


def test_the_noise_of_a_large_release_has_the_same_size_and_is_drawn_again_for_every_count():
    """From `MANY` counts on several threads draw: the noise must be as large, and nowhere repeated."""
    sigma = 9000.0
    drawn = add_discrete_gaussian(np.zeros((20_000, 2), dtype=np.int64), sigma)
    small = add_discrete_gaussian(np.zeros(1_000, dtype=np.int64), sigma)
    for noise in (drawn, small):
        error = 6 / np.sqrt(2 * noise.size)
        assert noise.std() == pytest.approx(sigma, rel=error)
        assert abs(noise.mean()) < 6 * sigma / np.sqrt(noise.size)
    assert len(np.unique(drawn)) > 15_000, "the same draws again and again"
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 6 / np.sqrt(len(drawn))


# --- noise and sampling of a training: their laws, and that no seed reaches them


@pytest.mark.statistical
def test_gaussian_draws_follow_their_law():
    drawn = entropy.gaussian(200_000, 3.0)
    assert kstest(drawn / 3.0, norm.cdf).pvalue > ALARM
    assert abs(drawn.mean()) < norm.isf(ALARM / 2) * 3 / math.sqrt(len(drawn))
    assert np.isfinite(drawn).all()


@pytest.mark.statistical
def test_each_row_takes_part_by_a_draw_of_its_own():
    rows, rate, steps = 500, 0.1, 400
    taken = np.zeros((steps, rows))
    for step in range(steps):
        taken[step, entropy.poisson_sample(rows, rate)] = 1
    reach = norm.isf(ALARM / rows)
    assert (np.abs(taken.mean(axis=0) - rate) < reach * math.sqrt(rate * (1 - rate) / steps)).all()
    sizes = taken.sum(axis=1)
    assert sizes.std() == pytest.approx(math.sqrt(rows * rate * (1 - rate)), rel=0.3)


def test_a_rate_of_one_takes_every_row_and_a_small_one_often_none():
    assert entropy.poisson_sample(50, 1.0).tolist() == list(range(50))
    assert min(len(entropy.poisson_sample(5, 0.01)) for _ in range(50)) == 0


def test_fixed_seeds_do_not_fix_the_noise():
    torch, zeros = pytest.importorskip("torch"), np.zeros(50, dtype=np.int64)
    result = []
    for _ in range(2):
        random.seed(1), np.random.seed(1), torch.manual_seed(1)
        result.append(
            (entropy.gaussian(50, 1.0), entropy.uniform(50), add_discrete_gaussian(zeros, 100.0))
        )
    assert not any(np.array_equal(first, again) for first, again in zip(*result, strict=True))


def test_more_numbers_than_fit_at_once_are_all_drawn(monkeypatch):
    monkeypatch.setattr(entropy, "CHUNK", 7)
    drawn = entropy.gaussian(20, 1.0)
    assert len(set(drawn.tolist())) == 20


def test_every_number_between_0_and_1_has_52_random_bits() -> None:
    low = (entropy.uniform(10_000) * 2**52).astype(np.uint64) & np.uint64(2**21 - 1)
    assert len(np.unique(low)) > 9_900, "the low bits of 10,000 numbers nearly all differ"


@pytest.mark.parametrize(
    ("drawn", "number"), [(b"\x00" * 8, 2.0**-53), (b"\xff" * 8, 1 - 2.0**-53)]
)
def test_the_outermost_draws_give_finite_noise(
    monkeypatch: pytest.MonkeyPatch, drawn: bytes, number: float
) -> None:
    monkeypatch.setattr(entropy.os, "urandom", lambda count: drawn * (count // 8))
    assert entropy.uniform(3).tolist() == [number] * 3
    assert abs(entropy.gaussian(1, 1.0)[0]) == pytest.approx(8.21, abs=0.01)


def test_neighbouring_draws_differ_up_to_1(monkeypatch: pytest.MonkeyPatch) -> None:
    bits = np.arange(2**52 - 9, 2**52, dtype=np.uint64) << np.uint64(12)
    monkeypatch.setattr(entropy.os, "urandom", lambda _: bits.tobytes())
    assert len(set(entropy.uniform(len(bits)).tolist())) == len(bits)


def test_a_partys_share_has_the_scale_of_the_plan() -> None:
    noise = SharedNoise(calibrate(VotePrivacy(4.0, 1e-5, 1)), Parties(4, 3, 1))
    drawn = add_noise_share(np.zeros(20_000, dtype=np.int64), noise)
    assert drawn.std() == pytest.approx(
        noise.total.sigma_int / math.sqrt(2), rel=6 / math.sqrt(2 * drawn.size)
    )
