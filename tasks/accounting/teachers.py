"""Noise of label counts and teachers' answers: sensitivity, scale, ledger charge.

Song et al. 2024, "LLM-based Privacy Data Augmentation Guided by Knowledge Distillation with a Distribution Tutor".
Their proof covers one answer; here all answers of a run are one release, with the sensitivity of all of them together:

- ``labels``: number of private rows of each class (the tutor, Eq. 3, noise on the counts)
- ``answers``: the teachers' probabilities, summed, for every query (Eq. 1)
- ``checks``: the teachers' confidence in each query, where only confident ones are answered (Papernot et al. 2018,
  Confident-GNMax, Algorithm 1); nothing here depends on the true confidence
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

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
    non_private_event,
)
from tasks.accounting.sensitivity import need

Part = Literal["labels", "checks", "answers"]
Kind = Literal["gaussian", "laplace", "none"]

PARTS: Final[tuple[Part, ...]] = ("labels", "checks", "answers")
"""The releases in order; their names identify them within a run."""

COUNT_STEPS: Final = 128
"""Integer steps of one row in a count, which makes the grid of the noise free."""

ANSWER_STEPS: Final = 1024
"""Integer steps of a probability: each teacher's probabilities are multiples of 2^-10 that add up to 1."""

PAPER_SIGMA: Final = 6.0
"""The paper's noise on a sum of the teachers' probabilities, for any number of queries."""

LEAST_SCALE_INT: Final = 16.0
"""Below this the noise has only a few integer values and protects nobody."""


@dataclass(frozen=True, slots=True)
class TeacherPrivacy:
    """The privacy promise of one release for a row; every number is public.

    `numbers`: classes of the counts, or queries. `kind`: gaussian; laplace (delta 0); none: NOT PRIVATE.
    """

    part: Part
    epsilon: float
    delta: float
    numbers: int
    kind: Kind = "gaussian"
    adjacency: Adjacency = "add_remove"


@dataclass(frozen=True, slots=True)
class PartNoise:
    """The noise of one release.

    `scale`: sigma, or the b of Laplace noise, in rows or probabilities. `steps`: integer steps of one row or
    probability. `sensitivity`: of the whole release, L2, or L1 for Laplace noise. `epsilon_stated`: the requested
    epsilon. `epsilon_exact`: the exact cost at `delta`.
    """

    privacy: TeacherPrivacy
    scale: float
    steps: int
    sensitivity: float
    epsilon_stated: float
    epsilon_exact: float
    delta: float

    @property
    def scale_int(self) -> float:
        """The scale in integer steps."""
        return self.scale * self.steps

    @property
    def claim(self) -> dict[str, Any]:
        """Noise and promise as an audit states them."""
        return {
            "calibration": "tight",
            "protects": "record",
            "noise": self.privacy.kind,
            "noise_scale": self.scale,
            "releases": 1,
        }

    @property
    def event(self) -> Event:
        """The release as an accounting event."""
        if self.privacy.kind == "none":
            return non_private_event()
        if self.privacy.kind == "laplace":
            return discrete_laplace_event(self.sensitivity / self.scale)
        return discrete_gaussian_event(self.scale / self.sensitivity, self.scale_int)

    @property
    def charge(self) -> Charge:
        """The release as a ledger charge."""
        kind = self.privacy.kind
        return Charge(
            mechanism="none" if kind == "none" else f"discrete_{kind}",
            event=self.event,
            sensitivity=self.sensitivity,
            sensitivity_reason=_reason(self.privacy, self.sensitivity),
            noise_scale=self.scale,
            protects="record",
            adjacency=self.privacy.adjacency,
        )


def part_sensitivity(privacy: TeacherPrivacy) -> float:
    """Return by how much one row moves a whole release.

    The L2 norm, or the L1 norm for Laplace noise.

    Labels. A row counts for one class: 1. Replacing it by one of another class moves two counts by 1: sqrt(2), or 2 in
    L1.

    Answers. Claim: adding or removing a row changes one teacher. A row's shard is a keyed hash of its own text, rows
    with equal texts count once, and a teacher is a function of its shard, of public texts and of public seeds. Hence
    the other teachers' answers are unchanged bit for bit, and one teacher's probabilities (p, 1 - p) become (q, 1 - q)
    with any p and q in [0, 1]: the sum moves by (q - p, p - q), of L2 norm sqrt(2) |q - p| <= sqrt(2) and L1 norm at
    most 2. It may do so in each of n queries: sqrt(2 n), or 2 n. (Averages over M teachers move by an M-th of this, and
    their noise scales equally.) Probabilities are rounded to integer steps before they are summed, p first and 1 - p
    from it: the bound holds in integers without slack. Replacing a row changes the shard that it leaves and the shard
    that the new row enters, two teachers that may both move the same way: twice as much.

    Checks. The highest of the summed probabilities moves by at most as much as each of them does, |q - p| <= 1, in each
    of n queries: sqrt(n).
    """
    laplace = privacy.kind == "laplace"
    exchanged = privacy.adjacency == "replace_one"
    if privacy.part == "labels":
        return (2.0 if laplace else math.sqrt(2)) if exchanged else 1.0
    norm = 1.0 if privacy.part == "checks" else 2.0 if laplace else math.sqrt(2)
    queries = privacy.numbers if laplace else math.sqrt(privacy.numbers)
    return norm * queries * (2.0 if exchanged else 1.0)


