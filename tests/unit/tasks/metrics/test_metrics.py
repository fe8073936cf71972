import tracemalloc

import mpmath
import numpy as np
import pytest
import scipy.linalg
from sklearn.metrics import precision_recall_fscore_support

from connectors.interfaces.errors import InputError
from tasks.metrics import metrics, registry
from tasks.metrics.metrics import fid, map_2d, mmd, precision_recall, thin, weighted_scores
from tasks.metrics.registry import LabelledRows, MetricInput
from tasks.students.train import evaluate


def _many(draw):
    mixing = draw.normal(size=(2, 8, 8))
    return draw.normal(size=(60, 8)) @ mixing[0] / 8, draw.normal(0.3, 1.2, size=(50, 8)) @ mixing[
        1
    ] / 8


def _few(draw):
    return draw.normal(size=(9, 16)) / 4, draw.normal(0.1, size=(12, 16)) / 4


def _singular(draw):
    flat = np.zeros((3, 8))
    flat[[0, 1, 2], [0, 3, 5]] = 1.0
    return draw.normal(size=(20, 3)) @ flat, draw.normal(size=(14, 3)) @ flat[:, ::-1] / 2


def _nearly_singular(draw):
    scales = np.array([1.0, 1.0, 1.0, 1e-6, 1e-6, 1e-6])
    turn = np.linalg.qr(draw.normal(size=(6, 6)))[0]
    return tuple(draw.normal(size=(15, 6)) * entry @ turn for entry in (scales, scales[::-1]))


@pytest.mark.parametrize(
    ("rows", "seed"), [(_many, 2), (_few, 3), (_singular, 4), (_nearly_singular, 13)]
)
def test_fid_is_exact_to_twelve_digits(rows, seed):
    a, b = rows(np.random.default_rng(seed))
    assert abs(fid(a, b) - by_sixty_digits(a, b)) <= 1e-12


def test_fid_of_rows_read_in_blocks_is_exact_to_twelve_digits(monkeypatch):
    generator = np.random.default_rng(14)
    a, b = generator.normal(size=(23, 6)) / 3, generator.normal(0.1, size=(31, 6)) / 3
    flat = np.concatenate([a[:, :2], np.zeros((23, 4))], axis=1)
    for block in (1, 7, 64):
        monkeypatch.setattr(metrics, "_BLOCK", block)
        assert abs(fid(a, b) - by_sixty_digits(a, b)) <= 1e-12
        assert abs(fid(flat, b) - by_sixty_digits(flat, b)) <= 1e-12
        with pytest.raises(InputError, match="finite"):
            fid(a, np.where(np.arange(31)[:, None] == 30, np.nan, b))


def test_fid_of_float32_vectors_is_computed_in_float64():
    generator = np.random.default_rng(5)
    a, b = (generator.normal(size=(80, 32)).astype(np.float32) for _ in range(2))
    assert fid(a, b) == fid(a.astype(np.float64), b.astype(np.float64))


def test_fid_refuses_what_has_no_covariance():
    good = np.random.default_rng(0).normal(size=(5, 3))
    for bad in (good[:1], np.full((5, 3), np.nan), good[0]):
        with pytest.raises(InputError):
            fid(good, bad)


def test_mmd_is_zero_on_average_at_any_size_where_fid_is_far_above_and_larger_for_others():
    generator = np.random.default_rng(7)
    reference = generator.normal(size=(400, 16))
    values = {
        n: [mmd(generator.normal(size=(n, 16)), reference) for _ in range(200)] for n in (5, 50)
    }
    for equal in values.values():
        assert abs(np.mean(equal)) < 4 * np.std(equal) / np.sqrt(200)
        assert min(equal) < 0
    assert mmd(generator.normal(0.5, size=(50, 16)), reference) > max(values[50])
    assert fid(generator.normal(size=(5, 16)), reference) > 20 * fid(
        generator.normal(size=(400, 16)), reference
    )


def test_mmd_equals_its_sums_over_pairs_and_does_not_depend_on_blocks_or_scale(monkeypatch):
    generator = np.random.default_rng(8)
    a, b = generator.normal(size=(9, 3)), generator.normal(0.3, size=(7, 3))
    square = {(i, j): ((b[i] - b[j]) ** 2).sum() for i in range(7) for j in range(i)}
    kernel = lambda x, y: np.exp(-((x - y) ** 2).sum() / np.median(list(square.values())))  # noqa: E731
    pairs = [
        np.mean([kernel(x, y) for i, x in enumerate(c) for j, y in enumerate(c) if i != j])
        for c in (a, b)
    ]
    expected = 1000 * (sum(pairs) - 2 * np.mean([kernel(x, y) for x in a for y in b]))
    for block in (7, 64):
        monkeypatch.setattr(metrics, "_BLOCK", block)
        assert mmd(a, b) == pytest.approx(expected, rel=1e-12)
        assert mmd(5 * a, 5 * b) == pytest.approx(expected, rel=1e-9)


