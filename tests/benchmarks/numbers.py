"""FID against the usual matrix root; the noise step against the bare sampler."""

from typing import Any

import numpy as np

from tasks.measure import fid
from tasks.private.noise import VERY_MANY, add_discrete_gaussian
from tests.benchmarks.goals import toward
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
    """Both histograms of one release of 6,000 texts; those of a million; what an iteration embeds meanwhile."""
    rounds = 1 if tiny else 5
    counts = np.zeros((20 if tiny else 6_000, 2), dtype=np.int64)
    many = np.zeros((VERY_MANY if tiny else 1_000_000, 2), dtype=np.int64)
    share = 400 if tiny else 20
    bare, part = _opendp(), many.ravel()[: many.size // share]
    ordinary = compare(
        "noise", f"{counts.size} counts", lambda: add_discrete_gaussian(counts, SIGMA_INT),
        {"bare OpenDP": lambda: bare(counts.ravel())}, rounds,
    )  # fmt: skip
    note = {"bare OpenDP, a part": f"OpenDP draws 1/{share} of them"}
    large = compare(
        "noise", f"{many.size} counts", lambda: add_discrete_gaussian(many, SIGMA_INT),
        {"bare OpenDP, a part": lambda: bare(part)}, min(rounds, 3), note,
    )  # fmt: skip
    return [
        *(toward(one, "P21") for one in ordinary),
        *(toward(one, "P21", one.ratio / share) for one in large),
        *([] if tiny else _beside_embedding(counts)),
    ]


def _opendp() -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64"), scale=SIGMA_INT)


def _beside_embedding(counts: Any) -> list[Line]:
    """Compare an iteration's noise with the embedding of a tenth of its 1,200 texts; vote and student are left out."""
    from connectors.embedders import open_embedder

    embedder = open_embedder("sentence_transformers", "embedded", {})
    texts = [f"Text {number}: my card was not accepted in the shop yesterday" for number in range(120)]
    lines = compare(
        "noise", f"{counts.size} counts", lambda: add_discrete_gaussian(counts, SIGMA_INT),
        {"embedding of 120 texts": lambda: embedder.embed(texts)}, 3,
    )  # fmt: skip
    return [toward(one, "P21-share", one.ratio / 10) for one in lines]
