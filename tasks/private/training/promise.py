"""Noise of a training by DP-SGD: sample rate, sigma and the charge for the ledger.

Abadi et al. 2016. In every step each row is sampled independently with probability q, its gradient is clipped to the L2
norm C, and the sum gets Gaussian noise of sigma * C on every weight. The weights after the last step are released. The
accountant assumes that every step is seen, which covers checkpoints as well.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Final, Literal

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.ledger import Charge
from tasks.accounting.composition import (
    Event,
    dp_sgd_event,
    epsilon_of,
    gaussian_sigma,
    non_private_event,
)

Clipping = Literal["hooks", "ghost"]

MIN_SIGMA, MAX_SIGMA = 0.1, 10_000.0
"""Range of the search for the noise multiplier."""

NEAR: Final = 5e-3
"""Part of epsilon that the search for the noise may leave unused."""

MAX_TRIES: Final = 40
"""Number of tries after which the search gives up."""

SAME_CALIBRATION: Final = 1e-7
"""Relative difference of two calibrations of one training; up to 1e-9 was seen between machines."""

AGREEMENT: Final = 0.03
"""Largest difference of the two accountants, relative and absolute: numeric composition rounds up by that much."""


@dataclass(frozen=True, slots=True)
class Training:
    """The steps of a training; every number is public.

    `declared_rows`: the rounded number of private rows (N), declared and never read from the data. `batch_rows`: rows
    that take part in a step on average. `clip`: largest L2 norm of one row's gradient (C).
    """

    steps: int
    batch_rows: int
    declared_rows: int
    clip: float = 1.0

    @property
    def sample_rate(self) -> float:
        """Probability that a row takes part in a step (q)."""
        return self.batch_rows / self.declared_rows


@dataclass(frozen=True, slots=True)
class TrainingNoise:
    """The noise of a training.

    `noise_multiplier`: in units of the clipping norm, which is the `sensitivity`; as the accountants were asked for.
    `epsilon_stated`: the requested epsilon. `epsilon_exact`: the larger result of two accountants. `epsilon_prv`: the
    result of the second one, None without noise.
    """

    training: Training
    noise_multiplier: float
    epsilon_stated: float
    epsilon_exact: float
    delta: float
    epsilon_prv: float | None = None
    kind: ClassVar[str] = "gaussian"
    calibration: ClassVar[str] = "tight"
    releases: ClassVar[int] = 1

    @property
    def sensitivity(self) -> float:
        """The largest L2 norm of one row's gradient, the clipping norm."""
        return self.training.clip

    @property
    def sigma(self) -> float:
        """Sigma of the noise on a sum of gradients."""
        return self.noise_multiplier * self.training.clip

    @property
    def non_private(self) -> bool:
        """True if the run gave up protection explicitly (epsilon is infinite)."""
        return math.isinf(self.epsilon_stated)

    @property
    def event(self) -> Event:
        """The whole training for the accountant: all planned steps."""
        if self.non_private:
            return non_private_event()
        plan = self.training
        return dp_sgd_event(
            self.noise_multiplier, plan.sample_rate, plan.steps, self.epsilon_exact, self.delta
        )

    @property
    def charge(self) -> Charge:
        """The training as a single ledger charge, with its own delta."""
        plan = self.training
        reason = (
            f"a row's gradient has an L2 norm of at most {plan.clip:g}; it takes part in each of {plan.steps} steps "
            f"with chance {plan.sample_rate:.6g} ({plan.batch_rows} of {plan.declared_rows} declared rows)"
        )
        mechanism = "dp_sgd"
        if self.non_private:
            mechanism = "none"
        return Charge(
            mechanism, self.event, self.sensitivity, reason, self.sigma, "record", "add_remove"
        )


def calibrate_training(training: Training, epsilon: float, delta: float) -> TrainingNoise:
    """Return the least noise that makes all planned steps (epsilon, delta)-DP.

    Adjacency: adding or removing a row. Accounted by privacy loss distributions of the Poisson-sampled Gaussian
    (dp-accounting), which are upper bounds, and checked against the PRV accountant of Opacus; the larger of the two is
    charged. Infinite epsilon: no noise, marked non-private. Raises ConfigError for numbers that promise nothing.
    """
    _check(training, epsilon, delta)
    if epsilon == float("inf"):
        return TrainingNoise(training, 0.0, epsilon, math.inf, delta)
    multiplier = _multiplier(training.sample_rate, training.steps, epsilon, delta)
    first, second = accounted(training.sample_rate, training.steps, multiplier, delta)
    return TrainingNoise(training, multiplier, epsilon, max(first, second), delta, second)


def as_planned(noise: TrainingNoise, events: Iterable[Mapping[str, Any]]) -> TrainingNoise:
    """Return the noise with the numbers of the event among `events` that an earlier calibration gave the same training.

    The last digits of a calibration depend on the processor and its number of threads. With others, the training would
    have another key and another charge, and a run that is resumed elsewhere would pay for it again.
    """
    plan = noise.training
    for event in events:
        if event["type"] != "dp_sgd":
            continue
        if event["steps"] != plan.steps or event["delta"] != noise.delta:
            continue
        now = (plan.sample_rate, noise.noise_multiplier, noise.epsilon_exact)
        then = (event["sample_rate"], event["noise_multiplier"], event["epsilon"])
        pairs = zip(now, then, strict=True)
        if all(math.isclose(*pair, rel_tol=SAME_CALIBRATION) for pair in pairs):
            return replace(
                noise, noise_multiplier=event["noise_multiplier"], epsilon_exact=event["epsilon"]
            )
    return noise


