"""How much noise a training by DP-SGD needs: sample rate, sigma, and the charge that tells the ledger.

Abadi et al. 2016. In every step each row takes part by a draw of its own with chance q, its gradient is cut to the L2
norm C, and the sum gets Gaussian noise of sigma * C on every weight. What is released are the weights after the last
step; the accountant assumes that every step is seen, so that checkpoints are covered as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, Literal

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.ledger import Charge
from tasks.accounting.composition import Event, dp_sgd_event, epsilon_of, gaussian_sigma, non_private_event
from tasks.accounting.sensitivity import VotePrivacy
from tasks.accounting.votes import Noise

Clipping = Literal["hooks", "ghost"]

LEAST_SIGMA, MOST_SIGMA = 0.1, 10_000.0
"""Between these the noise multiplier is looked for."""

NEAR: Final = 5e-3
"""Part of epsilon that the search for the noise may leave unused."""

MOST_LOOKS: Final = 40
"""Looks after which the search gives up."""

AGREEMENT: Final = 0.03
"""How far two accountants may lie apart, relative and absolute: numeric composition rounds upwards by that much."""


@dataclass(frozen=True, slots=True)
class Training:
    """The steps of a training; every number is public.

    `declared_rows`: the rounded number of private rows (N), declared and never read off the data. `batch_rows`: rows
    that take part in a step on average. `clip`: largest L2 norm of one row's gradient (C).
    """

    steps: int
    batch_rows: int
    declared_rows: int
    clip: float = 1.0

    @property
    def sample_rate(self) -> float:
        """The chance of each row to take part in a step (q)."""
        return self.batch_rows / self.declared_rows


@dataclass(frozen=True, slots=True)
class TrainingNoise(Noise):
    """The noise of a training: `sigma` in units of a gradient, `sensitivity` the norm that gradients are cut to.

    `epsilon_prv` is what a second accountant finds, None where there is no noise. `own`: epsilon and delta of the
    training alone, where the run releases something beside it.
    """

    training: Training | None = None
    epsilon_prv: float | None = None
    own: tuple[float, float] | None = None

    def with_own_delta(self, delta: float) -> TrainingNoise:
        """Return the noise of a training with a delta of its own next to other releases."""
        return self if self.non_private else replace(self, own=(self.epsilon_exact, delta))

    @property
    def event(self) -> Event:
        """The whole training as the accountant reads it: all planned steps."""
        if self.non_private or self.training is None:
            return non_private_event()
        plan = self.training
        epsilon, delta = self.own or (self.epsilon_exact, self.delta)
        return dp_sgd_event(self.noise_multiplier, plan.sample_rate, plan.steps, epsilon, delta)

    @property
    def charge(self) -> Charge:
        """The training as the ledger writes it: one release."""
        return training_charge(self)


def calibrate_training(training: Training, epsilon: float, delta: float) -> TrainingNoise:
    """Return the least noise with which all planned steps together are (epsilon, delta)-DP for one row more or less.

    Accounted by privacy loss distributions of the Poisson-sampled Gaussian (dp-accounting), which bound from above,
    and checked against the PRV accountant of Opacus; the larger of the two is what is charged. Infinite epsilon: no
    noise, marked non-private. Raises ConfigError for numbers that promise nothing.
    """
    _check(training, epsilon, delta)
    if epsilon == float("inf"):
        return _noise(training, (epsilon, delta), 0.0, float("inf"), None)
    multiplier = _multiplier(training.sample_rate, training.steps, epsilon, delta)
    first, second = accounted(training.sample_rate, training.steps, multiplier, delta)
    return _noise(training, (epsilon, delta), multiplier, max(first, second), second)


def training_charge(noise: TrainingNoise) -> Charge:
    """Return a training as the ledger writes it, once, with a delta of its own."""
    plan = noise.training
    assert plan is not None
    reason = f"a row's gradient has an L2 norm of at most {plan.clip:g}; it takes part in each of {plan.steps} steps "
    reason += f"with chance {plan.sample_rate:.6g} ({plan.batch_rows} of {plan.declared_rows} declared rows)"
    return Charge(
        mechanism="none" if noise.non_private else "dp_sgd",
        event=noise.event,
        sensitivity=noise.sensitivity,
        sensitivity_reason=reason,
        noise_scale=noise.sigma,
        protects="record",
        adjacency="add_remove",
    )


def training_in_words(noise: Noise) -> str:
    """Return what a training is, as a sentence; empty for the noise of votes."""
    if not isinstance(noise, TrainingNoise) or noise.training is None:
        return ""
    plan = noise.training
    how = "no noise" if noise.non_private else f"Gaussian noise of {noise.noise_multiplier:.4g} times that norm"
    return (
        f"{plan.steps} steps of DP-SGD; a row takes part in each with chance {plan.sample_rate:.4g} ({plan.batch_rows} "
        f"of {plan.declared_rows} declared rows on average; that number is public), its gradient is cut to the L2 norm "
        f"{plan.clip:g}, and {how} is added to every weight of the sum"
    )


def accounted(sample_rate: float, steps: int, multiplier: float, delta: float) -> tuple[float, float]:
    """Return the epsilon of so many steps by two accountants that share no code: loss distributions, and PRV.

    Raises ConfigError where they do not agree: then neither is believed.
    """
    first, second = (
        steps_epsilon(sample_rate, steps, multiplier, delta),
        prv_epsilon(sample_rate, steps, multiplier, delta),
    )
    if abs(first - second) > AGREEMENT * (1 + first):
        raise ConfigError(
            f"method.steps: two accountants do not agree on the cost of {steps} steps at rate {sample_rate:.4g} "
            f"({first:.4f} and {second:.4f}). Choose fewer steps, a larger delta or a smaller batch."
        )
    return first, second


@lru_cache(maxsize=4096)
def steps_epsilon(sample_rate: float, steps: int, multiplier: float, delta: float) -> float:
    """Return the epsilon of so many steps by privacy loss distributions; 0 for no step."""
    if steps == 0:
        return 0.0
    return epsilon_of([dp_sgd_event(multiplier, sample_rate, steps, 1.0, delta)], delta)


@lru_cache(maxsize=64)
def prv_epsilon(sample_rate: float, steps: int, multiplier: float, delta: float) -> float:
    """Return the epsilon of so many steps by Opacus' PRV accountant (Gopi, Lee and Wutschitz 2021), from above."""
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
                f"privacy.epsilon: so little noise ({multiplier:.3g}) cannot be accounted for."
            ) from error