def calibrate_part(privacy: TeacherPrivacy) -> PartNoise:
    """Return the least noise for the promise of one release.

    Kind none: no noise, marked non-private. Raises ConfigError for numbers that promise nothing.
    """
    _check(privacy)
    sensitivity = part_sensitivity(privacy)
    steps = COUNT_STEPS if privacy.part == "labels" else ANSWER_STEPS
    if privacy.kind == "none":
        return PartNoise(privacy, 0.0, steps, sensitivity, math.inf, math.inf, privacy.delta)
    if privacy.kind == "laplace":
        scale = sensitivity / privacy.epsilon
        _require_grid(scale * steps, privacy)
        return PartNoise(privacy, scale, steps, sensitivity, privacy.epsilon, privacy.epsilon, privacy.delta)
    least = gaussian_sigma(privacy.epsilon, privacy.delta, sensitivity)
    widening = 1e-6
    while True:
        noise = part_noise(privacy, least * (1 + widening))
        if noise.epsilon_exact <= privacy.epsilon:
            return noise
        widening *= 2


def part_noise(privacy: TeacherPrivacy, sigma: float) -> PartNoise:
    """Return Gaussian noise of the given sigma with its exact cost.

    The cost may exceed the stated epsilon, as with the paper's noise.
    """
    sensitivity = part_sensitivity(privacy)
    steps = COUNT_STEPS if privacy.part == "labels" else ANSWER_STEPS
    _require_grid(sigma * steps, privacy)
    exact = epsilon_of([discrete_gaussian_event(sigma / sensitivity, sigma * steps)], privacy.delta)
    return PartNoise(privacy, sigma, steps, sensitivity, privacy.epsilon, exact, privacy.delta)


def paper_part(privacy: TeacherPrivacy) -> PartNoise:
    """Return the noise that the paper prints, and its exact cost.

    Answers: sigma 6 for any number of queries. Labels: made for a distance of sqrt(2) between counts, for both
    adjacencies. The paper has no checks.
    """
    if privacy.part == "answers":
        return part_noise(privacy, PAPER_SIGMA)
    return part_noise(privacy, gaussian_sigma(privacy.epsilon, privacy.delta, math.sqrt(2)))


def affordable_answers(sigma: float, epsilon: float, delta: float) -> int:
    """Return how many answers with noise `sigma` fit into a budget.

    Adjacency: adding or removing one row.
    """
    return math.floor((mu_of(epsilon, delta) * sigma) ** 2 / 2)


def remaining_epsilon(epsilon: float, delta: float, spent: Sequence[float], pure: bool = False) -> float:
    """Return the epsilon that remains after releases of `spent` at the same delta.

    mu^2 of Gaussian noise is additive; epsilon itself if any release is pure DP (`pure`). Raises ConfigError when
    nothing is left.
    """
    if math.isinf(epsilon):
        return epsilon
    rest = epsilon - sum(spent)
    if pure:
        need(rest > 0, "epsilon", f"more than {sum(spent):g}, which its other releases take", epsilon)
        return rest
    total = mu_of(epsilon, delta) ** 2 - sum(mu_of(part, delta) ** 2 for part in spent)
    need(total > 0, "epsilon", f"more than {', '.join(f'{part:g}' for part in spent)} of its other releases", epsilon)
    return gaussian_epsilon(math.sqrt(total), delta) if spent else epsilon


def epsilon_share(epsilon: float, delta: float, share: float) -> float:
    """Return the epsilon that is the given share of the budget, counted in mu^2."""
    return epsilon if math.isinf(epsilon) else gaussian_epsilon(mu_of(epsilon, delta) * math.sqrt(share), delta)


def survival(teachers: int, noise: PartNoise) -> float:
    """Return the probability that a unanimous answer survives the noise.

    Depends on public numbers only. The difference of two noisy sums has twice their variance: Phi(M / (sqrt(2) sigma)).
    """
    if noise.scale == 0:
        return 1.0
    if noise.privacy.kind == "gaussian":
        return 0.5 * math.erfc(-teachers / (2 * noise.scale))
    distance = teachers / noise.scale  # of two Laplace draws: 1 - e^-d (2 + d) / 4
    return 1 - math.exp(-distance) * (2 + distance) / 4


# --- inside
def _require_grid(scale_int: float, privacy: TeacherPrivacy) -> None:
    need(scale_int >= LEAST_SCALE_INT, "epsilon", "a smaller number", privacy.epsilon)


def _reason(privacy: TeacherPrivacy, sensitivity: float) -> str:
    norm = "L1" if privacy.kind == "laplace" else "L2"
    if privacy.part == "labels":
        what = "one row counts for one class"
    elif privacy.part == "checks":
        what = f"one row changes one teacher, and so how sure all are of each of {privacy.numbers} queries by at most 1"
    else:
        what = f"one row changes one teacher, whose two probabilities move in each of {privacy.numbers} queries"
    again = "; replacing it changes two" if privacy.adjacency == "replace_one" else ""
    return f"{what}: {norm} norm {sensitivity:.6g}{again}"


def _check(privacy: TeacherPrivacy) -> None:
    need(privacy.part in PARTS, "part", "labels, checks or answers", privacy.part)
    need(privacy.kind in ("gaussian", "laplace", "none"), "kind", "gaussian, laplace or none", privacy.kind)
    finite = 0 < privacy.epsilon < math.inf or privacy.kind == "none"
    need(finite, "epsilon", "a positive number", privacy.epsilon)
    need(0 < privacy.delta < 1, "delta", "a number between 0 and 1", privacy.delta)
    need(privacy.numbers >= 1, "queries", "a whole number from 1", privacy.numbers)
    valid = privacy.adjacency in ("add_remove", "replace_one")
    need(valid, "adjacency", "add_remove or replace_one", privacy.adjacency)
