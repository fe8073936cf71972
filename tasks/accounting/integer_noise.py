"""The noise of one release of bounded integer sums: least scale, exact cost, ledger charge.

Label counts, teachers' answers, terms, phrases and densities are one mechanism: each record adds a bounded vector of
integers, and the sums of all records get integer noise once. A `SumPrivacy` states what is promised and how far one
record moves the sums; its proof is in the docstring of `sensitivity`. Votes share `least_noise`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Generic, Literal, Protocol, TypeVar

from connectors.interfaces.ledger import Charge
from tasks.accounting.composition import (
    Adjacency,
    Event,
    discrete_gaussian_event,
    discrete_laplace_event,
    epsilon_of,
    gaussian_sigma,
    non_private_event,
)
from tasks.accounting.promise import Protects, require

Kind = Literal["gaussian", "laplace", "none"]

MIN_SCALE_INT: Final = 16.0
"""Below this the noise has only a few integer values and protects nobody."""
MIN_EPSILON: Final = 1e-9
"""Where the search for the largest epsilon begins."""


class SumPrivacy(Protocol):
    """The promise of one release of sums; every number is public. Its `__post_init__` calls `check_promise`."""

    @property
    def part(self) -> str:
        """Name of the release, its slot in the ledger."""

    @property
    def epsilon(self) -> float:
        """Requested epsilon of the release; infinite without noise."""

    @property
    def delta(self) -> float:
        """Delta of the release; Laplace noise does not use it."""

    @property
    def adjacency(self) -> Adjacency:
        """Neighbouring datasets: one record is added or removed, or replaced."""

    @property
    def protects(self) -> Protects:
        """The protected unit."""

    @property
    def calibration(self) -> str:
        """The rule that chooses the scale: "tight", or a setting of a paper."""

    @property
    def kind(self) -> Kind:
        """Gaussian or Laplace noise, or none: NOT PRIVATE."""

    @property
    def steps(self) -> int:
        """Integer steps of one count or feature."""

    @property
    def sensitivity(self) -> float:
        """By how much one record moves all sums together: the L2 norm, or the L1 norm for Laplace noise."""

    @property
    def reason(self) -> str:
        """Why one record moves the sums no further."""

    @property
    def printed_scale(self) -> float | None:
        """The noise of a paper; None for the least noise."""

    @property
    def limits(self) -> Mapping[str, Sequence[str]]:
        """Allowed values of further fields."""

    @property
    def sizes(self) -> Sequence[str]:
        """Fields that are whole numbers from 1."""


AnyPrivacy = TypeVar("AnyPrivacy", bound=SumPrivacy)


class HasExactEpsilon(Protocol):
    """Noise whose exact cost is known."""

    @property
    def epsilon_exact(self) -> float:
        """The exact cost."""


AnyNoise = TypeVar("AnyNoise", bound=HasExactEpsilon)


def check_promise(privacy: SumPrivacy) -> None:
    """Raise ConfigError for a promise of sums whose numbers promise nothing."""
    limits: dict[str, Sequence[str]] = {
        **privacy.limits,
        "adjacency": ("add_remove", "replace_one"),
    }
    for field, values in limits.items():
        value = getattr(privacy, field)
        require(value in values, field, " or ".join(values), value)
    finite = 0 < privacy.epsilon < math.inf or privacy.kind == "none"
    require(finite, "epsilon", "a positive number", privacy.epsilon)
    require(0 < privacy.delta < 1, "delta", "a number between 0 and 1", privacy.delta)
    for field in privacy.sizes:
        value = getattr(privacy, field)
        require(isinstance(value, int) and value >= 1, field, "a whole number from 1", value)


@dataclass(frozen=True, slots=True)
class SumNoise(Generic[AnyPrivacy]):
    """The noise of one release of sums.

    `scale`: sigma, or the b of Laplace noise, in counts or features. `epsilon_exact`: the exact cost of one record at
    `delta`; it exceeds `epsilon_stated`, the requested epsilon, under the noise of some papers.
    """

    privacy: AnyPrivacy
    scale: float
    epsilon_exact: float
    releases: ClassVar[int] = 1

    @property
    def kind(self) -> Kind:
        """Gaussian or Laplace noise, or none: NOT PRIVATE."""
        return self.privacy.kind

    @property
    def scale_int(self) -> float:
        """The scale in integer steps."""
        return self.scale * self.privacy.steps

    @property
    def sensitivity(self) -> float:
        """By how much one record moves all sums together."""
        return self.privacy.sensitivity

    @property
    def sigma(self) -> float:
        """The scale, by the name that all kinds of noise share."""
        return self.scale

    @property
    def noise_multiplier(self) -> float:
        """The scale over the sensitivity."""
        return self.scale / self.sensitivity

    @property
    def calibration(self) -> str:
        """The rule that chose the scale."""
        if self.privacy.printed_scale is not None:
            return "paper"
        return self.privacy.calibration

    @property
    def epsilon_stated(self) -> float:
        """The requested epsilon; infinite without noise."""
        return math.inf if self.kind == "none" else self.privacy.epsilon

    @property
    def delta(self) -> float:
        """Delta of the exact cost; Laplace noise needs none."""
        return 0.0 if self.kind == "laplace" else self.privacy.delta

    @property
    def event(self) -> Event:
        """The release as an accounting event."""
        if self.kind == "none":
            return non_private_event()
        if self.kind == "laplace":
            return discrete_laplace_event(self.sensitivity / self.scale)
        return discrete_gaussian_event(self.scale / self.sensitivity, self.scale_int)

    @property
    def charge(self) -> Charge:
        """The release as a ledger charge."""
        privacy = self.privacy
        mechanism = "none"
        if self.kind != "none":
            mechanism = f"discrete_{self.kind}"
        unit = (privacy.protects, privacy.adjacency)
        return Charge(mechanism, self.event, self.sensitivity, privacy.reason, self.scale, *unit)


def calibrate_sums(privacy: AnyPrivacy) -> SumNoise[AnyPrivacy]:
    """Return the least noise that keeps the promise of a release, or the printed noise of a paper, and its exact cost.

    Kind none: no noise, marked non-private. Raises ConfigError if the noise has only a few integer values.
    """
    if privacy.kind == "none":
        return SumNoise(privacy, 0.0, math.inf)
    scale = _least_scale(privacy)
    # Printed noise stays as printed, whatever it costs; Laplace noise costs the same on a grid.
    if privacy.printed_scale is not None or privacy.kind == "laplace":
        return _sums_noise(privacy, scale)
    return least_noise(scale, privacy.epsilon, lambda sigma: _sums_noise(privacy, sigma))


def _least_scale(privacy: SumPrivacy) -> float:
    """Return the scale of continuous noise, or the printed one of a paper."""
    if privacy.printed_scale is not None:
        return privacy.printed_scale
    if privacy.kind == "laplace":
        return privacy.sensitivity / privacy.epsilon
    return gaussian_sigma(privacy.epsilon, privacy.delta, privacy.sensitivity)


def refuse_epsilon(privacy: Any, scale_of: Callable[[Any], float], otherwise: str = "") -> None:
    """Raise ConfigError, with the largest epsilon, for a promise whose noise has only a few integer values.

    Args:
        privacy: the promise of votes or sums, whose noise becomes narrower with its epsilon.
        scale_of: returns the scale of the noise of a promise, in integer steps.
        otherwise: a value to write instead of a smaller epsilon.
    """
    low = MIN_EPSILON
    high = privacy.epsilon
    while high / low > 1.001:
        # The geometric mean: the search spans nine orders of magnitude.
        middle = math.sqrt(low * high)
        if scale_of(replace(privacy, epsilon=middle)) >= MIN_SCALE_INT:
            low = middle
        else:
            high = middle
    # Two digits, rounded down: the proposed epsilon must not be refused again.
    unit = 10.0 ** (math.floor(math.log10(low)) - 1)
    most = f"{math.floor(low / unit) * unit:g}"
    require(False, "epsilon", f"at most {most}{otherwise}", privacy.epsilon)


def _sums_noise(privacy: AnyPrivacy, scale: float) -> SumNoise[AnyPrivacy]:
    """Return noise of a scale with its exact cost, which exceeds the stated epsilon under the noise of some papers."""
    grid = scale * privacy.steps
    # Laplace noise on whole counts is exact, however few values it has.
    if privacy.steps > 1 and grid < MIN_SCALE_INT:
        refuse_epsilon(privacy, lambda smaller: _least_scale(smaller) * smaller.steps)
    ratio = scale / privacy.sensitivity
    if privacy.kind == "gaussian":
        return SumNoise(
            privacy, scale, epsilon_of([discrete_gaussian_event(ratio, grid)], privacy.delta)
        )
    exact = privacy.sensitivity / scale
    # The least scale is sensitivity / epsilon, and dividing back may add a last digit: epsilon 1 stays 1.
    if math.isclose(exact, privacy.epsilon, rel_tol=1e-12):
        exact = privacy.epsilon
    return SumNoise(privacy, scale, exact)


def least_noise(least: float, epsilon: float, noise_of: Callable[[float], AnyNoise]) -> AnyNoise:
    """Return the noise of the least sigma whose exact cost on the integer grid is at most `epsilon`.

    `least`: the sigma of continuous noise. The grid costs about a millionth more; doubled until it suffices.
    """
    widening = 1e-6
    while True:
        noise = noise_of(least * (1 + widening))
        if noise.epsilon_exact <= epsilon:
            return noise
        widening *= 2
