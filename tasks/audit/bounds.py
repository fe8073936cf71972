"""What an attack proves: lower bounds from error rates, and whether noise is fresh.

Who decides whether one record took part makes two kinds of errors. A mechanism that keeps its promise makes at least so
many of them together; fewer prove that it does not. Rates are bounded by Clopper and Pearson (1934).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import numpy as np

from tasks.accounting.composition import gaussian_epsilon

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from connectors.interfaces.progress import Advance

    Floats = NDArray[np.float64]

Side = TypeVar("Side")
"""What an attack calls what is noised in a run: an election, documents, rows."""

CONFIDENCE: Final = 0.999
"""Of a lower bound. Both error rates must be that unlucky at once: about one sound mechanism in 10^5 is called red."""

STANDARD_ERRORS: Final = 6.0
"""Correlation of noises that counts as none, in standard errors; by chance one audit in 10^8 is beyond it."""

PAIR_ERRORS: Final = 8.0
"""The same for the pair of bins that agrees most, of up to a million pairs; by chance less than one audit in 10^8."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one attack found. `claimed` and `bound` are in `unit`: mu of Gaussian differential privacy, or epsilon.

    `trials`: runs with and as many without the canary.
    """

    what: str
    claimed: float
    bound: float
    trials: int
    passed: bool
    remark: str = ""
    unit: Literal["mu", "epsilon"] = "mu"

    def epsilons(self, delta: float) -> tuple[float, float]:
        """Return the claimed epsilon at `delta` and the one that the attack proves at least."""
        if self.unit == "epsilon":
            return self.claimed, self.bound
        return tuple(gaussian_epsilon(mu, delta) if mu > 0 else 0.0 for mu in (self.claimed, self.bound))  # type: ignore[return-value]


def silent(units: int) -> None:
    """Take no notice of progress."""


def lower_bound(false_alarms: int, misses: int, trials: int, confidence: float = CONFIDENCE) -> float:
    """Return the mu that an attack with these errors in `trials` decisions each proves at least; never below 0.

    Half of the doubt goes to each error rate (Dong, Roth and Su 2022, Section 2).
    """
    from scipy.special import ndtri

    doubt = (1 - confidence) / 2
    return max(0.0, -float(ndtri(most(false_alarms, trials, doubt))) - float(ndtri(most(misses, trials, doubt))))


def epsilon_bound(false_alarms: int, misses: int, trials: int, confidence: float = CONFIDENCE) -> float:
    """Return the epsilon at delta 0 that an attack with these errors proves at least; never below 0.

    Under epsilon-DP hits are at most e^epsilon times as frequent as false alarms, and correct rejections as misses
    (Kairouz, Oh and Viswanath 2015, Theorem 2.1).
    """
    doubt = (1 - confidence) / 2
    alarms, missed = most(false_alarms, trials, doubt), most(misses, trials, doubt)
    if alarms >= 1 or missed >= 1:
        return 0.0
    return max(0.0, math.log((1 - missed) / alarms), math.log((1 - alarms) / missed))


def likely_bound(mu: float, trials: int, confidence: float = CONFIDENCE) -> float:
    """Return the lower bound on mu that `trials` decisions each about a sound mechanism lead to in the middle."""
    from scipy.special import ndtr

    errors = round(trials * float(ndtr(-mu / 2)))
    return lower_bound(errors, errors, trials, confidence)


def most(errors: int, trials: int, doubt: float) -> float:
    """Return the largest error rate that leaves so few errors the probability `doubt`."""
    from scipy.stats import beta

    return 1.0 if errors >= trials else float(beta.ppf(1 - doubt, errors + 1, trials - errors))


def stacked(runs: Sequence[Sequence[NDArray[Any]]], known: NDArray[Any]) -> Floats:
    """Return what runs gave away minus what is known, shape (runs, releases, ...); missing releases are zero."""
    seen = np.zeros((len(runs), max(map(len, runs)), *known.shape))
    for number, releases in enumerate(runs):
        seen[number, : len(releases)] = np.stack(releases) - known
    return seen


def sides_seen(
    release: Callable[[Side], list[NDArray[Any]]],
    sides: tuple[Side, Side],
    known: NDArray[Any],
    trials: int,
    advance: Advance,
) -> tuple[Floats, Floats]:
    """Carry out `trials` runs without the canary and as many with it; return what each side gave away, `stacked`."""
    runs: tuple[list[list[NDArray[Any]]], list[list[NDArray[Any]]]] = ([], [])
    for _ in range(trials):
        for seen, side in zip(runs, sides, strict=True):
            seen.append(release(side))
        advance(2)
    return stacked(runs[0], known), stacked(runs[1], known)


def fresh_and_counted(sides: tuple[Floats, Floats], planned: int, trials: int) -> list[Finding]:
    """Return whether noise was fresh, and whether no run gave away more than `planned` releases."""
    most_releases = max(side.shape[1] for side in sides)
    return [freshness(sides[0]), number_kept(most_releases, planned, 2 * trials)]


def gaussian_finding(
    what: str, claimed: float, sides: tuple[Floats, Floats], view: Floats, planned: int, confidence: float
) -> Finding:
    """Decide who took part by the projection of what was seen, without and with the canary, on `view`.

    `view`: the canary's part in one release, of which `planned` were planned. The threshold is half the way.
    """
    without, with_canary = ((side * view).sum(axis=tuple(range(1, side.ndim))) for side in sides)
    halfway = planned * float((view**2).sum()) / 2
    errors = int((without > halfway).sum()), int((with_canary <= halfway).sum())
    bound = lower_bound(*errors, len(without), confidence)
    remark = in_words(errors, len(without)) + _seen_apart(without, with_canary, 2 * halfway)
    return Finding(what, claimed, bound, len(without), bound <= claimed, remark)


def _seen_apart(without: Floats, with_canary: Floats, way: float) -> str:
    """Say how far the two sides lie apart, which estimates mu: a bound far below it has been unlucky."""
    apart = float(with_canary.mean() - without.mean())
    spread = math.sqrt((float(without.var()) + float(with_canary.var())) / 2)
    if not (spread and way):
        return ""
    return f"; they lie {apart / spread:.2f} standard deviations apart, {apart / way:.2f} of the expected way"


def in_words(errors: tuple[int, int], trials: int) -> str:
    """Say how often an attack was wrong."""
    return f"{errors[0]} false alarms, {errors[1]} misses in {trials} decisions each"


def freshness(noises: Floats) -> Finding:
    """Compare noises, shape (runs, releases, ...), of one run, of consecutive runs, and of the bins of one release.

    They must have nothing in common: the difference of two bins that share their noise is known without any.
    """
    within = _correlation(noises[:, 1:], noises[:, :-1])
    between = _correlation(noises[1:], noises[:-1])
    worst, bins = max(within, between), _of_bins(noises)
    remark = f"noises of different releases agree by {worst:.1f} standard errors; up to {STANDARD_ERRORS:g} is chance"
    if bins:
        remark += f"; those of any two bins by {bins:.1f} at most; up to {PAIR_ERRORS:g} is chance"
    fresh = worst <= STANDARD_ERRORS and bins <= PAIR_ERRORS
    return Finding("noise is fresh", 0.0, 0.0, len(noises), fresh, remark)


def _of_bins(noises: Floats) -> float:
    """Return the largest correlation of two bins of one release in standard errors of none; 0 if there is one bin.

    As Fisher (1921) has it: atanh r is nearly normal with deviation 1 / sqrt(n - 3), for few runs as well.
    """
    flat = noises.reshape(-1, math.prod(noises.shape[2:]))
    spread = np.sqrt((flat**2).sum(axis=0))
    flat = flat[:, spread > 0] / spread[spread > 0]
    together = np.abs(flat.T @ flat)
    np.fill_diagonal(together, 0.0)
    most = min(float(together.max(initial=0.0)), 1 - 2.0**-50)
    return math.atanh(most) * math.sqrt(max(len(flat) - 3, 0))


def number_kept(seen: int, planned: int, runs: int) -> Finding:
    """Compare the releases of a run with those that were planned."""
    remark = f"{seen} releases seen, {planned} planned"
    return Finding("as many releases as planned", 0.0, 0.0, runs, seen <= planned, remark)


def _correlation(one: Floats, other: Floats) -> float:
    """Return the correlation of two arrays in standard errors of no correlation."""
    if one.size < 2:
        return 0.0
    spread = math.sqrt(float((one**2).sum()) * float((other**2).sum()))
    return abs(float((one * other).sum())) / spread * math.sqrt(one.size) if spread else 0.0
