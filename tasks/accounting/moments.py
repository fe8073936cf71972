"""Noisy second moments of private vectors: their cost and use for adaptation.

Deep CORAL (Sun and Saenko 2016) compares covariances alone, hence a student needs no private text: a noisy count, mean
and covariance of the texts' vectors are enough, and rows sampled from them replace the texts. The vectors are projected
on k public directions, those in which the synthetic texts vary most. A row adds y y^T, y = (c, x), where x are its
coordinates along the directions, cut to length 1. Its Frobenius norm is |y|^2 <= 1 + c^2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from connectors.interfaces.ledger import Charge
from tasks.accounting.composition import Event, discrete_gaussian_event, epsilon_of, gaussian_sigma
from tasks.accounting.sensitivity import need
from tasks.accounting.votes import LEAST_SIGMA_INT

if TYPE_CHECKING:
    from typing import Any, TypeVar

    from numpy.typing import NDArray

    from tasks.accounting.composition import Adjacency
    from tasks.accounting.sensitivity import Protects
    from tasks.accounting.votes import Noise

    Floats = NDArray[np.float64]
    SomeNoise = TypeVar("SomeNoise", bound=Noise)

COUNTING: Final = 0.5
"""c: the part of a row that counts rows, next to a vector of length at most 1."""

STEPS: Final = 4096
"""Integer steps per unit: the contribution of a row is rounded to multiples of 2^-12."""

LENGTHS: Final = 0.95
"""Share of the synthetic rows that are, along the directions, no longer than the limit for a private row."""

FAINT: Final = 4.0
"""A noisy count below this many standard deviations of its noise means that the moments carry no information."""


@dataclass(frozen=True, slots=True)
class MomentsPrivacy:
    """The privacy promise of the release of moments; every number is public.

    `directions`: k. `protects`, `rows`: a record, or a person with at most `rows` rows.
    """

    epsilon: float
    delta: float
    directions: int
    adjacency: Adjacency = "add_remove"
    protects: Protects = "record"
    rows: int = 1

    @property
    def numbers(self) -> int:
        """Number of released values: a symmetric matrix of k + 1 rows."""
        return (self.directions + 1) * (self.directions + 2) // 2


@dataclass(frozen=True, slots=True)
class MomentsNoise:
    """The noise of the moments: `sigma` in rows, `sigma_int` in integer steps."""

    privacy: MomentsPrivacy
    sigma: float
    sigma_int: float
    sensitivity: float
    epsilon_exact: float

    @property
    def epsilon_stated(self) -> float:
        """The requested epsilon."""
        return self.privacy.epsilon

    @property
    def delta(self) -> float:
        """The delta of the promise."""
        return self.privacy.delta

    @property
    def releases(self) -> int:
        """The moments are one release."""
        return 1

    @property
    def noise_multiplier(self) -> float:
        """Sigma in units of the sensitivity."""
        return self.sigma / self.sensitivity

    @property
    def claim(self) -> dict[str, Any]:
        """Noise and promise as an audit states them."""
        return {
            "calibration": "tight",
            "protects": self.privacy.protects,
            "noise": "gaussian",
            "noise_scale": self.sigma,
            "releases": 1,
        }

    @property
    def event(self) -> Event:
        """The release as an accounting event."""
        return discrete_gaussian_event(self.sigma / self.sensitivity, self.sigma_int)

    @property
    def charge(self) -> Charge:
        """The release as a ledger charge."""
        privacy = self.privacy
        whose = f"at most {privacy.rows} rows of a person add" if privacy.protects == "person" else "a row adds"
        twice = "; replacing it moves sqrt(2) times as much" if privacy.adjacency == "replace_one" else ""
        reason = f"{whose} y y^T, y = (1/2, {privacy.directions} numbers of length 1), rounded: L2 norm"
        return Charge(
            mechanism="discrete_gaussian",
            event=self.event,
            sensitivity=self.sensitivity,
            sensitivity_reason=f"{reason} {self.sensitivity:.6g}{twice}",
            noise_scale=self.sigma,
            protects=privacy.protects,
            adjacency=privacy.adjacency,
        )


@dataclass(frozen=True, slots=True)
class Plane:
    """Public directions: `center` (d,), `across` (k, d).

    The rows of `across` are orthogonal, of length 1 / `radius`.
    """

    center: Floats
    across: Floats

    @property
    def radius(self) -> float:
        """Length of a vector along the directions that counts as 1."""
        return float(1 / np.linalg.norm(self.across[0]))

    def place(self, vector: Floats) -> Floats:
        """Return the coordinates of a vector along the directions, cut to length 1.

        Shape (k,). They depend on this vector and the public directions alone.
        """
        coordinates = self.across @ (vector - self.center)
        return np.asarray(coordinates / max(1.0, float(np.linalg.norm(coordinates))))


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Mean (k,) and covariance (k, k) of rows along the directions, both noisy."""

    mean: Floats
    covariance: Floats


