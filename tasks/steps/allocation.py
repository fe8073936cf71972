"""Whole numbers from shares: texts per PLM, texts per class, rows per class."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.rows import MIN_RATIO

MIN_SHARE = 0.05
"""Smallest part of an equal share that a PLM writes: a noisy round must not exclude one permanently."""


def allocate(total: int, weights: Mapping[str, float], floor: float = MIN_SHARE) -> dict[str, int]:
    """Split `total` by weights into whole numbers, by largest remainder.

    No PLM gets less than `floor` of an equal share (total / K). Exact arithmetic; equal remainders go to the larger
    weight, then to the PLM named first. Raises ConfigError for weights that are negative, not finite or all zero.
    """
    if any(not math.isfinite(w) or w < 0 for w in weights.values()) or not sum(weights.values()):
        raise ConfigError(
            f"weights: {dict(weights)} is not allowed. Write non-negative numbers with a positive sum."
        )
    # Fractions: rounding would decide between equal remainders, differently on other machines.
    exact = [Fraction(weight) for weight in weights.values()]
    quotas = _raised(exact, total, Fraction(floor) * total / len(weights))
    counts = [math.floor(quota) for quota in quotas]
    by_remainder = sorted(range(len(quotas)), key=lambda k: (counts[k] - quotas[k], -exact[k], k))
    for position in by_remainder[: total - sum(counts)]:
        counts[position] += 1
    return dict(zip(weights, counts, strict=True))


def _raised(weights: list[Fraction], total: int, floor: Fraction) -> list[Fraction]:
    """Return quotas by weight with sum `total` and minimum `floor`."""
    raised: set[int] = set()
    # What some get to reach the minimum is taken from the others, who may then be below it: until nobody is.
    while True:
        rest = total - floor * len(raised)
        mass = sum((weight for k, weight in enumerate(weights) if k not in raised), Fraction(0))
        quotas = [
            floor if k in raised else rest * weight / mass for k, weight in enumerate(weights)
        ]
        below = {k for k, quota in enumerate(quotas) if quota < floor}
        if not below:
            return quotas
        raised |= below


def unbalanced(sizes: Mapping[str, int], count: int, alpha: float, seed: int) -> dict[str, int]:
    """Split `count` over classes of these sizes by proportions from Dirichlet(alpha, ..., alpha).

    They are drawn until the largest is at least `MIN_RATIO` times the smallest, as in the code of WASP's authors, and
    two classes have rows, because a student cannot learn one. Nearly all draws are rejected for an `alpha` outside
    `ALPHAS`. A class gives at most all its rows; the other classes then give more. `count` is at most the sum of the
    sizes.
    """
    generator = np.random.default_rng(seed)
    drawn = generator.dirichlet(np.full(len(sizes), alpha))
    while len(sizes) > 1 and not _is_unbalanced(drawn, count):
        drawn = generator.dirichlet(np.full(len(sizes), alpha))
    # Above zero, or a class that is drawn as zero could not give its rows when all others are exhausted.
    weights = dict(zip(sizes, np.maximum(drawn, np.finfo(float).tiny).tolist(), strict=True))
    counts: dict[str, int] = {}
    while weights:
        split = allocate(count - sum(counts.values()), weights, floor=0.0)
        exhausted = {name: sizes[name] for name, number in split.items() if number >= sizes[name]}
        counts |= exhausted or split
        weights = {name: weight for name, weight in weights.items() if name not in counts}
    return {name: counts[name] for name in sizes}


def _is_unbalanced(proportions: NDArray[np.float64], count: int) -> bool:
    ordered = np.sort(proportions)
    return bool(ordered[-1] >= MIN_RATIO * ordered[0] and (count < 2 or count * ordered[-2] > 0.5))


def per_class(count: int, labels: Sequence[str], offset: int = 0) -> dict[str, int]:
    """Distribute `count` texts over the classes in turn.

    The first class is number `offset`, modulo the number of classes. With `offset` = the number of texts distributed
    before, the classes of a whole run differ by at most one text.
    """
    base, rest = divmod(count, len(labels))
    extra = {(offset + step) % len(labels) for step in range(rest)}
    return {label: base + (position in extra) for position, label in enumerate(labels)}
