"""Privacy arithmetic: the joint cost of a list of releases.

An event is a plain JSON object that describes what one release did to the data. Events are stored in `Charge.event`
and in the ledger, and every function here reads lists of them. Types and their fields:

- ``discrete_gaussian``: ``noise_multiplier`` (noise sigma / L2 sensitivity), ``sigma_int`` (sigma in integer steps)
- ``gaussian`` (of another package): ``noise_multiplier``
- ``laplace`` (of another package): ``epsilon`` (L1 sensitivity / scale)
- ``discrete_laplace``: ``epsilon`` (L1 sensitivity / scale, in integer steps)
- ``dp_sgd``: ``noise_multiplier``, ``sample_rate``, ``steps`` of one training with Poisson sampling, and the pair
  ``epsilon``, ``delta`` that was accounted for it when it was planned
- ``non_private``: no field; the data was used without noise

Each event may have a ``count`` (default 1), the number of independent releases of that kind.

All decisions use one unit, the squared mu of Gaussian differential privacy. Training by DP-SGD is not a Gaussian
release and has no mu: its (epsilon, delta) is counted separately, with its own delta, and both are added up. Either sum
has a theorem for releases that are chosen after earlier results. A choice between the two has none, so the ledger
divides a cap before the first result and checks each part by itself (`connectors/ledger/cap.py`).
"""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal

from connectors.interfaces.errors import LedgerError

Event = dict[str, Any]
"""One release; plain JSON values only."""

StoredEvent = Mapping[str, Any]
"""An event as a ledger returns it."""

Adjacency = Literal["add_remove", "replace_one"]

DELTA_ROUNDING: Final = 1e-9
"""Remainders of delta below this part of it are rounding errors of a sum."""

PURE: Final = ("laplace", "discrete_laplace")
"""Events that are epsilon-DP on their own, with delta 0."""

GRID: Final = 1e-4
"""Spacing of the grid on which losses are composed numerically; the default of dp_accounting."""

GRID_SAFETY: Final = 4.0
"""Safety factor on the leading term of the integer grid's effect; see `_grid_slack`."""


# --- events
def discrete_gaussian_event(noise_multiplier: float, sigma_int: float, count: int = 1) -> Event:
    """Describe `count` releases with integer Gaussian noise.

    `sigma_int` is the parameter of the noise on every coordinate.
    """
    numbers = {"noise_multiplier": float(noise_multiplier), "sigma_int": float(sigma_int)}
    return {"type": "discrete_gaussian", **numbers, "count": count}


def dp_sgd_event(
    noise_multiplier: float, sample_rate: float, steps: int, epsilon: float, delta: float
) -> Event:
    """Describe one training by DP-SGD.

    It consists of `steps` noisy sums over rows that are sampled with probability `sample_rate`.
    """
    numbers = {
        "noise_multiplier": float(noise_multiplier),
        "sample_rate": float(sample_rate),
        "steps": steps,
    }
    return {
        "type": "dp_sgd",
        **numbers,
        "epsilon": float(epsilon),
        "delta": float(delta),
        "count": 1,
    }


def discrete_laplace_event(epsilon: float, count: int = 1) -> Event:
    """Describe `count` releases with integer Laplace noise on every coordinate.

    Each is `epsilon`-DP on its own and counted as the worst such mechanism: the distribution of its loss depends on the
    grid and on how a change is spread over coordinates.
    """
    return {"type": "discrete_laplace", "epsilon": float(epsilon), "count": count}


def non_private_event() -> Event:
    """Describe a use of the data without noise: no budget covers it."""
    return {"type": "non_private", "count": 1}


# --- what they cost
def epsilon_of(events: Sequence[StoredEvent], delta: float) -> float:
    """Return the joint epsilon at `delta` of a plan that was fixed beforehand.

    0 without events, infinite for a non-private one. Only Gaussians: the exact closed form (Balle and Wang 2018,
    Theorem 8, with mu^2 added up as in Dong, Roth and Su 2022, Corollary 3.3) plus the grid's slack. Mixed events and
    training: numeric composition of privacy loss distributions, rounded upwards. Raises LedgerError for an unknown
    event type.
    """
    own, shared = _split_trainings(events)
    mu_squared = sum(mu_squared_of(event) for event in shared)
    _check_delta(delta)
    if mu_squared == math.inf or (mu_squared == 0.0 and not own):
        return mu_squared
    # The closed form holds for Gaussians only; anything else needs the distribution of the loss.
    if own or any(event["type"] in PURE and _count(event) for event in shared):
        epsilon = _epsilon_by_loss_distribution(events, delta)
    else:
        epsilon = gaussian_epsilon(math.sqrt(mu_squared), delta)
    if mu_squared == 0.0:
        return epsilon
    return epsilon + _grid_slack(math.sqrt(mu_squared), epsilon, _coarsest_step(shared))


