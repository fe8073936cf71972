"""The page of a reproduction: unfinished comparisons, markup in names, verdicts in numbers."""

from tasks.metrics.comparison import CellResult, Difference
from tasks.reporting.compare_results import Comparison
from tasks.reporting.reproduction import (
    DataFile,
    Judgement,
    MeasuredComparison,
    ReproducedItem,
    Reproduction,
    markdown,
    page,
)
from tests.support.golden_pages import text_of


def comparison(answers: tuple[CellResult, ...] = ()) -> Comparison:
    return Comparison(
        "Table <1>",
        ("ours", "theirs | other"),
        ("all",),
        (None,),
        (0, 1),
        ("accuracy",),
        answers,
        {("accuracy", "ours", "all"): 0.9},
        {"ours": "smaller"},
        "2026-01-01",
        {},
    )


def judged(**changes: object) -> Judgement:
    values = {
        "claim": "theirs below ours",
        "metric": "accuracy",
        "column": "all",
        "published": -0.1,
        "ours": Difference(-0.05, -0.09, -0.01, 2, 0.02),
        "p": 0.04,
        "verdict": "holds",
        "seeds": 2,
    }
    return Judgement(**(values | changes))  # type: ignore[arg-type]


def measured(**changes: object) -> MeasuredComparison:
    values = {
        "name": "papers/made_up#one",
        "comparison": comparison(),
        "judgements": (judged(), judged(ours=None, p=None, verdict="")),
        "cells": 4,
        "finished": 1,
        "seconds": 12.0,
        "failures": (("ours · all · seed 1", "the disk is full"),),
        "address": "../compare-made-up/table.html",
        "drawn": ("accuracy",),
    }
    return MeasuredComparison(**(values | changes))  # type: ignore[arg-type]


def result(*comparisons: MeasuredComparison) -> Reproduction:
    items = (
        ReproducedItem("Table 1", "everything", comparisons),
        ReproducedItem("Figure 2", "a drawing", (), "nothing to measure"),
    )
    data = (
        DataFile("made/train.parquet", 12, "f" * 64, "made", True),
        DataFile("made/test.parquet", 3, "e" * 64, "made", False),
    )
    return Reproduction(
        "Made up",
        "Nobody 2026",
        "wasp reproduce made_up",
        False,
        "2026-01-01",
        items,
        {"processor": "a chip"},
        data,
    )


def test_an_unfinished_reproduction_shows_what_is_there_and_what_is_not() -> None:
    shown = text_of(page(result(measured())))
    assert "Claims: 1 holds, 1 not judged" in shown
    assert "1 of 4 cells, 12 s of runs" in shown
    assert "ours · all · seed 1: the disk is full" in shown
    assert "-0.050 [-0.090, -0.010] | 0.040 | 2 of 2 | holds" in shown
    assert "not judged | | 0 of 2 | not judged" in shown
    assert "Not measured: nothing to measure" in shown
    assert "made, equal" in shown
    assert "made, other rows" in shown


def test_names_are_no_markup() -> None:
    answer = CellResult("theirs | other", "all", 0, "done", {"accuracy": 0.5}, run_id="run-1")
    made = result(measured(comparison=comparison((answer,)), problem="<b>no</b>"))
    html = page(made)
    assert "Table &lt;1&gt;" in html
    assert "<b>no</b>" not in html
    assert "<svg" in html
    lines = markdown(made).splitlines()
    (line,) = [
        entry for entry in lines if entry.startswith("| theirs below ours") and "holds" in entry
    ]
    assert line.count(" | ") == 7


def test_a_figure_is_drawn_again_only_for_other_results() -> None:
    answer = CellResult("ours", "all", 0, "done", {"accuracy": 0.5}, run_id="run-1")
    made = result(measured(comparison=comparison((answer,))))
    page(made)
    (before,) = made.pictures.values()
    assert list(before) == ["accuracy"]
    page(made)
    (after,) = made.pictures.values()
    assert after is before


def test_results_without_noise_are_marked() -> None:
    shown = text_of(page(result(measured(judgements=(judged(is_unnoised=True),)))))
    assert "theirs below ours (NOT PRIVATE)" in shown
