"""Who lives on: by noisy votes alone, class by class, whatever order the texts stand in."""

import numpy as np
import pandas as pd
import pytest

from tasks.selection.survivors import Survival, survivors


def population(sizes: dict[str, int]) -> pd.DataFrame:
    labels = [label for label, size in sizes.items() for _ in range(size)]
    ids = np.arange(len(labels)) * 7
    texts = [f"text {n}" for n in ids]
    return pd.DataFrame({"sample_id": ids, "text": texts, "label": labels, "plm": "clerk"})


def released(samples: pd.DataFrame, near: list[int]) -> pd.DataFrame:
    return pd.DataFrame({"sample_id": samples["sample_id"], "near": near})


def test_those_with_most_votes_of_each_class_live_on() -> None:
    samples = population({"a": 4, "b": 3})
    kept = survivors(released(samples, [5, -900, 70, 6, 1, 300, 2]), samples, Survival({"a": 2, "b": 1}), 10.0)
    assert kept[["sample_id", "label", "rank", "score", "times"]].values.tolist() == [
        [14, "a", 1, 70.0, 1],
        [21, "a", 2, 6.0, 1],
        [35, "b", 1, 300.0, 1],
    ]


def test_the_threshold_is_counted_in_standard_deviations_and_taken_off() -> None:
    samples = population({"a": 3})
    near = [100, 45, 39]
    kept = survivors(released(samples, near), samples, Survival({"a": 3000}, "draw", threshold=2.0, seed=1), 20.0)
    assert kept["sample_id"].tolist() == [0, 7], "39 is below 2 x 20"
    assert kept["score"].tolist() == [60.0, 5.0]
    assert kept["times"].sum() == 3000
    assert kept["times"].iloc[0] / 3000 == pytest.approx(60 / 65, abs=0.02)


@pytest.mark.parametrize("rule", ["rank", "draw"])
def test_where_no_count_passes_the_lot_decides_and_not_the_order(rule: str) -> None:
    """All bins below the threshold is no error, and does not favour whoever wrote first."""
    samples = population({"a": 200})
    chosen = np.zeros(200)
    for seed in range(40):
        survival = Survival({"a": 50}, rule, threshold=5.0, seed=seed)
        kept = survivors(released(samples, [-n for n in range(200)]), samples, survival, 100.0)
        assert kept["times"].sum() == 50
        chosen[kept["sample_id"] // 7] += 1
    assert chosen[:100].sum() == pytest.approx(chosen[100:].sum(), rel=0.15)


def test_a_small_or_empty_class_shifts_no_other_and_keeps_its_texts() -> None:
    samples = population({"a": 2, "c": 5})
    survival = Survival({"a": 4, "b": 4, "c": 2})
    kept = survivors(released(samples, [3, 4, 9, 1, 8, 2, 7]), samples, survival, 1.0)
    assert kept.groupby("label")["sample_id"].apply(list).to_dict() == {"a": [7, 0], "c": [14, 28]}
    again = survivors(released(samples, [3, 4, 9, 1, 8, 2, 7]).iloc[::-1], samples.iloc[::-1], survival, 1.0)
    assert again["sample_id"].tolist() == kept["sample_id"].tolist()


def test_equal_seeds_draw_equally_and_other_seeds_do_not() -> None:
    samples = population({"a": 60})
    near = list(range(60))
    draws = [
        survivors(released(samples, near), samples, Survival({"a": 30}, "draw", seed=seed), 1.0)["times"].tolist()
        for seed in (1, 1, 2)
    ]
    assert draws[0] == draws[1] != draws[2]