def filter_epsilon(events: Sequence[StoredEvent], delta: float) -> float:
    """Return the epsilon that the cap check compares with the cap.

    Valid for adaptively chosen releases without trainings, and for trainings alone; a cap for both is divided in
    advance (`connectors/ledger/cap.py`). Stopping before the sum of mu^2 exceeds a fixed bound is free under full
    adaptivity (Smith and Thakurta 2022; Koskela, Tobaben and Honkela 2023). Pure epsilon-DP events enter with the mu
    whose trade-off curve is below theirs everywhere, which puts them in the same unit. Each training adds its own
    epsilon and takes its own delta out of `delta`; infinite where too little delta is left. Has the type
    `connectors.interfaces.ledger.Compose`.
    """
    own, shared = _split_trainings(events)
    mu_squared = sum(mu_squared_of(event) for event in shared)
    _check_delta(delta)
    added = sum(_count(event) * _positive(event, "epsilon") for event in own)
    rest = delta - sum(_count(event) * _positive(event, "delta") for event in own)
    # Trainings alone may take all of delta; Gaussian noise has no finite epsilon without a remainder.
    if rest < -DELTA_ROUNDING * delta or (mu_squared > 0 and rest <= DELTA_ROUNDING * delta):
        return math.inf
    if mu_squared in (0.0, math.inf):
        return mu_squared + added
    epsilon = gaussian_epsilon(math.sqrt(mu_squared), rest)
    return added + epsilon + _grid_slack(math.sqrt(mu_squared), epsilon, _coarsest_step(shared))


def mu_squared_of(event: StoredEvent) -> float:
    """Return mu^2 of one event, including its `count`; infinite if non-private.

    mu is the parameter of Gaussian differential privacy.
    """
    kind = event.get("type")
    if kind == "non_private":
        return math.inf
    if kind in ("gaussian", "discrete_gaussian"):
        return _count(event) / _positive(event, "noise_multiplier") ** 2
    if kind in PURE:
        return _count(event) * mu_of_pure(_positive(event, "epsilon")) ** 2
    raise LedgerError(
        f"Privacy event: type {kind!r} is unknown. Nothing may be released on top of it. Use the version that wrote it."
    )


def second_opinion(events: Sequence[StoredEvent], delta: float) -> float:
    """Return epsilon by numeric composition of privacy loss distributions.

    An independent check of `epsilon_of` for `wasp budget verify`: it must not exceed the ledger's total.
    """
    own, shared = _split_trainings(events)
    mu_squared = sum(mu_squared_of(event) for event in shared)
    _check_delta(delta)
    if mu_squared == math.inf or (mu_squared == 0.0 and not own):
        return mu_squared
    return _epsilon_by_loss_distribution(events, delta)


