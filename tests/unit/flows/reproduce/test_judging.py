"""Verdicts on printed and drawn claims: the sign, the family of p-values, and what is not judged yet."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from flows.reproduce.catalogue import StatedClaim
from flows.reproduce.judging import _adjusted, judge_claims
from tasks.metrics.comparison import CellResult, Difference
from tasks.reporting.compare_results import Comparison
from tasks.reporting.reproduction import Judgement, verdict_counts

SEEDS = (0, 1, 2, 3, 4)
RESULTS = {
    ("ours", "small"): (0.80, 0.82, 0.81, 0.79, 0.83),
    ("theirs", "small"): (0.70, 0.71, 0.72, 0.69, 0.70),
    ("ours", "large"): (0.90, 0.93, 0.92, 0.91, 0.90),
    ("theirs", "large"): (0.90, 0.92, 0.93, 0.90, 0.91),
}


def comparison(
    seeds: Sequence[int] = SEEDS, published: dict[tuple[str, str, str], float] | None = None
) -> Comparison:
    answers = [
        CellResult(
            row,
            column,
            seed,
            "done",
            {"accuracy": values[seed]},
            curve=[{"fid": 1.0 + 0.01 * seed}, {"fid": None}, {"fid": 0.5 + 0.02 * seed}],
        )
        for (row, column), values in RESULTS.items()
        for seed in seeds
    ]
    return Comparison(
        "A test",
        ("ours", "theirs"),
        ("small", "large"),
        (None, None),
        SEEDS,
        ("accuracy",),
        tuple(answers),
        published or {},
        {},
        "2026-01-01",
        {},
    )


PUBLISHED = {
    ("accuracy", "ours", "small"): 0.9,
    ("accuracy", "theirs", "small"): 0.8,
    ("accuracy", "ours", "large"): 0.9,
    ("accuracy", "theirs", "large"): 0.95,
}


def test_printed_claims_are_judged_by_the_sign_where_p_is_small() -> None:
    small, large = judge_claims(comparison(published=PUBLISHED), [])
    assert (small.claim, small.verdict, small.is_judged) == ("theirs below ours", "holds", True)
    assert (large.claim, large.verdict) == ("theirs above ours", "cannot be seen")
    assert small.published == pytest.approx(-0.1)
    pairs = np.subtract(RESULTS["theirs", "small"], RESULTS["ours", "small"])
    other = np.subtract(RESULTS["theirs", "large"], RESULTS["ours", "large"])
    raw = [float(stats.ttest_1samp(values, 0).pvalue) for values in (pairs, other)]
    assert small.p == pytest.approx(2 * raw[0])
    assert large.p == pytest.approx(raw[1])


def test_a_claim_without_a_result_is_listed_and_not_judged() -> None:
    judgements = judge_claims(comparison([], PUBLISHED), [])
    assert [claim.verdict_text for claim in judgements] == ["not judged", "not judged"]
    assert not any(claim.is_judged for claim in judgements)


def test_some_of_the_seeds_judge_nothing() -> None:
    (few, _) = judge_claims(comparison([0, 1, 2, 3], PUBLISHED), [])
    assert (few.verdict_text, few.is_judged) == ("holds so far", False)
    (single, _) = judge_claims(comparison([0], PUBLISHED), [])
    assert (single.verdict_text, single.is_judged) == ("not judged", False)
    assert verdict_counts([few, single]) == "2 not judged"


def claim(direction: str, **changes: str) -> StatedClaim:
    values = {"text": "a claim", "metric": "accuracy", "row": "ours"}
    return StatedClaim.model_validate(values | {"direction": direction} | changes)


def test_drawn_claims_are_judged_in_each_column_or_between_columns() -> None:
    judgements = judge_claims(
        comparison(),
        [
            claim("above", than="theirs"),
            claim("below", column="small", than_column="large"),
            claim("above", column="small", than_column="large"),
        ],
    )
    assert [(entry.column, entry.verdict) for entry in judgements] == [
        ("small", "holds"),
        ("large", "cannot be seen"),
        ("small", "holds"),
        ("small", "does not hold"),
    ]
    pairs = np.subtract(RESULTS["ours", "small"], RESULTS["theirs", "small"])
    other = np.subtract(RESULTS["ours", "small"], RESULTS["ours", "large"])
    raw = [float(stats.ttest_1samp(values, 0).pvalue) for values in (pairs, other)]
    # Four p-values of one metric: the smallest is multiplied by four, the next by three.
    assert judgements[0].p == pytest.approx(4 * raw[0])
    assert judgements[2].p == pytest.approx(3 * raw[1])
    assert all(entry.published is None for entry in judgements)


def test_a_curve_falls_if_its_last_value_is_below_its_first() -> None:
    falls = claim("falling", metric="fid", column="small")
    rises = claim("rising", metric="fid", column="small")
    (falling, rising) = judge_claims(comparison(), [falls, rises])
    assert (falling.verdict, rising.verdict) == ("holds", "does not hold")
    assert falling.ours is not None
    assert falling.ours.mean == pytest.approx(np.mean([-0.5 + 0.01 * seed for seed in SEEDS]))


def test_a_claim_that_is_not_measured_counts_in_the_family() -> None:
    printed = PUBLISHED | {("accuracy", "ours", "later"): 0.9, ("accuracy", "theirs", "later"): 0.8}
    with_later = replace(comparison(published=printed), columns=("small", "large", "later"))
    small, _, later = judge_claims(with_later)
    pairs = np.subtract(RESULTS["theirs", "small"], RESULTS["ours", "small"])
    assert small.p == pytest.approx(3 * float(stats.ttest_1samp(pairs, 0).pvalue))
    assert (later.p, later.verdict_text) == (None, "not judged")


def test_seeds_that_are_missing_never_change_the_verdict_of_a_judged_claim() -> None:
    whole = comparison(published=PUBLISHED)
    # The other claim has three seeds, whose p-value may become any other.
    some = [entry for entry in whole.answers if entry.column == "small" or entry.seed < 3]
    small, large = judge_claims(replace(whole, answers=tuple(some)))
    pairs = np.subtract(RESULTS["theirs", "small"], RESULTS["ours", "small"])
    assert small.p == pytest.approx(2 * float(stats.ttest_1samp(pairs, 0).pvalue))
    assert large.verdict_text == "cannot be seen so far"


def test_a_stated_claim_about_the_reference_replaces_that_of_the_published_figures() -> None:
    stated = StatedClaim(
        text="theirs above ours",
        metric="accuracy",
        row="theirs",
        direction="above",
        than="ours",
        columns=["small"],
        published={"small": 0.25},
    )
    large, small = judge_claims(comparison(published=PUBLISHED), [stated])
    assert (large.column, large.published) == ("large", pytest.approx(0.05))
    assert (small.column, small.published, small.verdict) == ("small", 0.25, "does not hold")


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=12),
    st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=12),
)
def test_claims_that_are_judged_later_undo_no_verdict(
    judged: list[float], later: list[float]
) -> None:
    def of(p: float | None) -> Judgement:
        ours = None if p is None else Difference(0.1, 0.0, 0.2, 5, p)
        return Judgement("a claim", "accuracy", "one", None, ours, None, "", 5)

    before = _adjusted([of(p) for p in [*judged, *[None] * len(later)]])
    after = _adjusted([of(p) for p in [*judged, *later]])
    for first, last in zip(before, after[: len(judged)], strict=False):
        assert first is not None
        assert last is not None
        assert last <= first
