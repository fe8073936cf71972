"""Lower bounds on privacy loss from error rates, and a test for fresh noise.

An attacker who decides if one record took part makes two kinds of errors. A mechanism that keeps its promise forces a
minimum of them; fewer errors prove that it does not. Rates are bounded by Clopper and Pearson (1934).
"""

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from tasks.accounting.composition import gaussian_epsilon

Floats = NDArray[np.float64]

CONFIDENCE: Final = 0.999
"""Confidence of a lower bound. Both error rates must deviate at once: about one sound mechanism in 10^5 fails."""

STANDARD_ERRORS: Final = 6.0
"""Largest accepted correlation of noises, in standard errors; by chance one audit in 10^8 exceeds it."""

PAIR_ERRORS: Final = 8.0
"""The same for the most correlated pair of bins, of up to a million pairs; by chance under one audit in 10^8."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one attack.

    `claimed` and `bound` are in `unit`: mu of Gaussian differential privacy, or epsilon.
    """

    what: str
    claimed: float
    bound: float
    passed: bool
    remark: str = ""
    unit: Literal["mu", "epsilon"] = "mu"

    def proven(self, delta: float) -> float:
        """Return the least epsilon at `delta` that is proved."""
        # A mu of 0 proves nothing, and the conversion is defined above 0 only.
        if self.unit == "epsilon" or self.bound == 0:
            return self.bound
        return gaussian_epsilon(self.bound, delta)


def lower_bound(
    false_alarms: int, misses: int, trials: int, confidence: float = CONFIDENCE
) -> float:
    """Return the mu that an attack proves at least; never below 0.

    The attack made these errors in `trials` decisions each. Half of the doubt goes to each error rate (Dong, Roth and
    Su 2022, Section 2).
    """
    from scipy.special import ndtri

    doubt = (1 - confidence) / 2
    return max(
        0.0,
        -float(ndtri(largest_rate(false_alarms, trials, doubt)))
        - float(ndtri(largest_rate(misses, trials, doubt))),
    )


def epsilon_bound(
    false_alarms: int, misses: int, trials: int, confidence: float = CONFIDENCE
) -> float:
    """Return the epsilon at delta 0 that an attack with these errors proves at least.

    Never below 0. Under epsilon-DP hits are at most e^epsilon times as frequent as false alarms, and correct rejections
    as misses (Kairouz, Oh and Viswanath 2015, Theorem 2.1).
    """
    doubt = (1 - confidence) / 2
    # Half of the doubt for each rate: both bounds hold together with the stated confidence.
    alarms = largest_rate(false_alarms, trials, doubt)
    missed = largest_rate(misses, trials, doubt)
    if alarms >= 1 or missed >= 1:
        return 0.0
    return max(0.0, math.log((1 - missed) / alarms), math.log((1 - alarms) / missed))


def largest_rate(errors: int, trials: int, doubt: float) -> float:
    """Return the error rate at which at most `errors` have probability `doubt`."""
    from scipy.stats import beta

    # Clopper and Pearson (1934): the upper end is a quantile of a beta distribution, which needs one right decision.
    if errors >= trials:
        return 1.0
    return float(beta.ppf(1 - doubt, errors + 1, trials - errors))


