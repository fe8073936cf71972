"""Weights of the language models and the numbers that follow from them."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.interfaces.errors import ConfigError
from tasks.guidance.weights import weigh
from tasks.steps.allocation import allocate, per_class

PLMS = ("x", "y", "z")


def tables(near, writers):
    ids = np.arange(len(near), dtype=np.int64)
    return pd.DataFrame({"sample_id": ids, "near": near}), pd.DataFrame(
        {"sample_id": ids, "plm": list(writers)}
    )


def weights(*arguments, **options):
    table = weigh(*arguments, **options)
    assert table["weight"].sum() == pytest.approx(1)
    assert table["share"].sum() == pytest.approx(1)
    return dict(zip(table["plm"], table["weight"], strict=True))


@pytest.mark.parametrize("near", [[-5, 3, 1], [0, 0, 0], [4, -4, 0]])
def test_votes_that_add_up_to_nothing_leave_the_weights_as_they_were(near):
    release, samples = tables(near, "xyz")
    assert weights(release, samples, PLMS) == pytest.approx(dict.fromkeys(PLMS, 1 / 3))
    before = {"z": 0.2, "y": 0.3, "x": 0.5}
    assert weights(release, samples, PLMS, previous=before) == pytest.approx(before)


def test_uniform_weights_do_not_look_at_the_votes():
    table = weights(*tables([100, 1, 1], "xyz"), PLMS, None, {"x": 1.0, "y": 0.0, "z": 0.0})
    assert table == pytest.approx(dict.fromkeys(PLMS, 1 / 3))


# --- allocate
def test_a_split_is_by_largest_remainder_and_a_starved_plm_writes_five_percent_of_an_equal_share():
    assert allocate(10, {"x": 0.5, "y": 0.25, "z": 0.25}, floor=0) == {"x": 5, "y": 3, "z": 2}
    assert allocate(1200, {"x": 1.0, "y": 0.0, "z": 0.0}) == {"x": 1160, "y": 20, "z": 20}
    assert allocate(1000, {"x": 0.6, "y": 0.4}) == {"x": 600, "y": 400}
    for impossible in ({"x": 0.0}, {"x": -1.0, "y": 2.0}, {"x": math.nan}, {}):
        with pytest.raises(ConfigError, match="weights: .* is not allowed"):
            allocate(10, impossible)


some_weights = st.lists(st.floats(0, 1e6), min_size=1, max_size=12).filter(
    lambda values: sum(values) > 0
)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 100_000), some_weights, st.sampled_from([0.0, 0.05, 0.5, 1.0]))
def test_every_split_is_exact_fair_and_above_the_floor(total, values, floor):
    named = {f"plm{k}": value for k, value in enumerate(values)}
    counts = allocate(total, named, floor)
    assert sum(counts.values()) == total
    assert list(counts) == list(named)
    assert min(counts.values()) >= int(floor * total / len(values) + 1e-9)
    for entry, weight in named.items():
        assert all(counts[entry] >= counts[other] for other in named if weight > named[other])
        assert all(
            abs(counts[entry] - counts[other]) <= 1 for other in named if weight == named[other]
        )
        assert floor or abs(counts[entry] - total * weight / sum(values)) < 1 + 1e-6


def by_hand(rows):
    """Eq. 8 in plain Python: votes per model, negative totals as 0, over its share of the samples."""
    if sum(near for near, _ in rows) <= 0:
        return [1 / len(PLMS)] * len(PLMS)
    totals = [max(0, sum(near for near, plm in rows if plm == name)) for name in PLMS]
    sizes = [sum(plm == name for _, plm in rows) / len(rows) for name in PLMS]
    raw = [
        total / sum(totals) / size if size else 1 for total, size in zip(totals, sizes, strict=True)
    ]
    return [weight / sum(raw) for weight in raw]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-1000, 1000), st.sampled_from(PLMS)), max_size=60), st.booleans()
)
def test_weights_are_those_of_plain_python_in_any_order_of_rows(rows, softmax):
    release, samples = tables([row[0] for row in rows], [row[1] for row in rows])
    table = weigh(release, samples, PLMS, "softmax" if softmax else "linear")
    for column in ("weight", "share"):
        assert table[column].between(0, 1).all()
        assert table[column].sum() == pytest.approx(1)
    if not softmax:
        assert list(table["weight"]) == pytest.approx(by_hand(rows))
        other = weigh(release.iloc[::-1], samples.sample(frac=1, random_state=0), PLMS)
        assert list(other["weight"]) == pytest.approx(list(table["weight"]))
    assert (
        sum(allocate(1200, dict(zip(table["plm"], table["weight"], strict=True))).values()) == 1200
    )


# --- classes
def test_the_spare_texts_of_a_count_go_round_the_classes():
    assert per_class(7, "abc") == {"a": 3, "b": 2, "c": 2}
    assert per_class(7, "abc", offset=5) == {"a": 2, "b": 2, "c": 3}


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(0, 500), min_size=1, max_size=8),
    st.integers(1, 12),
    st.integers(0, 10_000),
)
def test_classes_stay_balanced_within_each_plm_and_over_all(counts, classes, offset):
    labels = [f"label {k}" for k in range(classes)]
    dealt = [per_class(count, labels, offset + sum(counts[:k])) for k, count in enumerate(counts)]
    for count, of_plm in zip(counts, dealt, strict=True):
        assert sum(of_plm.values()) == count
        assert max(of_plm.values()) - min(of_plm.values()) <= 1
    together = [sum(of_plm[label] for of_plm in dealt) for label in labels]
    assert max(together) - min(together) <= 1
