"""What is shown of many vectors."""

import numpy as np

from tasks.metrics import registry
from tasks.metrics.metrics import thin
from tasks.metrics.registry import LabelledRows, MetricInput


def test_a_map_shows_a_few_of_many_vectors_in_their_order_and_the_same_each_time():
    vectors = np.arange(1000, dtype=np.float32)[:, None]
    few = thin(vectors, 200, seed=3)
    assert len(few) == 200
    assert (np.diff(few[:, 0]) > 0).all()
    assert np.array_equal(few, thin(vectors, 200, seed=3))
    assert thin(vectors, 1000, seed=3) is vectors


def test_coverage_is_measured_on_a_part_of_many_rows_and_left_out_where_there_are_too_few(monkeypatch):
    monkeypatch.setattr(registry, "COVERED", 300)
    draws = np.random.default_rng(0)
    real, inside = draws.normal(size=(900, 2)), draws.normal(size=(800, 2)) * 0.2

    def coverage(rows):
        return MetricInput(LabelledRows((), (), inside), LabelledRows((), (), rows), 1).coverage

    precision, recall = coverage(real)
    assert precision > 0.95
    assert recall < 0.3
    assert coverage(real[:3]) == (None, None)
