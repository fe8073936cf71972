"""What is shown of many vectors."""

import numpy as np

from tasks.judging import thin


def test_a_map_shows_a_few_of_many_vectors_in_their_order_and_the_same_each_time():
    vectors = np.arange(1000, dtype=np.float32)[:, None]
    few = thin(vectors, 200, seed=3)
    assert len(few) == 200
    assert (np.diff(few[:, 0]) > 0).all()
    assert np.array_equal(few, thin(vectors, 200, seed=3))
    assert thin(vectors, 1000, seed=3) is vectors