# --- conversions
# As slow as `gaussian_sigma`; a party computes the noise of a plan again in every round.
@lru_cache(maxsize=4096)
def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon of a mu-GDP release at `delta`.

    `mu` > 0; exact to 1e-12. The equation, brackets and root search of `dp_accounting.get_epsilon_gaussian`, which
    calls scipy.stats and takes 20 times as long: `wasp budget verify` needs a value for each release of a ledger.
    """
    from scipy.optimize import brentq

    log_delta = math.log(delta)
    lower = 0.0
    upper = 1.0
    if _log_delta(mu, lower) < log_delta:
        return 0.0
    while _log_delta(mu, upper) > log_delta:
        lower, upper = upper, 10 * upper
    return float(
        brentq(lambda epsilon: _log_delta(mu, epsilon) - log_delta, lower, upper, xtol=1e-12)
    )


def _log_delta(mu: float, epsilon: float) -> float:
    """Return the logarithm of the delta of a mu-GDP release at `epsilon` (Balle and Wang 2018, Theorem 8)."""
    from scipy.special import log_ndtr

    # In logarithms: for a large epsilon, e^epsilon overflows and the normal tails underflow.
    first = float(log_ndtr(mu / 2 - epsilon / mu))
    second = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    # Rounding can make the terms equal, or turn them round: delta is then too small for a float.
    return first + math.log1p(-math.exp(second - first)) if second < first else -math.inf


def mu_of(epsilon: float, delta: float) -> float:
    """Return the mu of the Gaussian release that is exactly (epsilon, delta)-DP."""
    return 1 / gaussian_sigma(epsilon, delta)


# A search takes about a millisecond, and plans repeat it often.
@lru_cache(maxsize=4096)
def gaussian_sigma(
    epsilon: float, delta: float, sensitivity: float = 1.0, releases: int = 1
) -> float:
    """Return the smallest sigma that makes the releases jointly (epsilon, delta)-DP."""
    import numpy as np
    from dp_accounting import get_sigma_gaussian

    # The library takes log(0) = -inf for a large epsilon, which is right.
    with np.errstate(divide="ignore"):
        return float(get_sigma_gaussian(epsilon, delta)) * sensitivity * math.sqrt(releases)


def mu_of_pure(epsilon: float) -> float:
    """Return the mu such that every `epsilon`-DP mechanism is mu-GDP.

    The trade-off curve of pure DP consists of two straight lines that meet where both errors are 1/(1 + e^epsilon). A
    convex Gaussian curve through that point is below both.
    """
    from scipy.special import log_expit, ndtri_exp

    # By logarithms: 1 / (1 + e^epsilon) is zero in a float from epsilon 746 on, and mu would be infinite.
    return float(-2 * ndtri_exp(log_expit(-epsilon)))


# --- inside
def _epsilon_by_loss_distribution(events: Sequence[StoredEvent], delta: float) -> float:
    from dp_accounting.pld import privacy_loss_distribution as losses

    mu_squared = 0.0
    counts: Counter[str] = Counter()
    for event in events:
        if event["type"] in ("gaussian", "discrete_gaussian"):
            # Gaussians compose exactly, into one distribution.
            mu_squared += mu_squared_of(event)
        else:
            counts[json.dumps({**event, "count": 1}, sort_keys=True)] += _count(event)
    # A grid as wide as the losses of little noise would say more about the grid than about the noise.
    grid = GRID if counts else min(GRID, math.sqrt(mu_squared) / 1000)
    total = losses.identity(value_discretization_interval=grid)
    for event_json, count in counts.items():
        # Equal events compose together, in the logarithm of their number.
        if count:
            total = total.compose(_loss_of(json.loads(event_json) | {"count": count}))
    if mu_squared:
        gaussian = losses.from_gaussian_mechanism(
            1 / math.sqrt(mu_squared), value_discretization_interval=grid
        )
        total = total.compose(gaussian)
    return float(total.get_epsilon_for_delta(delta))


def _loss_of(event: StoredEvent) -> Any:
    """Return the privacy loss distribution of one event, rounded upwards."""
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as losses

    count = _count(event)
    if event["type"] == "laplace":
        return losses.from_laplace_mechanism(1 / _positive(event, "epsilon")).self_compose(count)
    if event["type"] == "discrete_laplace":
        # Randomised response with this epsilon: no epsilon-DP mechanism composes worse.
        worst = common.DifferentialPrivacyParameters(_positive(event, "epsilon"), 0.0)
        return losses.from_privacy_parameters(worst).self_compose(count)
    if event["type"] == "dp_sgd":
        sampled = losses.from_gaussian_mechanism(
            _positive(event, "noise_multiplier"), sampling_prob=_positive(event, "sample_rate")
        )
        return sampled.self_compose(int(_positive(event, "steps")) * count)
    raise LedgerError(f"Privacy event: type {event['type']!r} has no loss distribution of its own.")


def _split_trainings(
    events: Sequence[StoredEvent],
) -> tuple[list[StoredEvent], list[StoredEvent]]:
    """Split events into trainings, each with its own delta, and all others."""
    own = [event for event in events if event.get("type") == "dp_sgd" and _count(event)]
    return own, [event for event in events if event.get("type") != "dp_sgd"]


def _coarsest_step(events: Sequence[StoredEvent]) -> float:
    """Return the widest spacing of the privacy loss of one integer release.

    0 without integer releases. The loss moves in steps of g/sigma_int^2, where g is the greatest common divisor of the
    shift's integers. g is at most the L2 sensitivity. Without `sigma_int` the coarsest grid is assumed: unscaled counts
    of sensitivity 1.
    """
    steps = [0.0]
    for event in events:
        if event["type"] == "discrete_gaussian" and _count(event):
            multiplier = _positive(event, "noise_multiplier")
            sigma = _positive(event, "sigma_int") if "sigma_int" in event else multiplier
            if sigma < 1:
                raise LedgerError(
                    f"Privacy event: sigma_int {sigma:.3g} is too coarse to account for. Use at least 1."
                )
            steps.append(1 / (multiplier * sigma))
    return max(steps)


def _grid_slack(mu: float, epsilon: float, step: float) -> float:
    """Return the extra epsilon of integer noise over continuous noise of equal sigma.

    The loss takes values on a grid of width `step`. By Euler and Maclaurin the grid's sum exceeds delta's integral by
    at most step^2/24 times the loss density at epsilon. Divided by the slope of delta this is step^2/24 * hazard/mu,
    and the normal hazard rate at t is below t + 1. Multiplied by `GRID_SAFETY`; about 1e-6 at the product's scale.
    """
    tail = epsilon / mu + mu / 2
    return GRID_SAFETY * step**2 / 24 * (tail + 1) / mu


def _count(event: StoredEvent) -> int:
    count = event.get("count", 1)
    # True is an int in Python, but no number of releases.
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise LedgerError(f"Privacy event: count is {count!r}. Write a whole number from 0.")
    return count


def _positive(event: StoredEvent, field: str) -> float:
    value = event.get(field)
    if not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise LedgerError(f"Privacy event: {field} is {value!r}. Write a positive number.")
    return float(value)


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise LedgerError(f"delta: {delta!r} is not allowed. Write a number between 0 and 1.")
