"""Uses of a released density: examples and weights of texts.

All of it is post-processing of noisy sums and of public texts; it costs no privacy. Each class has an estimated mean
embedding m of the private rows, and a mean embedding of its texts. Their difference is the witness function of maximum
mean discrepancy (MMD; Gretton et al. 2012). It is high where there are private rows without texts, and low where there
are texts without private rows. Texts with low values are the bad examples. The witness changes as texts are added: the
same release shows in every round which texts are over-represented. Good examples are the texts that are most similar to
private rows and dissimilar to each other.

The noisy mean is shrunk towards the mean of the texts (`expect`). Private rows differ from texts by a shift common to
all classes and a shift of each class, both along directions in which texts differ among themselves. Under such a
Gaussian prior the posterior mean keeps each direction as far as it exceeds two variances: the public variance of the
noise, and the sampling variance of the mean of so few rows. The scale of the shifts is estimated from the release, as
far as it is informative (empirical Bayes, James and Stein).
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tasks.guidance.examples import bad_of
from tasks.private.density.features import body, counted
from tasks.private.density.promise import COUNTING

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MIN_ROWS: Final = 5.0
"""Least number of rows assumed for a class: with fewer rows its sums contain no information."""

USUAL_COMMON: Final = (0.3, 0.15)
USUAL_OWN: Final = (0.05, 0.05)
"""Prior scale of shifts for a release with little information: variance in units of the texts' variance.

