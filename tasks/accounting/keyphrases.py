"""Noise of the two parts of DP-KPS: sensitivity, scale and ledger charge.

Both parts release sums over documents, which avoids a division by a private count. Three settings:

- ``gaussian``: distinct terms, paired features averaged over a document's keyphrases, integer Gaussian noise
- ``pure``: the same sums with integer Laplace noise; delta 0
- ``paper``: the printed scale, 2 sqrt(2) I / epsilon (appendix A.2). It is printed for means, for which it lacks 1/|X|;
  here it is added to sums. It is made for one point; a document adds up to M points, hence the printed epsilon is no
  guarantee for documents. `epsilon_exact`, and with it the ledger, contains the exact cost of one document
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, Literal

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.ledger import Charge
from tasks.accounting.composition import (
    Adjacency,
    Event,
    discrete_gaussian_event,
    discrete_laplace_event,
    epsilon_of,
    gaussian_epsilon,
    gaussian_sigma,
    mu_of,
)
from tasks.accounting.sensitivity import need
from tasks.accounting.votes import LEAST_SIGMA_INT

Part = Literal["vocabulary", "density"]
Setting = Literal["gaussian", "pure", "paper"]

PARTS: Final[tuple[Part, Part]] = ("vocabulary", "density")
"""The two releases in order; their names identify them within a run."""

FEATURE_STEPS: Final = 4096
"""Integer steps of one feature: documents are rounded to multiples of 2^-12."""

COUNT_STEPS: Final = 128
"""Integer steps of one count under Gaussian noise, which makes its grid free; Laplace noise is exact on counts."""


@dataclass(frozen=True, slots=True)
class PartPrivacy:
    """The privacy promise of one part of DP-KPS for a document.

    Every number is public. `epsilon`, `delta`: of this part (`delta` counts for gaussian alone). `terms`: S, most
    distinct vocabulary terms of a document. `keyphrases`: M, most keyphrases. `frequencies`: D, of random Fourier
    features, 2 D numbers. `members`: structures of an ensemble, released together.
    """

    part: Part
    epsilon: float
    delta: float = 1e-5
    setting: Setting = "gaussian"
    terms: int = 10
    keyphrases: int = 10
    frequencies: int = 500
    members: int = 1
    adjacency: Adjacency = "add_remove"

    @property
    def width(self) -> int:
        """Numbers in the density that a document adds to, over all members."""
        return 2 * self.frequencies * self.members


@dataclass(frozen=True, slots=True)
class KeyphraseNoise:
    """The noise of one part.

    `scale`: sigma, or the b of Laplace noise, in counts or features. `scale_int`: the scale in integer steps, `steps`
    per count or feature. `sensitivity`: of one document, L2 for Gaussian noise, L1 for Laplace noise.
    `epsilon_stated`: the requested epsilon. `epsilon_exact`: the exact cost of one document at `delta`.
    """

    privacy: PartPrivacy
    scale: float
    scale_int: float
    steps: int
    sensitivity: float
    epsilon_stated: float
    epsilon_exact: float
    delta: float

    @property
    def gaussian(self) -> bool:
        """True for Gaussian noise, False for Laplace noise."""
        return self.privacy.setting == "gaussian"

    @property
    def claim(self) -> dict[str, Any]:
        """Noise and promise as an audit states them."""
        return {
            "calibration": self.privacy.setting,
            "protects": "record",
            "noise": "gaussian" if self.gaussian else "laplace",
            "noise_scale": self.scale,
            "releases": 1,
        }

    @property
    def event(self) -> Event:
        """The release as an accounting event."""
        if self.gaussian:
            return discrete_gaussian_event(self.scale / self.sensitivity, self.scale_int)
        return discrete_laplace_event(self.sensitivity / self.scale)


def document_sensitivity(privacy: PartPrivacy) -> float:
    """Return by how much one document moves the sums of its part.

    The L2 norm for gaussian, else the L1 norm. Vocabulary: S distinct terms, sqrt(S) or S. Density: cos^2 + sin^2 = 1
    for each of D frequencies, hence sqrt(D) or sqrt(2) D; an average over keyphrases is no longer than the longest.
    Printed features sqrt(2) cos(.) are summed over M keyphrases: sqrt(2) * 2 D * M. Rounding adds half a step to each
    number. Replacing a document costs twice as much in the density (features have both signs) and in L1, sqrt(2) times
    in the L2 norm of counts.
    """
    gaussian = privacy.setting == "gaussian"
    if privacy.part == "vocabulary":
        norm = math.sqrt(privacy.terms) if gaussian else float(privacy.terms)
        factor = math.sqrt(2) if gaussian else 2.0
    else:
        norm, factor = _density_norm(privacy) + _rounding(privacy), 2.0
    return norm * (factor if privacy.adjacency == "replace_one" else 1.0)


def calibrate_part(privacy: PartPrivacy) -> KeyphraseNoise:
    """Return the least noise for the promise of one part, and its exact cost.

    For ``paper``: the printed noise. Raises ConfigError for numbers that promise nothing.
    """
    _check(privacy)
    sensitivity = document_sensitivity(privacy)
    if privacy.setting == "gaussian":
        return _gaussian(privacy, sensitivity)
    printed = privacy.setting == "paper"
    scale = (_printed_sensitivity(privacy) if printed else sensitivity) / privacy.epsilon
    steps = 1 if privacy.part == "vocabulary" else FEATURE_STEPS
    return KeyphraseNoise(
        privacy, scale, scale * steps, steps, sensitivity, privacy.epsilon, _pure(sensitivity, scale, privacy), 0.0
    )


def shares(epsilon: float, delta: float, setting: Setting, vocabulary: float = 0.5) -> tuple[float, float]:
    """Split `epsilon` into the epsilons of vocabulary and density at one `delta`.

    `vocabulary`: its share, of mu^2 under Gaussian noise, of epsilon otherwise.
    """
    if not 0 < vocabulary < 1:
        raise ConfigError(f"The vocabulary's share of epsilon: {vocabulary!r} is not allowed. Write 0 < share < 1.")
    if setting != "gaussian":
        return epsilon * vocabulary, epsilon * (1 - vocabulary)
    mu = mu_of(epsilon, delta)
    first, second = (gaussian_epsilon(mu * math.sqrt(share), delta) for share in (vocabulary, 1 - vocabulary))
    return first, second


def part_charge(noise: KeyphraseNoise) -> Charge:
    """Return the ledger charge of one part."""
    return Charge(
        mechanism="discrete_gaussian" if noise.gaussian else "discrete_laplace",
        event=noise.event,
        sensitivity=noise.sensitivity,
        sensitivity_reason=_reason(noise.privacy),
        noise_scale=noise.scale,
        protects="record",
        adjacency=noise.privacy.adjacency,
    )


# --- inside
def _gaussian(privacy: PartPrivacy, sensitivity: float) -> KeyphraseNoise:
    least = gaussian_sigma(privacy.epsilon, privacy.delta, sensitivity)
    steps = COUNT_STEPS if privacy.part == "vocabulary" else FEATURE_STEPS
    widening = 1e-6
    while True:
        sigma = least * (1 + widening)
        need(sigma * steps >= LEAST_SIGMA_INT, "epsilon", "a smaller number", privacy.epsilon)
        exact = epsilon_of([discrete_gaussian_event(sigma / sensitivity, sigma * steps)], privacy.delta)
        if exact <= privacy.epsilon:
            return KeyphraseNoise(
                privacy, sigma, sigma * steps, steps, sensitivity, privacy.epsilon, exact, privacy.delta
            )
        widening *= 2


def _pure(sensitivity: float, scale: float, privacy: PartPrivacy) -> float:
    """Return sensitivity / scale, or the stated epsilon if only rounding differs."""
    exact = sensitivity / scale
    return privacy.epsilon if math.isclose(exact, privacy.epsilon, rel_tol=1e-12) else exact


def _density_norm(privacy: PartPrivacy) -> float:
    pairs = privacy.frequencies * privacy.members
    if privacy.setting == "gaussian":
        return math.sqrt(pairs)
    points = privacy.keyphrases if privacy.setting == "paper" else 0.5
    return math.sqrt(2) * 2 * pairs * points


def _rounding(privacy: PartPrivacy) -> float:
    numbers = privacy.width
    return (math.sqrt(numbers) if privacy.setting == "gaussian" else numbers) / (2 * FEATURE_STEPS)


def _printed_sensitivity(privacy: PartPrivacy) -> float:
    """Return the sensitivity behind the printed scales.

    S for the vocabulary, 2 sqrt(2) I for the density. The density's sensitivity is the literature's for exchanging one
    point; members share epsilon equally.
    """
    if privacy.part == "vocabulary":
        return float(privacy.terms)
    return 2 * math.sqrt(2) * 2 * privacy.frequencies * privacy.members


def _reason(privacy: PartPrivacy) -> str:
    norm = "L2" if privacy.setting == "gaussian" else "L1"
    if privacy.part == "vocabulary":
        what = f"one document adds 1 to at most {privacy.terms} terms"
    elif privacy.setting == "paper":
        what = f"one document adds {privacy.keyphrases} points of {privacy.width} features up to sqrt(2), rounded"
    else:
        what = f"one document adds one average of {privacy.width // 2} pairs (cos, sin), rounded"
    again = "; replacing it moves as much again" if privacy.adjacency == "replace_one" else ""
    return f"{what}: {norm} norm {document_sensitivity(privacy):.6g}{again}"


def _check(privacy: PartPrivacy) -> None:
    need(privacy.part in ("vocabulary", "density"), "part", "vocabulary or density", privacy.part)
    need(privacy.setting in ("gaussian", "pure", "paper"), "setting", "gaussian, pure or paper", privacy.setting)
    need(0 < privacy.epsilon < math.inf, "epsilon", "a positive number", privacy.epsilon)
    need(0 < privacy.delta < 1, "delta", "a number between 0 and 1", privacy.delta)
    need(
        privacy.adjacency in ("add_remove", "replace_one"), "adjacency", "add_remove or replace_one", privacy.adjacency
    )
    for field in ("terms", "keyphrases", "frequencies", "members"):
        value = getattr(privacy, field)
        need(isinstance(value, int) and value >= 1, field, "a whole number from 1", value)
