"""The sampler against its exact law."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2, norm

from connectors.interfaces.errors import ConfigError
from tasks.accounting.sensitivity import VotePrivacy
from tasks.accounting.votes import calibrate
from tasks.private.noise.discrete import add_discrete_gaussian, add_discrete_laplace
from tasks.private.voting.ballot import Ballot, Candidates
from tasks.private.voting.votes import noisy_votes

ALARM = 1e-6


def draws(sigma: float, number: int) -> Any:
    return add_discrete_gaussian(np.zeros(number, dtype=np.int64), sigma)


@pytest.mark.statistical
@pytest.mark.parametrize(("sigma", "number"), [(2.5, 50_000), (452.0, 50_000)])
def test_the_noise_follows_the_exact_discrete_gaussian(sigma: float, number: int):
    drawn = draws(sigma, number)
    reach = math.ceil(12 * sigma)
    support = np.arange(-reach, reach + 1)
    mass = np.exp(-(support**2) / (2 * sigma**2))
    mass /= mass.sum()
    edges = np.unique(np.searchsorted(np.cumsum(mass), np.linspace(0, 1, 60)[1:-1]))
    observed = np.bincount(np.searchsorted(edges, drawn + reach), minlength=len(edges) + 1)
    expected = number * np.add.reduceat(mass, np.concatenate([[0], edges + 1]))
    statistic = float(((observed - expected) ** 2 / expected).sum())
    assert expected.min() > 20
    assert chi2.sf(statistic, len(edges)) > ALARM
    variance = float((mass * support**2).sum())
    limit = norm.isf(ALARM / 2)
    assert abs(drawn.mean()) < limit * math.sqrt(variance / number)
    assert abs((drawn.astype(float) ** 2).mean() / variance - 1) < limit * math.sqrt(2 / number)


@pytest.mark.statistical
def test_every_bin_of_both_sides_and_of_every_release_gets_its_own_noise():
    ballot = Ballot(np.zeros((0, 2), dtype=np.float32), (), 2)
    standing = Candidates(np.arange(3000), np.array(["a"] * 3000), np.zeros((3000, 2), dtype=np.float32))
    noise = calibrate(VotePrivacy(4, 1e-5, 4, votes=2))
    parts = []
    for _ in range(2):
        noisy = noisy_votes(ballot, standing, noise)
        parts += [noisy.near, noisy.far]
    limit = norm.isf(ALARM / 20)
    for place, part in enumerate(parts):
        assert abs((part.astype(float) ** 2).mean() / noise.sigma_int**2 - 1) < limit * math.sqrt(2 / 3000)
        for other in parts[:place]:
            assert abs(np.corrcoef(part, other)[0, 1]) < limit / math.sqrt(3000)
        assert abs(np.corrcoef(part[1:], part[:-1])[0, 1]) < limit / math.sqrt(2999)


def test_fixed_seeds_do_not_fix_the_noise():
    first, second = [], []
    for found in (first, second):
        random.seed(7)
        np.random.seed(7)
        found += draws(100.0, 50).tolist()
    assert first != second


def test_the_function_takes_no_seed():
    with pytest.raises(TypeError):
        add_discrete_gaussian(np.zeros(3, dtype=np.int64), 1.0, seed=1)  # type: ignore[call-arg]


def test_shape_type_and_input_are_kept():
    values = np.arange(12, dtype=np.int64).reshape(4, 3)
    noisy = add_discrete_gaussian(values, 50.0)
    assert noisy.shape == (4, 3)
    assert noisy.dtype == np.int64
    assert values.tolist() == np.arange(12).reshape(4, 3).tolist()
    assert add_discrete_gaussian(np.zeros((0, 2), dtype=np.int64), 50.0).shape == (0, 2)


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


@pytest.mark.parametrize("sigma", [-1.0, math.inf, math.nan])
def test_a_sigma_that_is_no_noise_is_refused(sigma: float):
    with pytest.raises(ConfigError):
        add_discrete_gaussian(np.zeros(3, dtype=np.int64), sigma)


def test_unscaled_votes_are_refused():
    with pytest.raises(ConfigError, match="integers"):
        add_discrete_gaussian(np.zeros(3), 5.0)  # type: ignore[arg-type]


@pytest.mark.statistical
@pytest.mark.parametrize(("scale", "number"), [(0.4, 50_000), (2.5, 50_000), (300.0, 50_000)])
def test_laplace_noise_follows_the_exact_discrete_law(scale: float, number: int):
    drawn = add_discrete_laplace(np.zeros(number, dtype=np.int64), scale)
    reach = math.ceil(40 * scale)
    support = np.arange(-reach, reach + 1)
    mass = np.exp(-np.abs(support) / scale)
    mass /= mass.sum()
    edges = np.unique(np.searchsorted(np.cumsum(mass), np.linspace(0, 1, 60)[1:-1]))
    observed = np.bincount(np.searchsorted(edges, drawn + reach), minlength=len(edges) + 1)
    expected = number * np.add.reduceat(mass, np.concatenate([[0], edges + 1]))
    statistic = float(((observed - expected) ** 2 / expected).sum())
    assert expected.min() > 20
    assert chi2.sf(statistic, len(edges)) > ALARM


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan])
def test_laplace_noise_without_a_scale_is_refused(scale: float):
    with pytest.raises(ConfigError, match="scale above 0"):
        add_discrete_laplace(np.zeros(2, dtype=np.int64), scale)
    with pytest.raises(ConfigError, match="64-bit"):
        add_discrete_laplace(np.zeros(2), 1.0)  # type: ignore[arg-type]
    assert add_discrete_laplace(np.zeros(0, dtype=np.int64), 1.0).size == 0


def test_the_noise_of_a_large_release_has_the_same_size_and_is_drawn_anew_for_every_count():
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
