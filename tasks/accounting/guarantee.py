"""The guarantee of a run: its promise, its releases, and their joint cost."""

import math
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypedDict, TypeVar

from connectors.interfaces.ledger import Charge
from tasks.accounting.composition import epsilon_of
from tasks.accounting.promise import Promise

ROUNDING: Final = 1e-6
"""Part of epsilon by which numerical composition may exceed the promise that it divided."""


class ShownNoise(TypedDict):
    """Scale, sensitivity and calibration of a noise under their stored names."""

    sensitivity: float
    calibration: str
    sigma: float
    noise_multiplier: float


class ReleaseNoise(Protocol):
    """The noise of one kind of release, as plan, report and MLflow show it."""

    @property
    def sigma(self) -> float:
        """The scale of the noise, in the unit of the released values."""

    @property
    def sensitivity(self) -> float:
        """By how much one record or person moves the released values."""

    @property
    def noise_multiplier(self) -> float:
        """The scale over the sensitivity."""

    @property
    def calibration(self) -> str:
        """The rule that chose the scale: "tight", or a setting of a paper."""

    @property
    def epsilon_exact(self) -> float:
        """The exact cost of all releases of this kind at `delta`."""

    @property
    def delta(self) -> float:
        """Delta of the exact cost."""


class Charged(Protocol):
    """The part of a release that its guarantee needs."""

    @property
    def noise(self) -> ReleaseNoise | None:
        """The noise; None for an exposure without noise, and for rows that stay closed."""

    def charges(self) -> tuple[Charge, ...]:
        """Return its charges in the privacy ledger, in order."""


R = TypeVar("R", bound=Charged, covariant=True)
Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True)
class Guarantee(Generic[R]):
    """The promise of a run and the calibrated releases that it makes, in the order of the ledger."""

    promise: Promise
    releases: tuple[R, ...] = ()

    @property
    def charges(self) -> tuple[Charge, ...]:
        """All charges of the run in the privacy ledger, in order."""
        return tuple(charge for release in self.releases for charge in release.charges())

    @property
    def non_private(self) -> bool:
        """True if the run gave up protection explicitly (epsilon is infinite)."""
        return math.isinf(self.promise.epsilon)

    @property
    def epsilon_exact(self) -> float:
        """The exact joint cost of all releases at the delta of the promise; 0 without a charge."""
        noises = [release.noise for release in self.releases if release.charges()]
        # A single training states the larger result of two accountants, of which the events have one.
        if len(noises) == 1 and noises[0] is not None and noises[0].delta == self.promise.delta:
            return float(noises[0].epsilon_exact)
        events = [charge.event for charge in self.charges]
        if not events:
            return 0.0
        exact = epsilon_of(events, self.promise.delta)
        stated = self.promise.epsilon
        # The parts were divided to add up to the promise; a plan must not show 4.0000001 for 4.
        if stated < exact <= stated * (1 + ROUNDING):
            return stated
        return exact

    @property
    def noise(self) -> ReleaseNoise | None:
        """The noise of the last release, which plan and MLflow show; None without noise."""
        for release in reversed(self.releases):
            if release.noise is not None:
                return release.noise
        return None

    @property
    def shown_noise(self) -> ShownNoise:
        """Scale, sensitivity and calibration of `noise`, by the names of plan and MLflow; zeros without noise."""
        noise = self.noise
        if noise is None:
            return {
                "sensitivity": 0.0,
                "calibration": "none",
                "sigma": 0.0,
                "noise_multiplier": 0.0,
            }
        return {
            "sensitivity": noise.sensitivity,
            "calibration": noise.calibration,
            "sigma": noise.sigma,
            "noise_multiplier": noise.noise_multiplier,
        }

    def of(self, kind: type[Kind]) -> Kind | None:
        """Return the release of a kind; None if the run does not make it."""
        return next((release for release in self.releases if isinstance(release, kind)), None)


def finite(epsilon: float) -> float | None:
    """Return an epsilon for JSON: None means no noise at all."""
    # JSON has no infinity, and readers of the files need not be Python.
    if not math.isfinite(epsilon):
        return None
    return epsilon


def epsilon_text(value: float | None) -> str:
    """Return an epsilon in words; None means no noise."""
    if value is None:
        return "infinite (NOT PRIVATE)"
    return f"{value:.4f}"


def no_release() -> Guarantee[Any]:
    """Return the guarantee of a run that opens no private record: epsilon and delta are 0."""
    return Guarantee(Promise(0.0, 0.0))
