"""The sampler by table against the exact law, worked out in another way: 80 digits of decimal arithmetic."""

from __future__ import annotations

import math
import os
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from tasks.private.noise import discrete
from tasks.private.noise import table as table_noise
from tasks.private.noise.discrete import add_discrete_gaussian

ALARM = 1e-6
SIGMAS = (0.5, 0.7, 2.5, 8.0, 452.0)


def law(sigma: float) -> list[Decimal]:
    """Return P(|X| = m), far beyond what 64 bits can tell from 0."""
    with localcontext() as context:
        context.prec = 80
        weights = [(-Decimal(k * k) / (2 * Decimal(sigma) ** 2)).exp() for k in range(int(20 * sigma) + 20)]
        whole = weights[0] + 2 * sum(weights[1:])
        return [weights[0] / whole, *(2 * weight / whole for weight in weights[1:])]


@pytest.mark.parametrize("sigma", SIGMAS)
def test_every_entry_of_the_table_is_the_integer_part_of_the_distribution_function(sigma: float):
    masses, table = law(sigma), table_noise.table(sigma)
    with localcontext() as context:
        context.prec = 80
        reached = [int(sum(masses[: m + 1], Decimal(0)) * 2**64) for m in range(min(len(table), 200))]
    assert table[: len(reached)].tolist() == reached
    assert int(table[-1]) == 2**64 - 1
    assert (table[1:] >= table[:-1]).all()


def test_bounds_hold_the_distribution_function_between_them():
    masses = [Fraction(mass) for mass in law(8.0)]
    found = table_noise.law_of(8.0, 256)
    for most in (0, 1, 7, 40, 90):
        true = sum(masses[: most + 1])
        least, largest = found.bounds(most, 150)
        assert least <= true * 2**150 <= largest
        assert largest - least <= 2


def outcomes(sigma: float, bits: int) -> tuple[Counter[int], int]:
    """Return what each of all prefixes of so many bits decides, and how many decide nothing."""
    limits, decided, open_ = table_noise.table(sigma, bits), Counter[int](), 0
    for prefix in range(2**bits):
        found = int(np.searchsorted(limits, prefix))
        if int(limits[found]) == prefix:
            open_ += 1
        else:
            decided[found] += 1
    return decided, open_


@pytest.mark.parametrize("sigma", [0.7, 8.0])
def test_all_prefixes_together_have_the_law_up_to_those_that_decide_nothing(sigma: float):
    masses, (decided, open_) = law(sigma), outcomes(sigma, 12)
    assert sum(decided.values()) + open_ == 2**12
    assert open_ <= len(table_noise.table(sigma, 12))
    for most, mass in enumerate(masses[: max(decided) + 1]):
        # what decides for m is certain: never more than its mass, and short of it by the two ends at most
        assert 0 <= mass * 2**12 - decided[most] <= 2


def test_what_a_prefix_leaves_open_is_decided_by_further_bits_in_the_right_proportion():
    # a prefix of 4 bits with 64 more: of all 2^64 continuations those below F(m) are |X| <= m, to the last one
    sigma, masses = 2.5, [Fraction(mass) for mass in law(2.5)]
    for prefix in {int(limit) for limit in table_noise.table(sigma, 4)}:
        for most in range(4):
            border = sum(masses[: most + 1]) * 2**68 - prefix * 2**64
            if 0 < border < 2**64:
                below, above = int(border) - 1, int(border) + 1
                assert resolved(prefix, 4, sigma, [below]) <= most
                assert resolved(prefix, 4, sigma, [above]) > most


def resolved(prefix: int, bits: int, sigma: float, further: list[int]) -> int:
    words = iter([*further, 12345, 6789])
    return table_noise.resolve(prefix, bits, sigma, 0, lambda: next(words))


def test_a_border_that_64_further_bits_do_not_tell_takes_64_more():
    sigma = 2.5
    border = sum(Fraction(mass) for mass in law(sigma)[:2]) * 2**132
    prefix, rest = divmod(int(border), 2**128)
    first, second = divmod(rest, 2**64)
    assert resolved(prefix, 4, sigma, [first, second - 1]) <= 1
    assert resolved(prefix, 4, sigma, [first, second + 1]) > 1


def test_the_far_tail_is_reached_by_bits_alone():
    every = 2**64 - 1
    found = [table_noise.resolve(every, 64, 0.7, 0, iter([every] * rounds + [0]).__next__) for rounds in range(3)]
    assert found == sorted(set(found))
    assert found[-1] > len(table_noise.table(0.7))


@pytest.mark.statistical
@pytest.mark.parametrize("sigma", SIGMAS)
def test_draws_follow_the_law_on_both_sides(sigma: float):
    number = 300_000
    drawn = table_noise.draw(number, sigma)
    masses = np.array([float(mass) for mass in law(sigma)])
    both = np.concatenate([masses[:0:-1] / 2, masses[:1], masses[1:] / 2])
    edges = np.unique(np.searchsorted(np.cumsum(both), np.linspace(0, 1, 80)[1:-1]))
    observed = np.bincount(np.searchsorted(edges, drawn + len(masses) - 1), minlength=len(edges) + 1)
    expected = number * np.add.reduceat(both, np.concatenate([[0], edges + 1]))
    assert chi2.sf(float(((observed - expected) ** 2 / expected).sum()), len(edges)) > ALARM
    assert abs(np.corrcoef(drawn[1:], drawn[:-1])[0, 1]) < 5.5 / math.sqrt(number)


def test_every_draw_takes_64_bits_and_a_coin_of_the_operating_system(monkeypatch: pytest.MonkeyPatch):
    taken, real = [], os.urandom
    monkeypatch.setattr(os, "urandom", lambda number: (taken.append(number), real(number))[1])
    table_noise.draw(1001, 8.0)
    assert taken[:2] == [8 * 1001, 126]


@pytest.mark.parametrize(("number", "sigma", "by_table"), [(600, 8.0, True), (599, 8.0, False), (600, 0.1, False)])
def test_the_table_is_for_very_many_and_for_sigmas_that_it_is_proven_for(
    number: int, sigma: float, by_table: bool, monkeypatch: pytest.MonkeyPatch
):
    asked, real = [], table_noise.draw
    monkeypatch.setattr(table_noise, "draw", lambda *args: (asked.append(args), real(*args))[1])
    monkeypatch.setattr(discrete, "VERY_MANY", 600)
    noisy = add_discrete_gaussian(1000 * np.arange(number, dtype=np.int64).reshape(-1, 1), sigma)
    assert bool(asked) == by_table
    assert noisy.shape == (number, 1)
    assert np.abs(noisy.ravel() - 1000 * np.arange(number)).max() < 500


def test_huge_values_saturate_and_do_not_wrap(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(discrete, "VERY_MANY", 64)
    ends = np.iinfo(np.int64)
    assert (add_discrete_gaussian(np.full(64, ends.max), 1000.0) > 0).all()
    assert (add_discrete_gaussian(np.full(64, ends.min), 1000.0) < 0).all()


def test_threads_of_opendp_give_every_entry_noise_of_its_own(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(discrete, "MANY", 100)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    values = 10**9 * np.arange(1000, dtype=np.int64)
    drawn = add_discrete_gaussian(values, 50.0) - values
    assert np.abs(drawn).max() < 50 * 12
    assert len(set(drawn.tolist())) > 100