def row_norm(privacy: MomentsPrivacy) -> float:
    """Return the largest L2 norm of one row's rounded moments.

    It is |y|^2 plus half a step for each number.
    """
    return (1 + COUNTING**2) * (1 + 1e-9) + _rounding(privacy)


def moments_sensitivity(privacy: MomentsPrivacy) -> float:
    """Return by how much one record or person moves the moments.

    Adding or removing: rows times `row_norm`. Replacing: y y^T and z z^T have no negative inner product, hence their
    distance is at most sqrt(2) times the length of one; rounding counts twice.
    """
    if privacy.adjacency == "add_remove":
        return privacy.rows * row_norm(privacy)
    return privacy.rows * (math.sqrt(2) * row_norm(privacy) + 2 * _rounding(privacy))


def calibrate_moments(privacy: MomentsPrivacy) -> MomentsNoise:
    """Return the least integer Gaussian noise for the promise.

    Raises ConfigError for numbers that promise nothing.
    """
    need(0 < privacy.epsilon < math.inf, "adaptation_epsilon", "a positive number", privacy.epsilon)
    need(privacy.directions >= 1, "adaptation_directions", "at least 1", privacy.directions)
    sensitivity = moments_sensitivity(privacy)
    least, widening = gaussian_sigma(privacy.epsilon, privacy.delta, sensitivity), 1e-6
    while True:
        sigma = least * (1 + widening)
        need(sigma * STEPS >= LEAST_SIGMA_INT, "adaptation_epsilon", "a smaller number", privacy.epsilon)
        exact = epsilon_of([discrete_gaussian_event(sigma / sensitivity, sigma * STEPS)], privacy.delta)
        if exact <= privacy.epsilon:
            return MomentsNoise(privacy, sigma, sigma * STEPS, sensitivity, exact)
        widening *= 2


def with_moments(noise: SomeNoise, moments: MomentsNoise, epsilon: float) -> SomeNoise:
    """Add the release of moments to the noise of a run, with the joint `epsilon`."""
    events = [*(charge.event for charge in noise.charges), moments.event]
    exact = epsilon_of([dict(event) for event in events], noise.delta)
    return replace(noise, moments=moments, epsilon_stated=epsilon, epsilon_exact=exact)


# --- public vectors
def plane_of(vectors: Floats, directions: int) -> Plane:
    """Return the directions in which synthetic vectors (n, d) vary most.

    At most n - 1, and at most `directions`.
    """
    center = vectors.mean(axis=0)
    _, _, right = np.linalg.svd(vectors - center, full_matrices=False)
    across = right[: min(directions, len(vectors) - 1)]
    lengths = np.linalg.norm((vectors - center) @ across.T, axis=1)
    radius = max(float(np.quantile(lengths, LENGTHS)), 1e-9)
    return Plane(center, across / radius)


def gaussian_of(sums: NDArray[np.int64], noise: MomentsNoise) -> Gaussian | None:
    """Return mean and covariance from noisy moments (numbers,).

    None if the noise exceeds the signal. The covariance is the nearest positive semidefinite one: negative variances,
    an effect of noise, become 0.
    """
    matrix = unpacked(sums / STEPS, noise.privacy.directions + 1)
    rows = matrix[0, 0] / COUNTING**2
    if rows < FAINT * noise.sigma / COUNTING**2:
        return None
    mean = matrix[0, 1:] / (COUNTING * rows)
    values, axes = np.linalg.eigh(matrix[1:, 1:] / rows - np.outer(mean, mean))
    return Gaussian(mean, (axes * np.maximum(values, 0.0)) @ axes.T)


def stand_ins(vectors: Floats, plane: Plane, moments: Gaussian, count: int, seed: int) -> NDArray[np.float32]:
    """Return `count` vectors that replace private ones.

    They vary like the private rows along the directions, and like synthetic ones elsewhere.
    """
    rng = np.random.default_rng(seed)
    synthetic = vectors[rng.integers(len(vectors), size=count)] - plane.center
    units = plane.across * plane.radius
    drawn = rng.multivariate_normal(moments.mean, moments.covariance, size=count, method="eigh") * plane.radius
    return np.asarray(plane.center + synthetic + (drawn - synthetic @ units.T) @ units, dtype=np.float32)


def packed(matrix: Floats) -> Floats:
    """Return a symmetric matrix as a vector of equal norm.

    It contains the upper half, with off-diagonal values times sqrt(2).
    """
    rows, columns = np.triu_indices(len(matrix))
    return np.asarray(matrix[rows, columns] * np.where(rows == columns, 1.0, math.sqrt(2)))


def unpacked(vector: Floats, size: int) -> Floats:
    """Return the symmetric matrix from its `packed` vector."""
    rows, columns = np.triu_indices(size)
    matrix = np.zeros((size, size))
    matrix[rows, columns] = vector / np.where(rows == columns, 1.0, math.sqrt(2))
    return np.asarray(matrix + matrix.T - np.diag(matrix.diagonal()))


def _rounding(privacy: MomentsPrivacy) -> float:
    return math.sqrt(privacy.numbers) / (2 * STEPS)
