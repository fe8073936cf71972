"""The noise of one release of bounded integer sums: least scale, exact cost, ledger charge.

Label counts, teachers' answers, terms, phrases and densities are one mechanism: each record adds a bounded vector of
integers, and the sums of all records get integer noise once. A `SumPrivacy` states what is promised and how far one
record moves the sums; its proof is in the docstring of `sensitivity`. Votes share `least_noise`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, TypeAlias, TypeVar

from connectors.interfaces.ledger import Charge
from tasks.accounting.composition import (
    Event,
    discrete_gaussian_event,
    discrete_laplace_event,
    epsilon_of,
    gaussian_sigma,
    non_private_event,
)
from tasks.accounting.sensitivity import need

if TYPE_CHECKING:
    from tasks.accounting.density import DensityPrivacy
    from tasks.accounting.keyphrases import PartPrivacy
    from tasks.accounting.teachers import TeacherPrivacy
    from tasks.accounting.votes import Noise

Kind = Literal["gaussian", "laplace", "none"]

LEAST_SCALE_INT: Final = 16.0
"""Below this the noise has only a few integer values and protects nobody."""
SMALLEST_EPSILON: Final = 1e-9
"""Where the search for the largest epsilon begins."""


SumPrivacy: TypeAlias = "DensityPrivacy | PartPrivacy | TeacherPrivacy"
"""The promise of one release of sums; every number is public. A further kind has the same members:

- `part`: name of the release, its slot in the ledger; `calibration`: "tight", or a setting of a paper
- `epsilon`, `delta` of the release (Laplace noise does not use delta), `adjacency`, `protects`
- `kind`: Gaussian or Laplace noise, or none: NOT PRIVATE; `steps`: integer steps of one count or feature
- `sensitivity`: by how much one record moves all sums together (L2 norm, or L1 norm for Laplace noise); `reason`: why
- `printed_scale`: the noise of a paper, None for the least noise
- `limits`: allowed values of further fields; `sizes`: fields that are whole numbers from 1
"""

AnyPrivacy = TypeVar("AnyPrivacy", bound="SumPrivacy")
AnyNoise = TypeVar("AnyNoise", "Noise", "SumNoise[Any]")


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
        unit, mechanism = self.privacy, "none" if self.kind == "none" else f"discrete_{self.kind}"
        move, reason = self.sensitivity, self.privacy.reason
        return Charge(mechanism, self.event, move, reason, self.scale, unit.protects, unit.adjacency)


def calibrate_sums(privacy: AnyPrivacy) -> SumNoise[AnyPrivacy]:
    """Return the least noise that keeps the promise of a release, or the printed noise of a paper, and its exact cost.

    Kind none: no noise, marked non-private. Raises ConfigError for numbers that promise nothing.
    """
    _check(privacy)
    if privacy.kind == "none":
        return SumNoise(privacy, 0.0, math.inf)
    scale = _least_scale(privacy)
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
    low, high = SMALLEST_EPSILON, privacy.epsilon
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        is_wide = scale_of(replace(privacy, epsilon=middle)) >= LEAST_SCALE_INT
        low, high = (middle, high) if is_wide else (low, middle)
    unit = 10.0 ** (math.floor(math.log10(low)) - 1)  # two digits, rounded down
    need(False, "epsilon", f"at most {math.floor(low / unit) * unit:g}{otherwise}", privacy.epsilon)


def _sums_noise(privacy: AnyPrivacy, scale: float) -> SumNoise[AnyPrivacy]:
    """Return noise of a scale with its exact cost, which exceeds the stated epsilon under the noise of some papers."""
    grid = scale * privacy.steps
    # Laplace noise on whole counts is exact, however few values it has.
    if privacy.steps > 1 and grid < LEAST_SCALE_INT:
        refuse_epsilon(privacy, lambda smaller: _least_scale(smaller) * smaller.steps)
    ratio = scale / privacy.sensitivity
    if privacy.kind == "gaussian":
        return SumNoise(privacy, scale, epsilon_of([discrete_gaussian_event(ratio, grid)], privacy.delta))
    exact = privacy.sensitivity / scale
    only_rounded = math.isclose(exact, privacy.epsilon, rel_tol=1e-12)
    return SumNoise(privacy, scale, privacy.epsilon if only_rounded else exact)


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


def _check(privacy: SumPrivacy) -> None:
    adjacencies = {"adjacency": ("add_remove", "replace_one")}
    for field, values in {**privacy.limits, **adjacencies}.items():
        value = getattr(privacy, field)
        need(value in values, field, " or ".join(values), value)
    finite = 0 < privacy.epsilon < math.inf or privacy.kind == "none"
    need(finite, "epsilon", "a positive number", privacy.epsilon)
    need(0 < privacy.delta < 1, "delta", "a number between 0 and 1", privacy.delta)
    for field in privacy.sizes:
        value = getattr(privacy, field)
        need(isinstance(value, int) and value >= 1, field, "a whole number from 1", value)