def test_precision_and_recall_distinguish_narrow_from_broad():
    generator = np.random.default_rng(9)
    reference = generator.normal(size=(300, 2))
    narrow = generator.normal(size=(300, 2)) * 0.2
    far = generator.normal(50.0, size=(300, 2))
    precision, recall = precision_recall(narrow, reference)
    assert precision > 0.95
    assert recall < 0.5
    assert precision_recall(far, reference) == (0.0, 0.0)
    assert precision_recall(reference, reference) == (1.0, 1.0)


def test_copies_of_rows_are_covered_where_the_rows_repeat():
    # A row with three equal ones has a manifold of radius 0: its copies are on the edge, not inside.
    rows = np.random.default_rng(4).normal(size=(60, 384)).repeat(5, axis=0)
    copies = rows[np.random.default_rng(5).permutation(len(rows))]
    assert precision_recall(copies, rows) == (1.0, 1.0)


def test_the_map_keeps_distances_of_flat_data_and_repeats():
    generator = np.random.default_rng(10)
    flat = generator.normal(size=(60, 2)) * (3.0, 1.0)
    turned = flat @ np.linalg.qr(generator.normal(size=(10, 10)))[0][:2]
    points = map_2d(turned)
    assert np.allclose(
        scipy.spatial.distance.pdist(points), scipy.spatial.distance.pdist(flat), atol=1e-4
    )
    assert np.array_equal(points, map_2d(turned))


@pytest.mark.parametrize("shape", [(1, 5), (2, 5), (4, 1)])
def test_the_map_of_very_few_vectors_is_still_two_columns(shape):
    points = map_2d(np.random.default_rng(0).normal(size=shape))
    assert points.shape == (shape[0], 2)
    assert np.isfinite(points).all()


def test_weighted_scores_are_those_of_the_library() -> None:
    generator = np.random.default_rng(2)
    classes = ("a", "b", "c", "never")
    truth, guessed = (
        generator.choice(classes[:3], 200, p=[0.7, 0.2, 0.1]),
        generator.choice(classes[:3], 200),
    )
    expected = precision_recall_fscore_support(truth, guessed, average="weighted", zero_division=0)[
        :3
    ]
    scores = evaluate(truth.tolist(), guessed.tolist(), classes)
    weighted = weighted_scores(scores["per_class"])
    assert list(weighted.values()) == pytest.approx(list(expected))
    assert weighted["weighted_recall"] == pytest.approx(scores["accuracy"])
    assert weighted_scores({}) == {}


def test_a_map_shows_a_few_of_many_vectors_in_their_order_and_the_same_each_time():
    vectors = np.arange(1000, dtype=np.float32)[:, None]
    few = thin(vectors, 200, seed=3)
    assert len(few) == 200
    assert (np.diff(few[:, 0]) > 0).all()
    assert np.array_equal(few, thin(vectors, 200, seed=3))
    assert thin(vectors, 1000, seed=3) is vectors


def test_coverage_is_measured_on_a_part_of_many_rows_and_left_out_where_there_are_too_few(
    monkeypatch,
):
    monkeypatch.setattr(registry, "COVERED", 300)
    draws = np.random.default_rng(0)
    real, inside = draws.normal(size=(900, 2)), draws.normal(size=(800, 2)) * 0.2

    def coverage(rows):
        return MetricInput(LabelledRows((), (), inside), LabelledRows((), (), rows), 1).coverage

    precision, recall = coverage(real)
    assert precision > 0.95
    assert recall < 0.3
    assert coverage(real[:3]) == (None, None)


# --- FID in 60-digit arithmetic
def by_sixty_digits(a, b):
    """FID through the eigenvalues of the Gram form, in 60-digit arithmetic."""
    with mpmath.workdps(60):
        a, b = (np.vectorize(mpmath.mpf, otypes=[object])(rows) for rows in (a, b))
        apart = ((a.mean(axis=0) - b.mean(axis=0)) ** 2).sum()
        rows_a, rows_b = (
            (rows - rows.mean(axis=0)) / mpmath.sqrt(len(rows) - 1) for rows in (a, b)
        )
        cross = mpmath.matrix((rows_a @ rows_b.T).tolist())
        values = mpmath.eigsy(cross * cross.T, eigvals_only=True)
        common = mpmath.fsum(mpmath.sqrt(max(value, 0)) for value in values)
        return float(apart + (rows_a**2).sum() + (rows_b**2).sum() - 2 * common)


def test_measures_of_many_rows_hold_few_distances_at_once():
    rows = np.random.default_rng(0).normal(size=(4096, 4)).astype(np.float32)
    block = 8 * metrics._BLOCK * len(rows)
    for measure in (mmd, precision_recall):
        tracemalloc.start()
        measure(rows, rows[:300])
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 1.5 * block, measure.__name__
