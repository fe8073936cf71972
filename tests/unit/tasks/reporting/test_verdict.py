"""The first sentence of a report."""

from dataclasses import replace

import pytest

from tasks.metrics.usefulness import Accuracy, Baseline, Usefulness
from tasks.reporting.verdict import bars, verdict
from tests.support.data.reports import made_up_report

BASE = Baseline("linear", Accuracy(215, 300, 120), Accuracy(246, 300, 120))


@pytest.mark.parametrize(
    ("useful", "expected", "names"),
    [
        (None, "was not evaluated", []),
        (Usefulness(Accuracy(50, 300), 1 / 6, "linear"), "not better than chance", ["chance", "this run"]),
        (Usefulness(Accuracy(250, 300, 600), 1 / 6, "linear"), "chance is 16.7 %", ["chance", "this run"]),
        (
            Usefulness(Accuracy(250, 300, 600), 1 / 6, "linear", BASE),
            "10 points more than the same models without private records",
            ["chance", "same models without private data", "this run, as many texts", "this run"],
        ),
    ],
)
def test_the_verdict_states_result_references_and_privacy(
    useful: Usefulness | None, expected: str, names: list[str]
) -> None:
    report = replace(made_up_report(), usefulness=useful)
    assert expected in verdict(report)
    assert "epsilon" in verdict(report)
    assert [bar.name for bar in bars(report)] == names
    assert all(bar.low <= bar.value <= bar.high for bar in bars(report))


def test_a_run_without_noise_is_not_to_be_shared() -> None:
    report = made_up_report()
    report = replace(report, happened=replace(report.happened, epsilon=None))
    assert "NOT PRIVATE" in verdict(report)
