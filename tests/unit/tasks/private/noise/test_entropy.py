"""Noise and sampling of a training: their laws, and that no seed reaches them."""

import math
import random

import numpy as np
import pytest
from scipy.stats import kstest, norm

from tasks.private.noise import entropy

ALARM = 1e-6


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


def test_no_seed_of_the_process_repeats_a_draw():
    torch = pytest.importorskip("torch")
    found = []
    for _ in range(2):
        random.seed(1), np.random.seed(1), torch.manual_seed(1)
        found.append((entropy.gaussian(50, 1.0).tolist(), entropy.uniform(50).tolist()))
    assert found[0][0] != found[1][0]
    assert found[0][1] != found[1][1]


def test_more_numbers_than_fit_at_once_are_all_drawn(monkeypatch):
    monkeypatch.setattr(entropy, "CHUNK", 7)
    drawn = entropy.gaussian(20, 1.0)
    assert len(set(drawn.tolist())) == 20
