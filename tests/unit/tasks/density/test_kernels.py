"""Features of vectors: never longer than 1, and none for a vector without a direction."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.density.kernels import counted, features_of


def test_no_vector_has_features_longer_than_1_and_an_odd_one_has_none() -> None:
    rng = np.random.default_rng(0)
    odd = np.array([np.zeros(24), np.full(24, np.nan), np.full(24, np.inf), np.full(24, 1e200)])
    features = features_of(np.concatenate([1e3 * rng.standard_normal((240, 24)), odd]))
    assert features.shape == (244, 25)
    assert np.linalg.norm(features, axis=1).max() <= 1 + 1e-12
    assert not features[-4:].any()
    assert counted(features[:5].sum(axis=0)) == pytest.approx(5)
