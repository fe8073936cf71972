"""Moments of private vectors for a student: no row moves them further than charged; what is drawn from them."""

import math

import numpy as np
import pytest

from connectors.interfaces.errors import ConfigError
from tasks.accounting.composition import epsilon_of
from tasks.accounting.moments import (
    STEPS,
    MomentsPrivacy,
    Plane,
    calibrate_moments,
    gaussian_of,
    moments_sensitivity,
    packed,
    plane_of,
    stand_ins,
    unpacked,
)
from tasks.audit.bounds import Finding, gaussian_finding, stack_outputs
from tasks.private.noise.discrete import add_discrete_gaussian
from tasks.private.releases.moments import clean_moments

PRIVACY = MomentsPrivacy(1.0, 1e-5, 3)
NOISE = calibrate_moments(PRIVACY)
RNG = np.random.default_rng(0)
PLANE = plane_of(RNG.standard_normal((200, 6)) * [5, 3, 2, 0.1, 0.1, 0.1], 3)
ROWS = RNG.standard_normal((40, 6)).astype(np.float32)


def strange_rows() -> list[np.ndarray]:
    """Return rows that want to be heard: far away, tiny, not finite, along one direction, at the very edge."""
    along = (PLANE.center + PLANE.across[0] * PLANE.radius**2).astype(np.float32)
    far = np.full(6, 1e30, dtype=np.float32)
    return [ROWS[0], far, -far, np.full(6, np.inf, np.float32), np.full(6, np.nan, np.float32), along, 1e-30 * along]


def sums(rows: np.ndarray) -> np.ndarray:
    return clean_moments(rows, PLANE, NOISE).sums


@pytest.mark.parametrize("number", range(7))
def test_one_row_more_moves_the_moments_no_further_than_charged(number: int) -> None:
    row = strange_rows()[number]
    moved = sums(np.concatenate([ROWS, row[None]])) - sums(ROWS)
    assert np.linalg.norm(moved) <= NOISE.sensitivity * STEPS


def test_one_row_in_place_of_another_moves_them_no_further_than_charged_for_that() -> None:
    replaced = moments_sensitivity(MomentsPrivacy(1.0, 1e-5, 3, "replace_one"))
    rows = [row for row in strange_rows() if np.isfinite(row).all()]
    apart = [np.linalg.norm(sums(one[None]) - sums(two[None])) for one in rows for two in rows]
    assert max(apart) <= replaced * STEPS
    assert max(apart) > 0.8 * replaced * STEPS  # far and -far lie a right angle apart, but for what counts them
    assert replaced < math.sqrt(2) * NOISE.sensitivity + 0.01


def test_a_person_moves_them_by_all_of_their_rows() -> None:
    person = MomentsPrivacy(1.0, 1e-5, 3, protects="person", rows=8)
    assert moments_sensitivity(person) == pytest.approx(8 * NOISE.sensitivity)


def test_a_row_that_is_not_finite_adds_nothing_and_what_a_row_adds_hangs_on_it_alone() -> None:
    assert not sums(np.array([[np.nan] * 6], dtype=np.float32)).any()
    each = sum(sums(row[None]) for row in ROWS)
    assert np.array_equal(each, sums(ROWS))


def test_the_noise_costs_what_was_asked_for() -> None:
    assert NOISE.epsilon_exact <= 1.0
    assert epsilon_of([dict(NOISE.charge.event)], 1e-5) == pytest.approx(1.0, rel=1e-4)
    assert NOISE.charge.noise_scale == NOISE.sigma
    with pytest.raises(ConfigError, match="adaptation_epsilon"):
        calibrate_moments(MomentsPrivacy(math.inf, 1e-5, 3))


def test_a_symmetric_matrix_is_packed_without_changing_its_length() -> None:
    matrix = RNG.standard_normal((5, 5))
    matrix = matrix + matrix.T
    assert np.linalg.norm(packed(matrix)) == pytest.approx(np.linalg.norm(matrix))
    assert np.allclose(unpacked(packed(matrix), 5), matrix)


def test_rows_drawn_from_the_noisy_moments_vary_as_the_private_ones_do() -> None:
    rng = np.random.default_rng(1)
    public = rng.standard_normal((3000, 6)) * [5, 3, 2, 0.1, 0.1, 0.1]
    turned = rng.standard_normal((20_000, 2)) @ np.array([[1.0, 0.8], [0.0, 0.6]])
    private = np.concatenate([turned, 0.3 * rng.standard_normal((20_000, 4))], axis=1).astype(np.float32)
    plane = plane_of(public, 3)
    noisy = add_discrete_gaussian(clean_moments(private, plane, NOISE).sums, NOISE.sigma_int)
    found = gaussian_of(noisy[0], NOISE)
    assert found is not None
    drawn = stand_ins(public, plane, found, 20_000, 0)
    seen, meant = np.cov(drawn.T)[:3, :3], np.cov(private.T)[:3, :3]
    assert np.abs(seen - meant).max() < 0.1
    assert np.abs(drawn.mean(axis=0)[:3] - private.mean(axis=0)[:3]).max() < 0.1
    assert drawn.var(axis=0)[3:] == pytest.approx(public.var(axis=0)[3:], rel=0.1)  # elsewhere as the public rows


def attacked(weaker: float) -> Finding:
    """Return what 2 x 2000 releases prove about a row that moves the moments as far as one may."""
    small = calibrate_moments(MomentsPrivacy(4.0, 1e-5, 2))
    plane = Plane(np.zeros(6), np.eye(6)[:2])
    others = np.concatenate([ROWS[:5], np.zeros((1, 6), np.float32)])[:5]
    both = np.concatenate([others, np.eye(6, dtype=np.float32)[:1] * 9])
    without, with_row = (clean_moments(rows, plane, small).sums for rows in (others, both))
    sides = [
        [[add_discrete_gaussian(sums, small.sigma_int / weaker)] for _ in range(2000)] for sums in (without, with_row)
    ]
    seen = stack_outputs(sides[0], without), stack_outputs(sides[1], without)
    moved = (with_row - without).astype(np.float64)
    return gaussian_finding("whose row", small.sensitivity / small.sigma, seen, moved, 1, 0.999)


def test_attacks_prove_no_more_than_was_claimed_and_more_as_soon_as_noise_is_missing() -> None:
    sound = attacked(1.0)
    assert sound.passed
    assert sound.bound > 0.5 * sound.claimed  # the row is as loud as one may be; in 2000 releases no chance hides it
    assert not attacked(3.0).passed


def test_moments_that_the_noise_drowns_are_not_believed() -> None:
    assert gaussian_of(sums(ROWS[:4])[0], NOISE) is None


def test_directions_are_those_in_which_public_rows_vary_most() -> None:
    assert isinstance(PLANE, Plane)
    assert np.abs(PLANE.across[0] * PLANE.radius) @ np.eye(6)[0] > 0.99
    assert plane_of(RNG.standard_normal((3, 6)), 5).across.shape == (2, 6)


def test_a_row_whose_moments_are_too_long_adds_nothing_whatever_projected_it() -> None:
    """The bound is checked on the integers that are added, and does not rest on the projection."""

    class Longer(Plane):
        def place(self, vector: np.ndarray) -> np.ndarray:
            return 1.01 * super().place(vector)

    far = 1e3 * np.ones((1, 6), dtype=np.float32)
    assert clean_moments(far, PLANE, NOISE).sums.any()
    assert not clean_moments(far, Longer(PLANE.center, PLANE.across), NOISE).sums.any()
