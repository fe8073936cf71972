"""Kernels on text vectors and their features.

Features are the contribution of a text to a mean embedding, of length at most 1. The mean embedding of a set of texts
is the average of its features. With the features of the cosine kernel it is the average of their vectors, with random
Fourier features (Rahimi and Recht 2007) the mean embedding of a Gaussian kernel. One feature is constant, hence a sum
of features also contains the number of texts.

Two maps are learned from synthetic texts, as a `basis`. One is the cluster of texts that contains a vector (a sum of
features is then a histogram). The other is the coordinates along the main axes of texts, with the products of these
coordinates (a sum contains the first and second moments). Fewer numbers get noise, but components outside the basis are
lost. Everything here is public.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from connectors.interfaces.errors import ConfigError
from tasks.accounting.density import COUNTING

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

KernelName = Literal["cosine", "gaussian"]
MapName = Literal["cosine", "gaussian", "clusters", "subspace"]

FREQUENCIES: Final = 300
"""Random frequencies of the Gaussian kernel, with a pair of features each."""

BANDWIDTH: Final = 0.8
"""Bandwidth of exp(-|x - y|^2 / (2 BANDWIDTH^2)) on vectors of length 1."""

DRAWN_BY: Final = 20260101
"""Seed of the frequencies: public and equal in all runs, hence one release serves all of them."""

CLUSTERS: Final = 16
AXES: Final = 16
"""Number of clusters, and number of axes; fewer if there are fewer texts."""

SECOND: Final = 0.5
"""Largest part of a vector's squared length in the subspace that belongs to second moments."""

LOOPS: Final = 25
"""Number of updates of the cluster centres."""

WITHIN: Final = 0.9
"""Part of texts whose length in the subspace is not cut."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One feature map: its name and the basis learned from public texts.

    `name`: part of keys and files of releases. `basis` (number, d): centres of clusters, or scaled axes; None until
    `learn`, and for maps that learn nothing.
    """

    name: MapName = "cosine"
    basis: Floats | None = field(default=None, compare=False, repr=False)

    @property
    def learns(self) -> bool:
        """True if the map depends on texts."""
        return self.name in LEARNERS

    def learn(self, texts: NDArray[np.floating]) -> Kernel:
        """Return the map learned from the vectors (n, d) of public texts; the same map if it learns nothing."""
        if not self.learns:
            return self
        units, valid = _units(texts)
        return Kernel(self.name, LEARNERS[self.name](units[valid]))

    def features(self, vectors: NDArray[np.floating]) -> Floats:
        """Return the features (n, width) of vectors (n, d), the constant first.

        Rows have length at most 1. A vector that is zero or not finite has no features: its row is zero, and it counts
        for nothing.
        """
        units, valid = _units(vectors)
        constant = np.full((len(units), 1), math.sqrt(COUNTING))
        features = np.concatenate([constant, math.sqrt(1 - COUNTING) * self._body(units)], axis=1)
        return np.asarray(features * valid[:, None])

    def width(self, dimension: int) -> int:
        """Return the number of features for vectors of `dimension`."""
        number = 0 if self.basis is None else len(self.basis)
        widths = {"gaussian": 2 * FREQUENCIES, "clusters": number, "subspace": number * (number + 3) // 2}
        return 1 + widths.get(self.name, dimension)

    def _body(self, units: Floats) -> Floats:
        if self.name == "cosine":
            return units
        if self.name == "gaussian":
            angles = units @ _frequencies(units.shape[1]).T
            return np.concatenate([np.cos(angles), np.sin(angles)], axis=1) / math.sqrt(FREQUENCIES)
        if self.basis is None:
            raise ConfigError(
                f"The map '{self.name}' has learned nothing yet. Call learn with the first round's texts."
            )
        return _nearest(units, self.basis) if self.name == "clusters" else _moments(units @ self.basis.T)


def body(features: Floats) -> Floats:
    """Return features without the constant, at length 1, for comparing texts."""
    return np.asarray(features[..., 1:] / math.sqrt(1 - COUNTING))


def counted(features: Floats) -> Floats:
    """Return the number of texts in a sum of features."""
    return np.asarray(features[..., 0] / math.sqrt(COUNTING))


def _units(vectors: NDArray[np.floating]) -> tuple[Floats, NDArray[np.bool_]]:
    """Return vectors at length 1 and a mask; vectors without direction are zero."""
    rows = np.asarray(vectors, dtype=np.float64)
    with np.errstate(all="ignore"):
        lengths = np.sqrt((rows**2).sum(axis=1))
        units = rows / lengths[:, None]
    valid = np.isfinite(units).all(axis=1) & np.isfinite(lengths) & (lengths > 0)
    return np.where(valid[:, None], units, 0.0), valid


def _cut(values: Floats) -> Floats:
    """Return rows; those that are longer than 1 are cut to length 1."""
    return np.asarray(values / np.maximum(np.sqrt((values**2).sum(axis=1, keepdims=True)), 1.0))


def _nearest(units: Floats, centres: Floats) -> Floats:
    """Return 1 at the nearest centre of each vector and 0 elsewhere, (n, centres)."""
    distances = (centres**2).sum(axis=1) - 2 * units @ centres.T
    return np.asarray(np.eye(len(centres))[distances.argmin(axis=1)])


def _moments(along: Floats) -> Floats:
    """Return coordinates cut to length 1 and their products.

    The joint length is at most 1. With |u| <= 1 the products of all pairs have the length |u|^2. The squared length is
    (1 - SECOND) |u|^2 + SECOND |u|^4 <= 1.
    """
    cut = _cut(along)
    first, second = np.triu_indices(along.shape[1])
    products = cut[:, first] * cut[:, second] * np.where(first == second, 1.0, math.sqrt(2))
    return np.concatenate([math.sqrt(1 - SECOND) * cut, math.sqrt(SECOND) * products], axis=1)


def _centres(units: Floats) -> Floats:
    """Return cluster centres by k-means, started from distant texts, not at random."""
    taken = [int((units @ units.mean(axis=0)).argmax())] if len(units) else []
    for _ in range(min(CLUSTERS, len(units)) - 1):
        taken.append(int((units @ units[taken].T).max(axis=1).argmin()))
    centres = units[taken]
    for _ in range(LOOPS):
        own = _nearest(units, centres)
        sizes = own.sum(axis=0)[:, None]
        centres = np.where(sizes > 0, own.T @ units / np.maximum(sizes, 1), centres)
    return centres


def _scaled_axes(units: Floats) -> Floats:
    """Return the main axes of texts (not centred).

    They are scaled: most texts have length 1 or less along them.
    """
    _, _, axes = np.linalg.svd(units, full_matrices=False)
    axes = axes[: min(AXES, len(axes))]
    lengths = np.sqrt(((units @ axes.T) ** 2).sum(axis=1))
    return np.asarray(axes / max(float(np.quantile(lengths, WITHIN)), 1e-6))


@cache
def _frequencies(dimension: int) -> Floats:
    return np.random.default_rng([DRAWN_BY, dimension]).standard_normal((FREQUENCIES, dimension)) / BANDWIDTH


LEARNERS: Final[dict[str, Callable[[Floats], Floats]]] = {
    "clusters": _centres,
    "subspace": _scaled_axes,
}
"""Functions that learn a basis from vectors of length 1, by name of the map."""
