"""Integer Gaussian and Laplace noise from OpenDP's exact samplers, with the operating system's randomness.

OpenDP draws about 100,000 numbers per second and core. From MANY numbers on several threads draw.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.threads import usable_cores

MANY = 2_000

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


def add_discrete_gaussian(
    values: NDArray[np.int64], sigma_int: float, *, non_private: bool = False
) -> NDArray[np.int64]:
    """Return `values` plus fresh, independent discrete Gaussian noise of `sigma_int`.

    `values`: int64, any shape; sums outside 64 bits are clamped to the nearest 64-bit integer. The samplers (Canonne,
    Kamath and Steinke 2020) are exact and cannot be seeded: neither floating-point bits nor a
    repeated draw reveal a value. `sigma_int` 0 returns the values unchanged; it requires `non_private`, which means
    that no protection is wanted. Raises ConfigError.
    """
    if values.dtype != np.int64:
        raise ConfigError(
            f"Noise needs 64-bit integers, not {values.dtype}; scale the votes first."
        )
    if not 0 <= sigma_int < math.inf:
        raise ConfigError(f"Noise needs a finite sigma of at least 0, not {sigma_int!r}.")
    # Two signs for "no noise": a sigma that became zero by mistake stops here.
    if (sigma_int == 0) != non_private:
        raise ConfigError(
            "Noise of sigma 0 and non_private require each other; set privacy.epsilon to inf for both."
        )
    if non_private or values.size == 0:
        return values.copy()
    gaussian = _gaussian(float(sigma_int))
    return _in_threads(
        lambda part: np.asarray(gaussian(part), dtype=np.int64), values.ravel()
    ).reshape(values.shape)


@lru_cache(64)
def _gaussian(sigma: float) -> Any:
    """Return OpenDP's measurement, which holds no noise: each call draws."""
    import opendp.prelude as dp

    # OpenDP offers mechanisms whose proofs it has not reviewed itself only after this call.
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    return dp.m.make_gaussian(*space, scale=sigma)


def _in_threads(
    work: Callable[[NDArray[np.int64]], NDArray[np.int64]], flat: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Apply `work` to every entry, in one thread per usable core if there are many."""
    # The sampler releases Python's lock. Each thread draws its own entropy, so parts share no noise.
    cores = usable_cores() if flat.size >= MANY else 1
    if cores == 1:
        return work(flat)
    with ThreadPoolExecutor(cores) as pool:
        return np.concatenate(list(pool.map(work, np.array_split(flat, cores))))


def add_discrete_laplace(values: NDArray[np.int64], scale_int: float) -> NDArray[np.int64]:
    """Return `values` plus fresh, independent discrete Laplace noise of `scale_int`.

    P(k) ~ exp(-|k|/scale_int). `values`: int64, any shape. Exact (Ghosh, Roughgarden and Sundararajan 2012) and never
    seeded. Raises ConfigError.
    """
    if values.dtype != np.int64:
        raise ConfigError(f"Noise needs 64-bit integers, not {values.dtype}; scale the sums first.")
    if not 0 < scale_int < math.inf:
        raise ConfigError(f"Laplace noise needs a finite scale above 0, not {scale_int!r}.")
    if values.size == 0:
        return values.copy()
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    noisy = np.asarray(
        dp.m.make_laplace(*space, scale=float(scale_int))(values.ravel()), dtype=np.int64
    )
    return noisy.reshape(values.shape)
