"""Measures of synthetic text: FID, MMD, coverage, lengths, a map."""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from connectors.interfaces.errors import InputError

Vectors = NDArray[np.floating]
Factor = NDArray[np.float64]

_BLOCK = 2048
_STRIP = 128
"""Rows that are computed at once where a block of them would need a second block of memory."""
NEIGHBOURS = 3
"""k of precision and recall, as in their paper."""


def fid(a: Vectors, b: Vectors) -> float:
    """Return the Frechet distance between Gaussians fitted to two sets of embeddings.

    FID of Heusel et al. 2017. a, b: shapes (n, d) and (m, d), at least two rows each; covariances with n - 1. Never
    negative, symmetric.
    |mean_a - mean_b|^2 + tr(S_a) + tr(S_b) - 2 tr((S_a S_b)^(1/2)), the last trace as the nuclear norm of A B^T with
    S_a = A^T A and S_b = B^T B: exact to about 1e-15 even where n < d and the covariances are singular.
    Small samples have a large distance on their own: compare only equal sizes, or `mmd`. Many rows are read in blocks,
    twice; in addition to the vectors, memory contains only a few (d, d) matrices.
    """
    first = _matrix(a)
    second = _matrix(b)
    mean_a, factor_a = _gaussian(first)
    mean_b, factor_b = _gaussian(second)
    difference = mean_a - mean_b
    # The nuclear norm, because a square root of S_a S_b is complex and inexact for singular covariances.
    common = np.linalg.svd(factor_a @ factor_b.T, compute_uv=False).sum()
    distance = difference @ difference + (factor_a**2).sum() + (factor_b**2).sum() - 2.0 * common
    return max(0.0, float(distance))


def mmd(synthetic: Vectors, reference: Vectors) -> float:
    """Return 1000 times the squared maximum mean discrepancy of two sets of vectors, at least two rows each.

    The unbiased estimate of Gretton et al. 2012, Eq. 3, with the Gaussian kernel exp(-|x - y|^2 / s) and s the median
    squared distance of two reference rows. Its mean is 0 for equal distributions at any number of rows, unlike FID; it
    may be negative.
    """
    a = _as_float64(synthetic)
    b = _as_float64(reference)
    # The median of a part of the rows is close enough for a scale.
    few = b[:_BLOCK]
    scale = max(
        float(np.median(_squared(few, few)[np.triu_indices(len(few), 1)])), np.finfo(float).tiny
    )

    def total(x: Factor, y: Factor) -> float:
        return float(sum(_kernel(block, y, scale).sum() for block in _blocks(x)))

    n = len(a)
    m = len(b)
    within = (total(a, a) - n) / (n * (n - 1)) + (total(b, b) - m) / (m * (m - 1))
    return 1000 * (within - 2 * total(a, b) / (n * m))


def precision_recall(
    synthetic: Vectors, reference: Vectors, neighbours: int = NEIGHBOURS
) -> tuple[float, float]:
    """Return (precision, recall) of k-nearest-neighbour manifolds, each 0 to 1.

    Kynkaanniemi et al. 2019, Eq. 1-2. precision: share of synthetic rows within some reference row's distance to its
    k-th neighbour; recall: the same with the roles exchanged. Both sets need more than k rows.
    """
    a = _as_float64(synthetic)
    b = _as_float64(reference)
    return _covered(a, b, neighbours), _covered(b, a, neighbours)


def map_2d(vectors: Vectors) -> NDArray[np.float32]:
    """Return points (rows, 2) along the two principal axes, which show vectors on a page.

    The largest coordinate of each axis is positive: equal vectors give equal maps.
    """
    rows = _as_float64(vectors, least=1)
    left, lengths, _ = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    points = (left * lengths)[:, :2]
    largest = points[np.abs(points).argmax(axis=0), np.arange(points.shape[1])]
    # The sign of an axis depends on the linear algebra of the machine.
    points *= np.where(largest < 0, -1.0, 1.0)
    flat = np.zeros((len(rows), 2), dtype=np.float32)
    flat[:, : points.shape[1]] = points
    return flat


