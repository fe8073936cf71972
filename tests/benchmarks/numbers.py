"""FID against the usual matrix root; the noise step against the bare sampler."""

from typing import Any

import numpy as np

from tasks.measure import fid
from tasks.private.noise import add_discrete_gaussian
from tests.benchmarks.race import Line, compare

SIGMA_INT = 800.0


def root_fid(a: Any, b: Any) -> float:
    """Return the FID as it is usually computed: the root of the product of both covariances."""
    from scipy.linalg import sqrtm

    apart = a.mean(axis=0) - b.mean(axis=0)
    first, second = np.cov(a, rowvar=False), np.cov(b, rowvar=False)
    return float(apart @ apart + np.trace(first + second - 2 * np.real(sqrtm(first @ second))))


def distance(tiny: bool) -> list[Line]:
    """Sizes of the demo, of a hundred rows, and of many."""
    rng = np.random.default_rng(0)
    lines = []
    for n, m, d in ((30, 20, 8),) if tiny else ((600, 300, 384), (6_000, 100, 768), (6_000, 1_000, 384)):
        a, b = (rng.normal(size=(count, d)).astype(np.float32) for count in (n, m))
        peers = {"scipy.linalg.sqrtm": lambda a=a, b=b: root_fid(a.astype(float), b.astype(float))}
        lines += compare("fid", f"{n} x {m}, d={d}", lambda a=a, b=b: fid(a, b), peers, 1 if tiny else 3)
    return lines


def noise(tiny: bool) -> list[Line]:
    """Both histograms of one release of 6,000 texts."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    counts = np.zeros((20 if tiny else 6_000, 2), dtype=np.int64)
    bare = dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64"), scale=SIGMA_INT)
    flat = counts.ravel()
    return compare(
        "noise",
        f"{counts.size} counts",
        lambda: add_discrete_gaussian(counts, SIGMA_INT),
        {"bare OpenDP": lambda: bare(flat)},
        1 if tiny else 7,
    )
