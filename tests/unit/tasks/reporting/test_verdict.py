"""The first sentence of a report."""

from dataclasses import replace

import pytest

from tasks.metrics.usefulness import ACCURACIES, ON_ROWS, Accuracy, Baseline, Usefulness
from tasks.reporting.verdict import bars, verdict
from tests.support.data.reports import made_up_report

BASE = Baseline("linear", Accuracy(210, 300, 120), Accuracy(246, 300, 120), Accuracy(216, 300, 120))
FULL = Usefulness(Accuracy(250, 300, 600), 1 / 6, "linear", BASE, "", Accuracy(260, 300, 600), Accuracy(225, 300))
ALL = ["chance", *(title.format("the noisy release") for title in reversed(ACCURACIES.values()))]
NEW = "new classifier of the exported texts"


@pytest.mark.parametrize(
    ("useful", "expected", "names"),
    [
        (None, "was not evaluated", []),
        (Usefulness(Accuracy(50, 300), 1 / 6, "linear"), "not better than chance", ["chance", ON_ROWS]),
        (Usefulness(Accuracy(250, 300, 600), 1 / 6, "linear"), "chance is 16.7 %", ["chance", NEW]),
        (FULL, "10.0 points more than the same models without private records", ALL),
        (FULL, "A new classifier of the exported texts is right on 83.3 %", ALL),
        (FULL, "also reads the noisy release, reaches 86.7 %", ALL),
        (FULL, "The release without any text reaches 75.0 %.", ALL),
        (FULL, "epsilon 4 at delta 1e-05 per row.", ALL),
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
    report = replace(report, epsilon_spent=None)
    assert "NOT PRIVATE" in verdict(report)