def right_guesses(scores: Floats, included: NDArray[np.bool_], guesses: int) -> int:
    """Return how many guesses about coins are right: half for the lowest scores (left out), half for the highest."""
    # Stable: equal scores keep the order of the canaries, which the coins do not depend on.
    order = np.argsort(scores, kind="stable")
    out = order[: guesses // 2]
    inside = order[len(order) - (guesses - guesses // 2) :]
    return int((~included[out]).sum() + included[inside].sum())


def one_run_bound(
    canaries: int, guesses: int, correct: int, delta: float, confidence: float
) -> float:
    """Return the epsilon that this many correct guesses about coins prove at least; never below 0.

    If a coin decides for each of many canaries whether it takes part, one run is enough: under (epsilon, delta)-DP
    nobody guesses many coins right (Steinke, Nasr and Jagielski 2023). The bound is the largest epsilon under which
    their probability is below the remaining doubt, to 1e-6.
    """
    doubt = 1 - confidence
    low = 0.0
    high = 1.0
    if one_run_chance(canaries, guesses, correct, 0.0, delta) > doubt:
        return 0.0
    while one_run_chance(canaries, guesses, correct, high, delta) < doubt and high < 64:
        low, high = high, 2 * high
    while high - low > 1e-6:
        middle = (low + high) / 2
        if one_run_chance(canaries, guesses, correct, middle, delta) < doubt:
            low = middle
        else:
            high = middle
    return low


def one_run_chance(
    canaries: int, guesses: int, correct: int, epsilon: float, delta: float
) -> float:
    """Return the largest probability of `correct` guesses under (epsilon, delta)-DP.

    Binomial tail at e^epsilon / (1 + e^epsilon), and 2 m delta times the steepest mean of the terms below it.
    """
    from scipy.stats import binom

    success = 1 / (1 + math.exp(-epsilon))
    below = binom.pmf(np.arange(correct - 1, -1, -1), guesses, success)
    steepest = (np.cumsum(below) / np.arange(1, correct + 1)).max(initial=0.0)
    return min(
        1.0, float(binom.sf(correct - 1, guesses, success)) + 2 * canaries * delta * float(steepest)
    )


def describe_errors(errors: tuple[int, int], trials: int) -> str:
    """Describe how often an attack was wrong."""
    return f"{errors[0]} false alarms, {errors[1]} misses in {trials} decisions each"


def freshness(noises: Floats) -> Finding:
    """Compare noises of one run, of consecutive runs, and of the bins of one release.

    Shape (runs, releases, ...). They must be uncorrelated: the difference of two bins that share their noise is exact.
    """
    within = _correlation(noises[:, 1:], noises[:, :-1])
    between = _correlation(noises[1:], noises[:-1])
    worst = max(within, between)
    bins = _of_bins(noises)
    remark = f"noises of releases correlate by {worst:.1f} standard errors; up to {STANDARD_ERRORS:g} is chance"
    if bins:
        remark += f"; those of any two bins by {bins:.1f} at most; up to {PAIR_ERRORS:g} is chance"
    fresh = worst <= STANDARD_ERRORS and bins <= PAIR_ERRORS
    return Finding("noise is fresh", 0.0, 0.0, fresh, remark)


def _of_bins(noises: Floats) -> float:
    """Return the largest correlation of two bins of one release, in standard errors.

    0 with one bin. By Fisher (1921), atanh r is nearly normal with deviation 1 / sqrt(n - 3), even for few runs.
    """
    flat = noises.reshape(-1, math.prod(noises.shape[2:]))
    spread = np.sqrt((flat**2).sum(axis=0))
    flat = flat[:, spread > 0] / spread[spread > 0]
    correlations = np.abs(flat.T @ flat)
    np.fill_diagonal(correlations, 0.0)
    # Two bins with the same noise correlate exactly; atanh of 1 would be infinite.
    largest = min(float(correlations.max(initial=0.0)), 1 - 2.0**-50)
    return math.atanh(largest) * math.sqrt(max(len(flat) - 3, 0))


def check_number(released: int, planned: int) -> Finding:
    """Compare the number of releases of a run with the plan."""
    remark = f"{released} releases seen, {planned} planned"
    return Finding("as many releases as planned", 0.0, 0.0, released <= planned, remark)


def _correlation(first: Floats, second: Floats) -> float:
    """Return the correlation of two arrays, in standard errors of no correlation."""
    if first.size < 2:
        return 0.0
    spread = math.sqrt(float((first**2).sum()) * float((second**2).sum()))
    if spread == 0:
        return 0.0
    return abs(float((first * second).sum())) / spread * math.sqrt(first.size)