def _gaussian(rows: Vectors) -> tuple[Factor, Factor]:
    """Return the mean and F with F^T F = the covariance of `rows`.

    Few rows: the centred rows themselves. Many rows: the triangle of their QR, updated block by block, which is exact
    for singular covariances too.
    """
    mean = np.sum([_finite(block).sum(axis=0) for block in _blocks(rows)], axis=0) / len(rows)
    scale = np.sqrt(len(rows) - 1)
    if len(rows) <= rows.shape[1]:
        return mean, (rows - mean) / scale
    triangle = np.zeros((0, rows.shape[1]))
    for block in _blocks(rows):
        triangle = np.asarray(
            np.linalg.qr(np.concatenate([triangle, block - mean]), mode="r"), dtype=np.float64
        )
    return mean, triangle / scale


def _covered(points: Factor, centres: Factor, neighbours: int) -> float:
    radius = np.concatenate([_nearest(block, centres, neighbours) for block in _blocks(centres)])
    inside = [(_squared(block, centres) <= radius).any(axis=1) for block in _blocks(points)]
    return float(np.concatenate(inside).mean())


def _nearest(rows: Factor, centres: Factor, number: int) -> Factor:
    """Return each row's squared distance to its nearest centre of this number, from 0."""
    distances = _squared(rows, centres)
    distances.partition(number, axis=1)
    # A copy: a column alone would keep all distances in memory.
    return distances[:, number].copy()


def _blocks(rows: Vectors) -> Iterator[Factor]:
    for start in range(0, len(rows), _BLOCK):
        yield np.asarray(rows[start : start + _BLOCK], dtype=np.float64)


def _squared(a: Factor, b: Factor) -> Factor:
    """Return the squared distances of all pairs, shape (rows of a, rows of b)."""
    lengths = _lengths(a)
    others = _lengths(b)
    # One matrix product instead of differences of all pairs, and all else in its memory: a product of `_BLOCK` and
    # 5,000 rows takes 80 MB.
    distances = a @ b.T
    distances *= 2.0
    for start in range(0, len(distances), _STRIP):
        strip = distances[start : start + _STRIP]
        np.subtract(lengths[start : start + _STRIP, None] + others, strip, out=strip)
    # Rounding can leave equal vectors slightly below zero.
    return np.asarray(np.maximum(distances, 0.0, out=distances), dtype=np.float64)


def _kernel(a: Factor, b: Factor, scale: float) -> Factor:
    """Return exp(-|x - y|^2 / scale) of all pairs."""
    values = _squared(a, b)
    np.negative(values, out=values)
    values /= scale
    return np.asarray(np.exp(values, out=values), dtype=np.float64)


def _lengths(rows: Factor) -> Factor:
    """Return the squared length of each row."""
    lengths = np.empty(len(rows))
    for start in range(0, len(rows), _STRIP):
        lengths[start : start + _STRIP] = (rows[start : start + _STRIP] ** 2).sum(axis=1)
    return lengths


def _as_float64(vectors: Vectors, least: int = 2) -> Factor:
    return _finite(np.asarray(_matrix(vectors, least), dtype=np.float64))


def _matrix(vectors: Vectors, least: int = 2) -> Vectors:
    """Return vectors as a matrix.

    The InputError contains no number of rows, since rows may be private.
    """
    rows = np.asarray(vectors)
    if rows.ndim != 2 or len(rows) < least or not rows.shape[1]:
        raise InputError(
            f"A measure needs a matrix of vectors, one row per text, with at least {least} rows."
        )
    return rows


def _finite(rows: Factor) -> Factor:
    if not np.isfinite(rows).all():
        raise InputError(
            "A measure needs finite vectors; some numbers are infinite or missing. Embed the texts again."
        )
    return rows


def thin(vectors: Vectors, most: int, seed: int) -> Vectors:
    """Return at most `most` vectors, sampled with `seed`, in their original order."""
    if len(vectors) <= most:
        return vectors
    return vectors[thinned(len(vectors), most, seed)]


def thinned(rows: int, most: int, seed: int) -> NDArray[np.int64]:
    """Return the ascending positions of at most `most` of `rows` rows, sampled with `seed`."""
    if rows <= most:
        return np.arange(rows)
    return np.sort(np.random.default_rng(seed).choice(rows, most, replace=False))


def weighted_scores(per_class: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return precision, recall and F1, each the mean over classes weighted by their test rows; empty without rows.

    `per_class`: class -> precision, recall, f1, rows. The weighted recall is the accuracy.
    """
    rows = sum(scores.get("rows", 0) for scores in per_class.values())
    if not rows:
        return {}
    return {
        f"weighted_{name}": sum(scores[name] * scores["rows"] for scores in per_class.values())
        / rows
        for name in ("precision", "recall", "f1")
    }