def describe_training(noise: TrainingNoise) -> str:
    """Describe a training in a sentence."""
    plan = noise.training
    how = f"Gaussian noise of {noise.noise_multiplier:.4g} times that norm"
    if noise.non_private:
        how = "no noise"
    return (
        f"{plan.steps} steps of DP-SGD; a row takes part in each with chance {plan.sample_rate:.4g} ({plan.batch_rows} "
        f"of {plan.declared_rows} declared rows on average; that number is public), its gradient is cut to the L2 norm "
        f"{plan.clip:g}, and {how} is added to every weight of the sum"
    )


@lru_cache(maxsize=4096)
def accounted(
    sample_rate: float, steps: int, multiplier: float, delta: float
) -> tuple[float, float]:
    """Return the epsilon of `steps` steps by two independent accountants.

    The first uses loss distributions, the second PRV. Raises ConfigError if they disagree: neither can be trusted then.
    """
    events = []
    # The event's own epsilon is not read here: 1 stands for the number that is looked for.
    if steps:
        events.append(dp_sgd_event(multiplier, sample_rate, steps, 1.0, delta))
    first = epsilon_of(events, delta)
    second = prv_epsilon(sample_rate, steps, multiplier, delta)
    if abs(first - second) > AGREEMENT * (1 + first):
        raise ConfigError(
            f"method.steps: two accountants disagree on the cost of {steps} steps at rate {sample_rate:.4g} "
            f"({first:.4f} and {second:.4f}). Choose fewer steps, a larger delta or a smaller batch."
        )
    return first, second


@lru_cache(maxsize=64)
def prv_epsilon(sample_rate: float, steps: int, multiplier: float, delta: float) -> float:
    """Return an upper bound on epsilon by Opacus' PRV accountant.

    Gopi, Lee and Wutschitz 2021.
    """
    if steps == 0:
        return 0.0
    import warnings

    require_opacus()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from opacus.accountants import PRVAccountant

        accountant: Any = PRVAccountant()
        accountant.history = [(multiplier, sample_rate, steps)]
        try:
            return float(accountant.get_epsilon(delta))
        except (RuntimeError, ValueError) as error:
            raise ConfigError(
                f"privacy.epsilon: so little noise (multiplier {multiplier:.3g}) cannot be accounted for. "
                "Write a smaller epsilon."
            ) from error


def require_opacus() -> None:
    """Raise MissingPackageError with the install command if Opacus is missing."""
    import importlib.util

    from connectors.interfaces.errors import MissingPackageError

    if importlib.util.find_spec("opacus") is None:
        raise MissingPackageError("opacus", "dpsgd")


# --- inside
@lru_cache(maxsize=64)
def _multiplier(sample_rate: float, steps: int, epsilon: float, delta: float) -> float:
    """Return a noise multiplier whose steps cost `epsilon` or slightly less.

    Both accountants must agree. Starts from the central limit of subsampled Gaussians (Bu, Dong, Long and Su 2020) and
    follows the slope between the last two tries. Epsilon falls as the noise grows, hence few tries are needed.
    """
    mu = 1 / gaussian_sigma(epsilon, delta)
    multiplier = 1 / math.sqrt(math.log1p(mu**2 / (steps * sample_rate**2)))
    slope = -1.0
    previous = (0.0, 0.0)
    for _ in range(MAX_TRIES):
        cost = prv_epsilon(sample_rate, steps, multiplier, delta)
        if (
            epsilon * (1 - NEAR) <= cost <= epsilon
            and max(accounted(sample_rate, steps, multiplier, delta)) <= epsilon
        ):
            return multiplier
        point = (math.log(multiplier), math.log(max(cost, 1e-9)))
        # Two tries that are close together can give any slope, so it is limited.
        if previous != (0.0, 0.0) and point[0] != previous[0]:
            slope = min(-0.3, max(-3.0, (point[1] - previous[1]) / (point[0] - previous[0])))
        previous = point
        # The target is the middle of the accepted range, not its end.
        multiplier *= math.exp((math.log(epsilon * (1 - NEAR / 2)) - point[1]) / slope)
        if not MIN_SIGMA <= multiplier <= MAX_SIGMA:
            break
    raise ConfigError(
        f"privacy.epsilon: {epsilon:g} is out of reach in {steps} steps at rate {sample_rate:.4g}; no noise multiplier "
        f"from {MIN_SIGMA:g} to {MAX_SIGMA:g} costs that much. Change method.steps or method.batch_rows."
    )


def _check(training: Training, epsilon: float, delta: float) -> None:
    rows = training.declared_rows
    batch = training.batch_rows
    if training.steps < 1:
        raise ConfigError(
            f"method.steps: {training.steps} is not allowed. Write a whole number from 1."
        )
    if not 1 <= batch <= rows:
        raise ConfigError(
            f"method.batch_rows: {batch} is not allowed. Write 1 to method.declared_rows ({rows})."
        )
    if not (training.clip > 0 and epsilon > 0):
        raise ConfigError(
            "privacy.epsilon: it or the clipping norm is not above 0. Write positive numbers."
        )
    if not 0 < delta < 1 / rows:
        raise ConfigError(
            f"privacy.delta: {delta:g} is not below 1/method.declared_rows ({1 / rows:g}); a promise that fails that "
            f"often may leak one row in {rows}. Write a smaller delta."
        )
