"""Integer Gaussian and Laplace noise from the operating system's randomness, by OpenDP's exact samplers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from connectors.base import ConfigError
from tasks.shared_noise import require_share

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tasks.shared_noise import SharedNoise


def add_discrete_gaussian(
    values: NDArray[np.int64], sigma_int: float, *, non_private: bool = False
) -> NDArray[np.int64]:
    """Return `values` plus fresh discrete Gaussian noise of parameter `sigma_int`, drawn for every entry by itself.

    `values`: int64, any shape. The sampler (Canonne, Kamath and Steinke 2020) is exact and cannot be seeded, so no
    floating-point bits and no repeated draw give a value away. `sigma_int` 0 returns the values as they are and is
    refused unless `non_private` says that no protection is wanted. Raises ConfigError.
    """
    if values.dtype != np.int64:
        raise ConfigError(f"Noise is added to 64-bit integers, not to {values.dtype}; scale the votes first.")
    if not 0 <= sigma_int < math.inf:
        raise ConfigError(f"Noise needs a finite sigma from 0, not {sigma_int!r}.")
    if (sigma_int == 0) != non_private:
        raise ConfigError("Noise of sigma 0 and the mark non_private go together; set privacy.epsilon to inf for both.")
    if non_private or values.size == 0:
        return values.copy()
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    measurement = dp.m.make_gaussian(*space, scale=float(sigma_int))
    drawn = np.asarray(measurement(values.ravel()), dtype=np.int64)
    return drawn.reshape(values.shape)


def add_noise_share(values: NDArray[np.int64], noise: SharedNoise) -> NDArray[np.int64]:
    """Return `values` plus one party's share of the noise of `noise`, fresh for every entry; to be masked, not shown.

    A share protects nobody by itself: only the sum of all parties may be read. No noise if the run is non-private.
    """
    if not noise.total.non_private:
        require_share(noise.share_int)
    return add_discrete_gaussian(values, noise.share_int, non_private=noise.total.non_private)


def add_discrete_laplace(values: NDArray[np.int64], scale_int: float) -> NDArray[np.int64]:
    """Return `values` plus fresh discrete Laplace noise, drawn for every entry by itself; P(k) ~ exp(-|k|/scale_int).

    `values`: int64, any shape. Exact (Ghosh, Roughgarden and Sundararajan 2012) and never seeded. Raises ConfigError.
    """
    if values.dtype != np.int64:
        raise ConfigError(f"Noise is added to 64-bit integers, not to {values.dtype}; scale the sums first.")
    if not 0 < scale_int < math.inf:
        raise ConfigError(f"Laplace noise needs a finite scale above 0, not {scale_int!r}.")
    if values.size == 0:
        return values.copy()
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    drawn = np.asarray(dp.m.make_laplace(*space, scale=float(scale_int))(values.ravel()), dtype=np.int64)
    return drawn.reshape(values.shape)