def require_opacus() -> None:
    """Raise MissingPackageError, whose words are the install command, where Opacus is not installed."""
    import importlib.util

    from connectors.interfaces.errors import MissingPackageError

    if importlib.util.find_spec("opacus") is None:
        raise MissingPackageError("opacus", "dpsgd")


# --- inside
@lru_cache(maxsize=64)
def _multiplier(sample_rate: float, steps: int, epsilon: float, delta: float) -> float:
    """Return a noise multiplier whose steps cost at most `epsilon`, and hardly less, by both accountants.

    Starts from the central limit of subsampled Gaussians (Bu, Dong, Long and Su 2020) and walks by the slope between
    the last two looks; epsilon falls as the noise grows, so that few looks are needed.
    """
    mu = 1 / gaussian_sigma(epsilon, delta)
    look = 1 / math.sqrt(math.log1p(mu**2 / (steps * sample_rate**2)))
    slope, before = -1.0, (0.0, 0.0)
    for _ in range(MOST_LOOKS):
        found = prv_epsilon(sample_rate, steps, look, delta)
        if epsilon * (1 - NEAR) <= found <= epsilon and max(accounted(sample_rate, steps, look, delta)) <= epsilon:
            return look
        here = (math.log(look), math.log(max(found, 1e-9)))
        if before != (0.0, 0.0) and here[0] != before[0]:
            slope = min(-0.3, max(-3.0, (here[1] - before[1]) / (here[0] - before[0])))
        before = here
        look *= math.exp((math.log(epsilon * (1 - NEAR / 2)) - here[1]) / slope)
        if not LEAST_SIGMA <= look <= MOST_SIGMA:
            break
    raise ConfigError(
        f"privacy.epsilon {epsilon:g} cannot be had in {steps} steps at rate {sample_rate:.4g}: no noise multiplier "
        f"from {LEAST_SIGMA:g} to {MOST_SIGMA:g} costs that much. Change method.steps or method.batch_rows."
    )


def _noise(
    training: Training, promise: tuple[float, float], multiplier: float, exact: float, second: float | None
) -> TrainingNoise:
    epsilon, delta = promise
    return TrainingNoise(
        privacy=VotePrivacy(epsilon, delta, releases=1, votes=1, sides=1),
        sigma=multiplier * training.clip,
        sigma_int=0.0,
        scale=1,
        sensitivity=training.clip,
        noise_multiplier=multiplier,
        releases=1,
        epsilon_stated=epsilon,
        epsilon_exact=exact,
        delta=delta,
        calibration="tight",
        training=training,
        epsilon_prv=second,
    )


def _check(training: Training, epsilon: float, delta: float) -> None:
    rows, batch = training.declared_rows, training.batch_rows
    if training.steps < 1:
        raise ConfigError(f"method.steps is {training.steps}; write a whole number from 1.")
    if not 1 <= batch <= rows:
        raise ConfigError(f"method.batch_rows is {batch}; write a number from 1 to method.declared_rows ({rows}).")
    if not (training.clip > 0 and epsilon > 0):
        raise ConfigError("method.clip and privacy.epsilon must be above 0.")
    if not 0 < delta < 1 / rows:
        raise ConfigError(
            f"privacy.delta {delta:g} is not below 1/method.declared_rows ({1 / rows:g}): a promise that may fail that "
            f"often lets one row in {rows} leak. Write a smaller delta."
        )
