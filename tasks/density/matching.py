"""What follows from a released density: which texts are wanted, what each weighs, which set of texts matches.

All of it is post-processing of noisy sums and of public texts; it costs no privacy. Per class there is the mean
embedding m of the private rows, as far as it is known, and that of texts. Their difference is the witness function of
maximum mean discrepancy (MMD; Gretton et al. 2012): high where private rows are and texts are not, low the other way
round. Texts with a low one are the bad examples, and it changes as texts are added: the same release says in every
round of what there is too much by now. Good ones are those that are most like private rows, and unlike each other.

The noisy mean is drawn towards the mean of the texts (`expect`): private rows differ from texts by a shift that all
classes have in common, and one of their own, both along directions in which texts differ among themselves. Under such
a Gaussian prior the posterior mean keeps each direction as far as it rises above the noise, which is known, and above
how far the mean of so few rows strays by itself. How far the shifts reach is read off the release, as far as it says so
(empirical Bayes, James and Stein).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tasks.density.kernels import COUNTING, body, counted
from tasks.selection.examples import bad_of
from tasks.selection.hubs import spaced

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

FEWEST_ROWS: Final = 5.0
"""A class is taken to have at least so many rows: below that its sums say nothing anyway."""

USUAL_COMMON: Final = (0.3, 0.15)
USUAL_OWN: Final = (0.05, 0.05)
"""How far shifts reach as long as a release says little: variance in units of that of texts, mean and deviation.

Of the shift that classes have in common (0.07 to 0.46 on four public data sets), and of that of one class (0.02 to
0.28; less is taken for usual, since noise that is taken for a shift carries classes into each other).
"""

MOST_REACH: Final = 2.0
"""A shift does not reach further, in the same units."""

ANYWHERE: Final = 0.1
"""Part of the variance of shifts that is the same in every direction, however little texts differ there."""

TAME: Final = 0.03
"""Ridge of the weights that tilt texts towards the density: how little they follow it."""

STIFF: Final = 0.01
"""Ridge of the line from features to points, in units of the mean variance of features."""

TEMPTING: Final = 0.1
"""Part of a class that is good enough, or bad enough, to be an example."""

AT_ONCE: Final = 4000
"""Texts that are chosen from together: every pair of them is compared."""

TINY: Final = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Density:
    """A release as it is read: noisy `sums` of features (classes, width) and the `sigma` of their noise."""

    labels: tuple[str, ...]
    sums: Floats
    sigma: float


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """Expected mean embeddings of private rows, `means` (classes, width - 1), and of how many rows each class has.

    A class without texts has no mean: its row is not a number.
    """

    labels: tuple[str, ...]
    means: Floats
    rows: Floats

    def of(self, label: str) -> Floats:
        """Return the mean embedding of one class."""
        return np.asarray(self.means[self.labels.index(label)])


def expect(density: Density, points: Floats, labels: NDArray[Any]) -> Expected:
    """Return what the release makes one expect, beside texts at `points` (n, width - 1) of the classes `labels`.

    Without noise the means are close to those of the rows, the closer the more rows there are.
    """
    there = [place for place, label in enumerate(density.labels) if (labels == label).any()]
    rows = _rows(density)
    means = np.full((len(density.labels), points.shape[1]), np.nan)
    if there:
        texts = np.stack([points[labels == density.labels[place]].mean(axis=0) for place in there])
        centred = [points[labels == density.labels[place]] - mean for place, mean in zip(there, texts, strict=True)]
        spread, axes = _axes(np.concatenate(centred))
        shifts = (body(density.sums[there]) / rows[there, None] - texts) @ axes
        noise = density.sigma**2 / (1 - COUNTING) / rows[there, None] ** 2 + spread / rows[there, None]
        means[there] = texts + _posterior(shifts, noise, spread) @ axes.T
    return Expected(density.labels, means, rows)


def lifted(expected: Expected, features: Floats, points: Floats, labels: NDArray[Any]) -> Expected:
    """Return expectations of `features` (n, width) as such of `points` (n, d), by how these go together in texts.

    What is known in few coordinates, such as in which cluster rows lie, tells of all of them as far as texts do: the
    line through texts of all classes, each class measured from its own mean (ridge regression).
    """
    there = [place for place, label in enumerate(expected.labels) if (labels == label).any()]
    own = [labels == expected.labels[place] for place in there]
    at, to = (np.stack([values[one].mean(axis=0) for one in own]) for values in (features, points))
    apart, wanted = (
        np.concatenate([values[one] - mean for one, mean in zip(own, means, strict=True)])
        for values, means in ((features, at), (points, to))
    )
    gram = apart.T @ apart
    ridge = STIFF * float(np.trace(gram)) / len(gram) + TINY
    line = np.linalg.solve(gram + ridge * np.eye(len(gram)), apart.T @ wanted)
    means = np.full((len(expected.labels), points.shape[1]), np.nan)
    means[there] = to + (expected.means[there] - at) @ line
    return Expected(expected.labels, means, expected.rows)


def witness(expected: Expected, points: Floats, labels: NDArray[Any]) -> Floats:
    """Return for each text how much more like private rows than like texts of its class it is; MMD's witness."""
    found = np.zeros(len(points))
    for label in np.unique(labels):
        own = labels == label
        found[own] = points[own] @ (expected.of(str(label)) - points[own].mean(axis=0))
    return found


