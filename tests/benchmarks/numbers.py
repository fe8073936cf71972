"""FID against the usual matrix root; the noise step against the bare sampler."""

from dataclasses import replace
from typing import Any

import numpy as np

from tasks.metrics.metrics import fid
from tasks.private.noise.discrete import VERY_MANY, add_discrete_gaussian
from tests.benchmarks.goals import toward
from tests.benchmarks.race import Line, compare
from tests.support.data.exact_fid import by_sixty_digits

SIGMA_INT = 800.0


def root_fid(a: Any, b: Any) -> float:
    """Return the FID as it is usually computed: the root of the product of both covariances."""
    from scipy.linalg import sqrtm

    apart = a.mean(axis=0) - b.mean(axis=0)
    first, second = np.cov(a, rowvar=False), np.cov(b, rowvar=False)
    return float(apart @ apart + np.trace(first + second - 2 * np.real(sqrtm(first @ second))))


def distance(tiny: bool) -> list[Line]:
    """Sizes of the demo, of a hundred rows, and of many; and how far from sixty digits where rows are few."""
    rng = np.random.default_rng(0)
    lines = []
    sizes = {(600, 300, 384): "", (6_000, 100, 768): "P13-few", (6_000, 1_000, 384): "P13", (6_000, 6_000, 768): "P13"}
    for (n, m, d), goal in ({(30, 20, 8): "P13"} if tiny else sizes).items():
        a, b = (rng.normal(size=(count, d)).astype(np.float32) for count in (n, m))
        peers = {"scipy.linalg.sqrtm": lambda a=a, b=b: root_fid(a.astype(float), b.astype(float))}
        found = compare("fid", f"{n} x {m}, d={d}", lambda a=a, b=b: fid(a, b), peers, 1 if tiny else 5)
        lines += [toward(one, goal, 1 / one.ratio) if goal else one for one in found]
    return [*lines, *_many(tiny), _error()]


def _many(tiny: bool) -> list[Line]:
    """A hundred thousand rows of each set, against the two products that their covariances are."""
    size = (40, 8) if tiny else (100_000, 768)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(size, np.float32) for _ in range(2))

    def products() -> None:
        for rows in (a, b):
            for start in range(0, len(rows), 2048):
                part = rows[start : start + 2048].astype(np.float64)
                part.T @ part

    note = {"both covariance products": "float64, in blocks, without means, factors or the root"}
    case = f"{size[0]} x {size[0]}, d={size[1]}"
    return compare("fid", case, lambda: fid(a, b), {"both covariance products": products}, 1 if tiny else 3, note)


def _error() -> Line:
    """Twelve and twenty-four rows of 48 dimensions, where both covariances are singular."""
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(12, 48)) / 7, rng.normal(0.1, size=(24, 48)) / 7
    exact = by_sixty_digits(a, b)
    found = compare("fid", "12 x 24, d=48", lambda: fid(a, b), {"sixty digits": lambda: by_sixty_digits(a, b)}, 1)[0]
    errors = abs(fid(a, b) - exact), abs(root_fid(a, b) - exact)
    note = f"error {errors[0]:.1e}; that of scipy's sqrtm {errors[1]:.1e}"
    return toward(replace(found, note=note), "P13-error", errors[0])


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
    from connectors.embedders.registry import open_embedder

    embedder = open_embedder("sentence_transformers", "embedded", {})
    texts = [f"Text {number}: my card was not accepted in the shop yesterday" for number in range(120)]
    lines = compare(
        "noise", f"{counts.size} counts", lambda: add_discrete_gaussian(counts, SIGMA_INT),
        {"embedding of 120 texts": lambda: embedder.embed(texts)}, 3,
    )  # fmt: skip
    return [toward(one, "P21-share", one.ratio / 10) for one in lines]
