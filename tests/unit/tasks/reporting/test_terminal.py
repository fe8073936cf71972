"""The output of the command fits the terminal and says what is known, not more."""

from dataclasses import replace
from typing import Any

import pytest

from connectors.interfaces.money import format_dollars
from tasks.reporting import terminal as words
from tasks.reporting.run_summary import RunContext, RunSummary, summary_of
from tests.support.data.reports import made_up_report

PLMS = ("gpt2-xl", "llama-2-7b", "vicuna-7b", "opt-6.7b", "chatglm3-6b", "flan-t5-xl")


def iteration(number: int) -> dict[str, Any]:
    return {
        "iteration": number,
        "new": dict.fromkeys(PLMS, 40),
        "weights": dict.fromkeys(PLMS, 0.125),
        "fid": 0.7,
        "not_private": False,
        "accuracy": 0.5,
        "epsilon": 1.0,
    }


@pytest.mark.parametrize("fid", [0.7, None])
def test_what_was_not_measured_is_left_out(fid: float | None) -> None:
    row = iteration(0) | {"fid": fid, "accuracy": None, "probe_accuracy": None}
    printed = words.iterations([row])
    assert ("FID" in printed) == (fid is not None)
    assert "probe" not in printed
    assert "not measured" not in printed


@pytest.mark.parametrize(("protects", "unit"), [("person", " per person in 1"), ("", " in 1")])
def test_a_privacy_loss_names_its_unit(protects: str, unit: str) -> None:
    run = RunSummary(
        run_id="r", dataset="d", epsilon_spent=4.0, delta=1e-5, protects=protects, releases=1
    )
    run = replace(run, iterations=[iteration(0)], stubs=["clerk"])
    assert f"epsilon 4.0000 at delta 1e-05{unit} release" in words.outcome(run)
    assert "Written by stubs (clerk): not for use" in words.summary(run.to_json())


@pytest.mark.parametrize("problem", [None, "MLflow did not answer"])
def test_record_and_summary_of_a_run_have_the_same_next_commands(problem: str | None) -> None:
    record = made_up_report()
    context = RunContext(
        dataset="desk",
        folder="runs/r",
        report="runs/r/report.html",
        prefect_run_id=None,
        dollars=0.5,
        dollars_estimated=0.0,
    )
    run = summary_of(record, context)
    steps = words.next_steps(record, "desk", problem)
    assert steps == words.next_steps(run, run.dataset, problem)
    assert ("wasp budget history desk", "show all entries of the privacy ledger") in steps
    assert any(step.startswith("wasp push") for step, _ in steps) == (problem is not None)
    assert (run.run_id, run.dollars, run.seconds) == (record.run_id, 0.5, record.seconds)


@pytest.mark.parametrize(("exact", "adds"), [(None, "infinite"), (3.99991, "4")])
def test_a_plan_says_what_the_run_adds_to_the_budget(exact: float | None, adds: str) -> None:
    budget = {"cap": None, "left": None, "repeats": "", "repeatable": [], "refusal": ""}
    plan: dict[str, Any] = {"task": "t", "models": [], "approval": False, "export_approval": False}
    plan |= {"public_rows": "", "lines": [], "budget": budget, "epsilon_exact": exact}
    assert f"budget        no cap; this run adds {adds}" in words.plan(plan).splitlines()


def test_a_run_ends_with_what_private_records_gained() -> None:
    gain = {"points": 0.34, "low": -3.4, "high": 4.0, "floor": "zero_shot_accuracy"}
    gain |= {
        "floor_line": "same models without private data 77.0 % (74-80)",
        "verdict": "no measured gain",
    }
    useful = {
        "line": "",
        "lines": ["new classifier 77.3 %"],
        "chance": 0.125,
        "basis": "900 test rows",
        "gain": gain,
    }
    run = RunSummary(
        run_id="r", dataset="d", epsilon_spent=4.0, iterations=[iteration(0)], usefulness=useful
    )
    lines = words.summary(run.to_json()).splitlines()
    assert (
        "gain        private records: +0.3 points (-3.4 to +4.0) over the best floor, same models without private "
        "data 77.0 % (74-80): no measured gain; epsilon 4 was spent"
    ) in lines
    earlier = replace(run, usefulness={name: useful[name] for name in ("line", "chance", "basis")})
    assert "gain" not in words.summary(earlier.to_json())


def test_an_unfinished_run_is_not_listed_as_not_private() -> None:
    run = {"run_id": "r", "state": "failed", "started": "2026-01-01T10:00:00+00:00"}
    nothing = {"epsilon_spent": None, "accuracy": None, "n_synthetic": None}
    assert "NOT PRIVATE" not in words.runs({"runs": [run | nothing]})
    assert "NOT PRIVATE" in words.runs({"runs": [run | nothing | {"n_synthetic": 5}]})


@pytest.mark.parametrize(
    ("dollars", "text"),
    [
        (0.005, "0.005"),
        (0.00012345, "0.0001234"),
        (0, "0"),
        (2.5, "2.5"),
        (500.0, "500"),
        (12345.67, "12345.67"),
    ],
)
def test_dollars_keep_four_significant_digits(dollars: float, text: str) -> None:
    assert format_dollars(dollars) == text


def test_a_cost_names_its_estimated_part() -> None:
    value = {"rows": [], "calls": 2, "tokens_out": 9, "dollars": 0.5, "dollars_estimated": 0.25}
    assert "0.5000 dollars (of which 0.25 estimated)" in words.preview(value)
    assert "estimated" not in words.preview(value | {"dollars_estimated": 0.0})


@pytest.mark.parametrize(("unusable", "is_said"), [(1, False), (2, True), (4, True)])
def test_a_preview_says_when_many_texts_cannot_be_used(unusable: int, is_said: bool) -> None:
    reasons = ["wrong_language"] * unusable + [None] * (4 - unusable)
    rows = [{"plm": "m", "label": "a", "text": "x", "reason": reason} for reason in reasons]
    value = {"rows": rows, "calls": 4, "tokens_out": 9, "dollars": 0.0}
    line = f"{unusable} of 4 texts cannot be used: read the reasons before you run"
    assert (line in words.preview(value)) == is_said