Each pair is mean and deviation. The first is for the shift common to all classes (0.07 to 0.46 on four public data
sets), the second for the shift of one class (0.02 to 0.28; the prior is lower, because noise that is mistaken for a
shift mixes the classes).
"""

MAX_REACH: Final = 2.0
"""Upper limit of the scale of a shift, in the same units."""

ANYWHERE: Final = 0.1
"""Part of the variance of shifts that is equal in every direction, even where texts hardly differ."""

TAME: Final = 0.03
"""Ridge of the weights that tilt texts towards the density; larger values follow it less."""

TEMPTING: Final = 0.1
"""Part of a class that is good enough, or bad enough, for an example."""

TINY: Final = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Density:
    """A released density: noisy `sums` of features (classes, width), noise `sigma`."""

    labels: tuple[str, ...]
    sums: Floats
    sigma: float


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """Expected mean embeddings and numbers of private rows by class.

    `means` (classes, width - 1); the row of a class without texts is not a number. `rows` (classes,).
    """

    labels: tuple[str, ...]
    means: Floats
    rows: Floats

    def of(self, label: str) -> Floats:
        """Return the mean embedding of one class."""
        return np.asarray(self.means[self.labels.index(label)])


def expect(density: Density, points: Floats, labels: NDArray[np.str_]) -> Expected:
    """Estimate the mean embeddings of private rows from a release and texts.

    `points` (n, width - 1): the texts, of the classes `labels`. Without noise the estimates approach the means of the
    rows as their number grows.
    """
    present = [index for index, label in enumerate(density.labels) if (labels == label).any()]
    rows = _rows(density)
    means = np.full((len(density.labels), points.shape[1]), np.nan)
    if present:
        texts = np.stack(
            [points[labels == density.labels[index]].mean(axis=0) for index in present]
        )
        centred = [
            points[labels == density.labels[index]] - mean
            for index, mean in zip(present, texts, strict=True)
        ]
        spread, axes = _axes(np.concatenate(centred))
        shifts = (body(density.sums[present]) / rows[present, None] - texts) @ axes
        noise = (
            density.sigma**2 / (1 - COUNTING) / rows[present, None] ** 2
            + spread / rows[present, None]
        )
        means[present] = texts + _posterior(shifts, noise, spread) @ axes.T
    return Expected(density.labels, means, rows)


def witness(expected: Expected, points: Floats, labels: NDArray[np.str_]) -> Floats:
    """Return MMD's witness of each text.

    It is the similarity to private rows minus the similarity to texts of the class.
    """
    scores = np.zeros(len(points))
    for label in np.unique(labels):
        own = labels == label
        scores[own] = points[own] @ (expected.of(str(label)) - points[own].mean(axis=0))
    return scores


def examples(points: Floats, target: Floats, surplus: Floats, count: int) -> tuple[Ints, Ints]:
    """Return positions of good and of bad examples of one class.

    At most `count` each, and none twice. Good: a subset that matches the mean of private rows, `target`, chosen from
    the tenth closest to it. Bad: a subset of the tenth with the largest `surplus`, which is over-represented among
    texts, chosen to match the mean of that tenth: one odd region supplies a few and not all. (Good examples by the
    witness do not lower FID either, and are often far from any private row.) If a tenth of a class is less than
    `count`, it has fewer good ones. It has at least half of `count`, the number that a prompt shows, because the best
    eight of twelve are no better than the rest. A small class keeps half of its texts as bad ones.
    """
    number = len(points)
    bad = bad_of(number, count)
    good = min(count, number - bad, max(-(-count // 2), round(number * TEMPTING)))
    pool = max(int(number * TEMPTING), count)
    first = np.argsort(-(points @ target), kind="stable")[: max(int(number * TEMPTING), good)]
    taken = first[herd(points[first], target, good)]
    rest = np.argsort(-surplus, kind="stable")
    last = rest[~np.isin(rest, taken)][: max(pool, bad)]
    worst = target
    if len(last):
        worst = points[last].mean(axis=0)
    return taken, last[herd(points[last], worst, bad)]


def herd(points: Floats, target: Floats, count: int) -> Ints:
    """Return positions of `count` points whose mean embedding is close to `target`.

    Greedy, each position once. Kernel herding (Chen, Welling and Smola 2010): the next point is similar to the target
    and dissimilar to earlier ones.
    """
    similarity = points @ target
    taken = np.zeros(len(points))
    free = np.ones(len(points), dtype=bool)
    order = np.empty(min(count, len(points)), dtype=np.int64)
    for turn in range(len(order)):
        best = int(np.argmax(np.where(free, similarity - taken / (turn + 1), -np.inf)))
        order[turn] = best
        free[best] = False
        taken += points @ points[best]
    return order


def tilt(points: Floats, target: Floats, tame: float = TAME) -> Floats:
    """Return weights (n,) of mean 1 that move the mean of points near `target`.

    They are as equal as possible. Exponential tilting: the weights of largest entropy whose mean differs from the
    target by `tame` times their direction, exp(<theta, x>), where theta is the minimum of a convex function.
    """
    from scipy.optimize import minimize

    def loss(theta: Floats) -> tuple[float, Floats]:
        angles = points @ theta
        # Subtracted before the exponential, which overflows, and added to its logarithm.
        top = float(angles.max())
        parts = np.exp(angles - top)
        total = float(parts.sum())
        value = float(np.log(total) + top - theta @ target + tame / 2 * theta @ theta)
        return value, np.asarray(points.T @ (parts / total) - target + tame * theta)

    theta = minimize(
        loss, np.zeros(points.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 200}
    ).x
    angles = points @ theta
    parts = np.exp(angles - angles.max())
    return np.asarray(parts / parts.mean())


def tilted(expected: Expected, points: Floats, labels: NDArray[np.str_]) -> Floats:
    """Return the weight of every text that moves each class to its expected mean; each class has mean 1."""
    weights = np.ones(len(points))
    for label in np.unique(labels):
        own = labels == label
        weights[own] = tilt(points[own], expected.of(str(label)))
    return weights


def _rows(density: Density) -> Floats:
    """Return the number of rows by class from the constant features, with shrinkage."""
    counts = counted(density.sums)
    noise = density.sigma**2 / COUNTING
    mean = max(float(counts.mean()), MIN_ROWS)
    variance = max(float(counts.var()) - noise, 0.0)
    shrunk = mean + (counts - mean) * (variance / max(variance + noise, TINY))
    # A fifth of the mean: the sums are divided by this number, and a class that noise makes tiny would move far.
    least = TINY
    if density.sigma:
        least = MIN_ROWS
    return np.asarray(np.maximum(shrunk, max(mean / 5, least)))


def _axes(centred: Floats) -> tuple[Floats, Floats]:
    """Return variances of texts along their principal axes, slightly levelled, and the axes as columns."""
    spread, axes = np.linalg.eigh(centred.T @ centred / len(centred))
    # Rounding makes the smallest eigenvalues of few texts negative.
    spread = np.maximum(spread, 0.0)
    return (1 - ANYWHERE) * spread + ANYWHERE * spread.mean(), axes


def _posterior(shifts: Floats, noise: Floats, spread: Floats) -> Floats:
    """Return expected shifts from observed ones.

    All (classes, axes); `noise`: their variance; `spread` (axes,): the variance of texts.
    """
    classes = len(shifts)
    # The shift common to all classes is their mean, to which classes with more noise contribute less.
    precise = 1 / np.maximum(noise, TINY)
    shares = precise / precise.sum(axis=0)
    common = (shares * shifts).sum(axis=0)
    of_common = 1 / precise.sum(axis=0)
    all_common = _reach(common[None], of_common[None], spread, USUAL_COMMON)
    apart = shifts - common
    # Part of the variance after subtracting the mean.
    left = max(1 - 1 / classes, TINY)
    all_own = 0.0
    if classes > 1:
        all_own = _reach(apart / np.sqrt(left), noise, spread, USUAL_OWN)
    common_kept = (
        all_common * spread / (all_common * spread + of_common + all_own * spread / classes)
    )
    own_kept = all_own * spread / np.maximum(all_own * spread + noise, TINY)
    expected = common * common_kept
    return np.asarray(expected + (shifts - expected) * own_kept)


def _reach(shifts: Floats, noise: Floats, spread: Floats, usual: tuple[float, float]) -> float:
    """Return the variance of shifts in units of the texts' variance.

    It is the observed variance without noise, shrunk to the prior. Less noise gives the observed value more weight. The
    noise of a squared length is sqrt(2) times its variance along each axis. `usual`: mean and deviation of the prior.
    """
    total = max(float(spread.sum()), TINY)
    observed = float(((shifts**2).sum() - noise.sum()) / len(shifts) / total)
    error = float(np.sqrt(2 * (noise**2).sum()) / len(shifts) / total)
    mean, deviation = usual
    shrunk = (observed * deviation**2 + mean * error**2) / (deviation**2 + error**2)
    return float(np.clip(shrunk, 0.0, MAX_REACH))
