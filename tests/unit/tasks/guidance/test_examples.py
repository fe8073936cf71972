"""The examples of the next prompts."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.interfaces.errors import ArtifactError
from tasks.guidance.examples import join_votes, select
from tasks.writing.examples import examples_of


def tables(near, far, labels=None, texts=None):
    count = len(near)
    ids = np.arange(count, dtype=np.int64) * 3 + 10
    samples = pd.DataFrame(
        {
            "sample_id": ids,
            "label": labels or ["a"] * count,
            "plm": [f"plm{n % 2}" for n in range(count)],
            "text": texts or [f"text {n}" for n in range(count)],
        }
    )
    return pd.DataFrame({"sample_id": ids, "near": near, "far": far}), samples


def ids(selection, label, kind):
    part = selection[(selection["label"] == label) & (selection["kind"] == kind)]
    assert list(part["rank"]) == list(range(1, len(part) + 1))
    return [(value - 10) // 3 for value in part["sample_id"]]


@pytest.mark.parametrize(
    ("count", "good", "bad"),
    [(1, 1, 0), (2, 1, 1), (5, 3, 2), (8, 4, 4), (12, 8, 4), (14, 8, 6), (16, 8, 8), (40, 8, 8)],
)
def test_a_small_class_uses_all_it_has_and_keeps_examples_to_contrast_with(count, good, bad):
    selection = select(*tables(list(range(count)), list(range(count))), 8)
    assert (len(ids(selection, "a", "good")), len(ids(selection, "a", "bad"))) == (good, bad)


def test_the_examples_of_a_selection_are_texts_per_class_by_rank():
    release, samples = tables([1, 2, 3, 4], [4, 3, 2, 1], labels=["a", "a", "b", "b"])
    good, bad = examples_of(select(release, samples, 1))
    assert good == {"a": ("text 1",), "b": ("text 3",)}
    assert bad == {"a": ("text 0",), "b": ("text 2",)}


few = st.integers(-9, 9)
votes = st.lists(st.tuples(few, few, st.sampled_from("abc"), st.integers(0, 40)), max_size=40)


def by_hand(release, samples, top):
    """Label, kind, id and score of the examples, row by row in plain Python."""
    chosen = []
    for label, rows in release.merge(samples, on="sample_id").groupby("label"):
        distinct = rows["text"].str.casefold().nunique()
        bad = min(top, max(distinct - top, min(top, distinct) // 2))
        seen = set()
        for kind, score, number in (
            ("good", "near", min(top, distinct - bad)),
            ("bad", "far", bad),
        ):
            for row in rows.sort_values([score, "sample_id"], ascending=[False, True]).to_dict(
                "records"
            ):
                text = row["text"].casefold()
                if number and text not in seen:
                    seen.add(text)
                    number -= 1
                    chosen.append((label, kind, row["sample_id"], row[score]))
    return chosen


@settings(max_examples=100, deadline=None)
@given(votes, st.integers(1, 9), st.integers(0, 3))
def test_the_selection_is_that_of_plain_python_in_any_order_of_rows(rows, top, left_out):
    near, far, labels, texts = ([row[k] for row in rows] for k in range(4))
    release, samples = tables(
        near, far, labels, [f"Text {n // 2}" if n % 2 else f"text {n // 2}" for n in texts]
    )
    release = release.iloc[left_out:]
    expected = by_hand(release, samples, top)
    for some, written in (
        (release, samples),
        (release.sample(frac=1, random_state=1), samples.sample(frac=1, random_state=2)),
    ):
        selection = select(some, written, top)
        columns = selection[["label", "kind", "sample_id", "score"]]
        assert list(columns.itertuples(index=False, name=None)) == expected


def test_a_strange_id_is_refused():
    release, samples = tables([1, 2, 3], [3, 2, 1])
    with pytest.raises(ArtifactError, match="2 of 3 released sample_ids are not among"):
        join_votes(release, samples.head(1))