def herd(points: Floats, target: Floats, count: int) -> Ints:
    """Return places of `count` points whose mean embedding comes close to `target`, greedily, each once.

    Kernel herding (Chen, Welling and Smola 2010): the next point is like the target and unlike those that were taken.
    """
    wanted, taken = points @ target, np.zeros(len(points))
    free, order = np.ones(len(points), dtype=bool), np.empty(min(count, len(points)), dtype=np.int64)
    for turn in range(len(order)):
        best = int(np.argmax(np.where(free, wanted - taken / (turn + 1), -np.inf)))
        order[turn], free[best] = best, False
        taken += points @ points[best]
    return order


def examples(points: Floats, target: Floats, surplus: Floats, count: int, per_hub: int = 0) -> tuple[Ints, Ints]:
    """Return places of good and of bad examples of one class, at most `count` each and none twice.

    Good: among the tenth closest to `target`, what private rows are like, those that together match it. Bad: among
    the tenth of the largest `surplus`, of which there is more among texts than among private rows, those that together
    match that tenth: one odd region lends a few and not all. (Good examples by the witness too bring FID no lower, and
    are often far from any private row.) A class of which a tenth is less than `count` has fewer good ones, but as many
    as a prompt shows, half of `count`: the best eight of twelve are no better than the rest. A small class keeps half
    of its texts as bad ones. `per_hub`: so many bad ones, at most, lie close together; 0: any number.
    """
    number = len(points)
    bad = bad_of(number, count)
    good = min(count, number - bad, max(-(-count // 2), round(number * TEMPTING)))
    pool = max(int(number * TEMPTING), count)
    first = np.argsort(-(points @ target), kind="stable")[: max(int(number * TEMPTING), good)]
    taken = first[herd(points[first], target, good)]
    rest = np.argsort(-surplus, kind="stable")
    last = spaced(points, rest[~np.isin(rest, taken)], max(pool, bad), per_hub)
    worst = points[last].mean(axis=0) if len(last) else target
    return taken, last[herd(points[last], worst, bad)]


def tilt(points: Floats, target: Floats, tame: float = TAME) -> Floats:
    """Return weights (n,), their mean 1, under which points have a mean near `target` and are else as equal as can be.

    Exponential tilting: the weights of largest entropy whose mean differs from the target by `tame` times their
    direction, exp(<theta, x>) with theta the minimum of a convex function.
    """
    from scipy.optimize import minimize

    def loss(theta: Floats) -> tuple[float, Floats]:
        angles = points @ theta
        top = float(angles.max())
        parts = np.exp(angles - top)
        total = float(parts.sum())
        value = float(np.log(total) + top - theta @ target + tame / 2 * theta @ theta)
        return value, np.asarray(points.T @ (parts / total) - target + tame * theta)

    theta = minimize(loss, np.zeros(points.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 200}).x
    angles = points @ theta
    parts = np.exp(angles - angles.max())
    return np.asarray(parts / parts.mean())


def tilted(expected: Expected, points: Floats, labels: NDArray[Any]) -> Floats:
    """Return what every text weighs in a set that matches the density, the mean of a class 1."""
    found = np.ones(len(points))
    for label in np.unique(labels):
        own = labels == label
        found[own] = tilt(points[own], expected.of(str(label)))
    return found


def matched(expected: Expected, points: Floats, labels: NDArray[Any], counts: dict[str, int], seed: int) -> Ints:
    """Return places, rising, of so many texts of each class that together match the density.

    A large class is dealt out first, at random by `seed`, and each hand chooses its part.
    """
    kept: list[Ints] = []
    for number, (label, count) in enumerate(counts.items()):
        own = np.flatnonzero(labels == label)
        hands = max(1, -(-len(own) // AT_ONCE))
        own = np.random.default_rng([seed, number]).permutation(own) if hands > 1 else own
        left = count
        for hand, part in enumerate(np.array_split(own, hands)):
            share = round(left / (hands - hand))
            kept.append(part[herd(points[part], expected.of(label), min(share, len(part)))])
            left -= len(kept[-1])
    return np.sort(np.concatenate(kept)) if kept else np.empty(0, dtype=np.int64)


def _rows(density: Density) -> Floats:
    """Return how many rows each class has, as far as the constant features say; unlike ones drawn to their mean."""
    told = counted(density.sums)
    noise = density.sigma**2 / COUNTING
    mean = max(float(told.mean()), FEWEST_ROWS)
    differ = max(float(told.var()) - noise, 0.0)
    drawn = mean + (told - mean) * (differ / max(differ + noise, TINY))
    return np.asarray(np.maximum(drawn, max(mean / 5, FEWEST_ROWS if density.sigma else TINY)))


_LATEST: dict[bytes, tuple[Floats, Floats]] = {}


def _axes(centred: Floats) -> tuple[Floats, Floats]:
    """Return variances of texts along their principal axes, levelled a little, and the axes as columns.

    The steps of a round ask for those of the same texts one after another: the latest are remembered.
    """
    key = hashlib.blake2b(np.ascontiguousarray(centred).data, digest_size=16).digest() + str(centred.shape).encode()
    found = _LATEST.get(key)
    if found is None:
        spread, axes = np.linalg.eigh(centred.T @ centred / len(centred))
        spread = np.maximum(spread, 0.0)
        found = (1 - ANYWHERE) * spread + ANYWHERE * spread.mean(), axes
        _LATEST.clear()
        _LATEST[key] = found
    return found


def _posterior(shifts: Floats, noise: Floats, spread: Floats) -> Floats:
    """Return expected shifts of seen ones; all (classes, axes), `noise` their variance, `spread` (axes,) of texts."""
    classes = len(shifts)
    precise = 1 / np.maximum(noise, TINY)
    shares = precise / precise.sum(axis=0)
    common, of_common = (shares * shifts).sum(axis=0), 1 / precise.sum(axis=0)
    all_common = _reach(common[None], of_common[None], spread, USUAL_COMMON)
    apart, left = shifts - common, max(1 - 1 / classes, TINY)  # what taking the mean off leaves of variances
    all_own = _reach(apart / np.sqrt(left), noise, spread, USUAL_OWN) if classes > 1 else 0.0
    kept = all_common * spread / (all_common * spread + of_common + all_own * spread / classes)
    own_kept = all_own * spread / np.maximum(all_own * spread + noise, TINY)
    expected = common * kept
    return np.asarray(expected + (shifts - expected) * own_kept)


def _reach(seen: Floats, noise: Floats, spread: Floats, usual: tuple[float, float]) -> float:
    """Return the variance of shifts in units of that of texts: what was seen beyond the noise, drawn to what is usual.

    The less the noise (of a squared length: sqrt(2) times its variance along each axis), the more counts what was seen.
    """
    total = max(float(spread.sum()), TINY)
    found = float(((seen**2).sum() - noise.sum()) / len(seen) / total)
    error = float(np.sqrt(2 * (noise**2).sum()) / len(seen) / total)
    mean, deviation = usual
    drawn = (found * deviation**2 + mean * error**2) / (deviation**2 + error**2)
    return float(np.clip(drawn, 0.0, MOST_REACH))
