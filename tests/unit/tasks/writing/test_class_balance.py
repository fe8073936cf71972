"""Texts of each class by the tutor's shares: they add up over rounds and models, and follow the counts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.interfaces.errors import ConfigError
from tasks.writing.class_balance import shares_of, texts_per_class


def test_noisy_counts_below_zero_are_cut_and_the_rest_adds_up_to_one() -> None:
    assert shares_of(np.array([30, -5, 10], dtype=np.int64)) == (0.75, 0.0, 0.25)
    assert shares_of(np.array([-3, -5], dtype=np.int64)) == (0.5, 0.5), "noise alone says nothing"


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(-50, 500), min_size=1, max_size=12),
    st.lists(st.integers(0, 300), min_size=1, max_size=6),
)
def test_parts_dealt_one_after_another_are_what_all_together_would_be(
    counts: list[int], parts: list[int]
) -> None:
    shares = shares_of(np.array(counts, dtype=np.int64))
    labels = [str(number) for number in range(len(shares))]
    total, offset = dict.fromkeys(labels, 0), 0
    for part in parts:
        result = texts_per_class(part, labels, shares, offset)
        assert sum(result.values()) == part
        assert min(result.values()) >= 0
        total = {label: total[label] + result[label] for label in labels}
        offset += part
    assert total == texts_per_class(offset, labels, shares)
    for label, share in zip(labels, shares, strict=True):
        assert abs(total[label] - share * offset) <= max(1.0, len(labels) / 2)
        assert share > 0 or total[label] == 0


def test_without_shares_all_classes_are_equally_large() -> None:
    assert texts_per_class(7, ["a", "b", "c"]) == {"a": 3, "b": 2, "c": 2}
    with pytest.raises(ConfigError, match="shares of 2 classes"):
        texts_per_class(7, ["a", "b", "c"], shares=(0.5, 0.5))
