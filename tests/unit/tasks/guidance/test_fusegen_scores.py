"""Selection by private evolution and by FuseGen."""

import numpy as np
import pandas as pd
import pytest

from tasks.guidance.fusegen_scores import DAMPING, Labelled, candidates, influence
from tasks.guidance.survivors import Survival, survivors
from tasks.students.heads import PROBE_STRENGTH, fit_logistic
from tests.support.data.student_rows import vector_rows


def population(sizes: dict[str, int]) -> pd.DataFrame:
    labels = [label for label, size in sizes.items() for _ in range(size)]
    ids = np.arange(len(labels)) * 7
    texts = [f"text {n}" for n in ids]
    return pd.DataFrame({"sample_id": ids, "text": texts, "label": labels, "plm": "clerk"})


def released(samples: pd.DataFrame, near: list[int]) -> pd.DataFrame:
    return pd.DataFrame({"sample_id": samples["sample_id"], "near": near})


def test_those_with_most_votes_of_each_class_live_on() -> None:
    samples = population({"a": 4, "b": 3})
    stored = survivors(
        released(samples, [5, -900, 70, 6, 1, 300, 2]), samples, Survival({"a": 2, "b": 1}), 10.0
    )
    assert stored[["sample_id", "label", "rank", "score", "times"]].values.tolist() == [
        [14, "a", 1, 70.0, 1],
        [21, "a", 2, 6.0, 1],
        [35, "b", 1, 300.0, 1],
    ]


def test_the_threshold_is_counted_in_standard_deviations_and_taken_off() -> None:
    samples = population({"a": 3})
    near = [100, 45, 39]
    stored = survivors(
        released(samples, near), samples, Survival({"a": 3000}, "draw", threshold=2.0, seed=1), 20.0
    )
    assert stored["sample_id"].tolist() == [0, 7], "39 is below 2 x 20"
    assert stored["score"].tolist() == [60.0, 5.0]
    assert stored["times"].sum() == 3000
    assert stored["times"].iloc[0] / 3000 == pytest.approx(60 / 65, abs=0.02)


@pytest.mark.parametrize("rule", ["rank", "draw"])
def test_where_no_count_passes_the_lot_decides_and_not_the_order(rule: str) -> None:
    """All bins below the threshold is no error, and does not favour the model that wrote first."""
    samples = population({"a": 200})
    chosen = np.zeros(200)
    for seed in range(40):
        survival = Survival({"a": 50}, rule, threshold=5.0, seed=seed)
        stored = survivors(released(samples, [-n for n in range(200)]), samples, survival, 100.0)
        assert stored["times"].sum() == 50
        chosen[stored["sample_id"] // 7] += 1
    assert chosen[:100].sum() == pytest.approx(chosen[100:].sum(), rel=0.15)


def test_a_small_or_empty_class_shifts_no_other_and_keeps_its_texts() -> None:
    samples = population({"a": 2, "c": 5})
    survival = Survival({"a": 4, "b": 4, "c": 2})
    stored = survivors(released(samples, [3, 4, 9, 1, 8, 2, 7]), samples, survival, 1.0)
    assert stored.groupby("label")["sample_id"].apply(list).to_dict() == {
        "a": [7, 0],
        "c": [14, 28],
    }
    again = survivors(
        released(samples, [3, 4, 9, 1, 8, 2, 7]).iloc[::-1], samples.iloc[::-1], survival, 1.0
    )
    assert again["sample_id"].tolist() == stored["sample_id"].tolist()


def test_equal_seeds_draw_equally_and_other_seeds_do_not() -> None:
    samples = population({"a": 60})
    near = list(range(60))
    draws = [
        survivors(released(samples, near), samples, Survival({"a": 30}, "draw", seed=seed), 1.0)[
            "times"
        ].tolist()
        for seed in (1, 1, 2)
    ]
    assert draws[0] == draws[1] != draws[2]


# --- cross-model selection: candidates and influence against computations by hand
def test_candidates_come_from_both_ends_of_variability():
    variability = np.array([0.30, 0.10, 0.20, 0.05, 0.40, 0.25])
    easy, ambiguous = candidates(np.full(6, 0.5), variability, 4)
    assert easy.tolist() == [3, 1]
    assert ambiguous.tolist() == [4, 0]


def test_equal_variability_goes_to_the_more_confident_then_to_the_earlier():
    easy, _ = candidates(np.array([0.2, 0.9, 0.9, 0.1]), np.zeros(4), 4)
    assert easy.tolist() == [1, 2]


def test_with_too_few_texts_each_is_a_candidate_once():
    easy, ambiguous = candidates(np.full(3, 0.5), np.array([0.3, 0.1, 0.2]), 40)
    assert sorted([*easy.tolist(), *ambiguous.tolist()]) == [0, 1, 2]


def by_hand(learned, checks, judged, classes):
    """Influence from whole matrices: the curvature as one block matrix, solved directly."""
    weight, bias = fit_logistic(
        learned.vectors, learned.targets, learned.weights, classes, PROBE_STRENGTH
    )
    centre = learned.vectors.mean(axis=0)
    spread = np.sqrt(((learned.vectors - centre) ** 2).sum(axis=1).mean())

    def seen(vectors):
        scores = vectors @ weight.T + bias
        likely = np.exp(scores - scores.max(axis=1, keepdims=True))
        rows = np.hstack([(vectors - centre) / spread, np.ones((len(vectors), 1))])
        return rows, likely / likely.sum(axis=1, keepdims=True)

    rows, likely = seen(learned.vectors)
    size = classes * rows.shape[1]
    curvature = DAMPING * np.eye(size)
    for row, p, share in zip(rows, likely, learned.weights / learned.weights.sum(), strict=True):
        curvature += share * np.kron(np.diag(p) - np.outer(p, p), np.outer(row, row))
    slope = np.zeros(size)
    for row, p, target in zip(*seen(checks.vectors), checks.targets, strict=True):
        unit = np.eye(classes)[target]
        slope += np.kron(p[target] * (p - unit), row) / len(checks.targets)
    steps = np.linalg.solve(curvature, slope)
    return [
        steps @ np.kron(likely[at] - np.eye(classes)[learned.targets[at]], rows[at])
        for at in judged
    ]


def test_influence_is_the_gradient_times_the_inverse_curvature_times_the_gradient():
    rows, more = vector_rows(60, seed=1), vector_rows(30, seed=2)
    weights = np.random.default_rng(3).uniform(0.5, 2, 60)
    learned = Labelled(rows.vectors, rows.targets(), weights)
    checks = Labelled(more.vectors, more.targets(), np.ones(30))
    judged = np.array([4, 17, 33, 59])
    result = influence(learned, checks, 3)[judged]
    assert result == pytest.approx(by_hand(learned, checks, judged, 3), rel=1e-3, abs=1e-7)
