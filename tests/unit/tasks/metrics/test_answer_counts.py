"""Answers that are not one whole text: counted by model and reason, degraded above a share."""

from dataclasses import replace

import pandas as pd
import pytest

from connectors.interfaces.traffic import Traffic
from tasks.metrics.answer_counts import (
    AnswerCounts,
    count_answers,
    describe_findings,
    describe_problems,
)
from tests.support.data.reports import one_iteration

WHOLE, CUT = (
    "It hurts since Monday. Rest helps.",
    "It hurts since Monday. Rest helps only when I lie on the left",
)


def test_counts_are_summed_over_iterations_and_by_model() -> None:
    endpoints = {"gpt at h": Traffic(answered=10, from_others=4, served=("mini",), short_prompts=1)}
    of_iteration = {
        "failures": {"gpt": {"format": 2, "duplicate": 3}},
        "usable": {"gpt": 5, "small": 4},
        "several": {"gpt": 1},
        "endpoints": endpoints,
    }
    facts = [one_iteration(number, **of_iteration) for number in range(2)]
    texts = pd.DataFrame(
        {
            "plm": ["gpt"] * 3 + ["small"],
            "text": [WHOLE, CUT, WHOLE, WHOLE],
            "finish_reason": "stop",
        }
    )
    counts = count_answers(facts, texts)
    assert counts == {
        "gpt": AnswerCounts(3, 1, 20, 2, {"format": 4}, 20, 8, ("mini",), 2),
        "small": AnswerCounts(1, 0, 8),
    }
    assert describe_findings(counts) == [
        "gpt: 1 of 3 texts end in the middle of a sentence",
        "gpt: 4 of 20 answers were left out (4 format)",
        "gpt: 2 of 20 answers contained several texts; the first was used",
        "gpt: 8 of 20 answers came from another model (mini)",
        "gpt: 2 of 20 prompts were probably cut by the server",
    ]
    assert describe_problems(counts) == [
        "gpt: 1 of 3 texts end in the middle of a sentence. Raise max_tokens",
        "gpt: 8 of 20 answers came from another model (mini). Check `model`",
    ]


@pytest.mark.parametrize(("cut", "problems"), [(0, 0), (25, 0), (26, 1)])
def test_a_run_is_degraded_above_a_quarter(cut: int, problems: int) -> None:
    assert len(describe_problems({"m": AnswerCounts(texts=100, answers=100, cut=cut)})) == problems


@pytest.mark.parametrize(("left_out", "problems"), [(40, 0), (41, 1)])
def test_a_run_is_degraded_if_many_answers_were_left_out(left_out: int, problems: int) -> None:
    counts = AnswerCounts(texts=100, answers=100, left_out={"too_short": left_out - 1, "empty": 1})
    assert len(describe_problems({"m": counts})) == problems
    # What does not degrade a run is shown nevertheless.
    assert len(describe_findings({"m": counts})) == 1


def test_a_stub_degrades_no_run_and_is_still_described() -> None:
    counts = {"terse": AnswerCounts(texts=100, answers=100, cut=60)}
    assert describe_problems(counts, stubs=("terse",)) == []
    assert describe_findings(counts) == ["terse: 60 of 100 texts end in the middle of a sentence"]


def test_mlflow_gets_the_counts_by_model_and_reason() -> None:
    facts = replace(
        one_iteration(0),
        cut={"gpt-4o": 2},
        several={"gpt-4o": 3},
        failures={"gpt-4o": {"format": 4}},
    )
    facts = replace(
        facts, endpoints={"gpt-4o at h": Traffic(answered=9, from_others=5, short_prompts=6)}
    )
    numbers = facts.metrics()
    names = ("cut", "several", "left_out_format", "calls_from_others", "calls_short_prompts")
    assert [numbers[f"{name}/gpt-4o"] for name in names] == [2.0, 3.0, 4.0, 5.0, 6.0]


def test_mlflow_gets_the_share_of_phrases_that_texts_contain() -> None:
    facts = replace(
        one_iteration(0), phrases={"small": 20, "idle": 4}, phrases_used={"small": 5, "idle": 0}
    )
    numbers = facts.metrics()
    assert (numbers["phrases_used/small"], numbers["phrases_used/idle"]) == (0.25, 0.0)
    assert not any(name.startswith("phrases_used") for name in one_iteration(0).metrics())
