"""The message of a run's final state, and texts that fit its page."""

import pytest

from flows.engine.run_page import PAGE_WIDTH, charge_line, degraded_line, narrow
from tasks.reporting.run_summary import RunSummary

BUDGET = {"cap": 8.0, "spent": 3.0}
PRIVATE = {"dataset": "notes", "releases": 2}


@pytest.mark.parametrize(
    ("values", "is_reused", "expected"),
    [
        (
            {**PRIVATE, "releases_charged": 2, "epsilon_added": 3.0},
            False,
            "Charged epsilon 3.0000; 5 of the cap 8 left. ",
        ),
        (
            {**PRIVATE, "releases_charged": 2, "epsilon_added": 2.0},
            False,
            "Charged epsilon 2.0000; 5 of the cap 8 left, because epsilons do not simply add up. ",
        ),
        ({**PRIVATE, "releases_charged": 0}, False, "Nothing charged, all releases are of earlier"),
        (
            {**PRIVATE, "releases_charged": 2},
            True,
            "Reused, nothing charged; 5 of the cap 8 left. ",
        ),
        ({}, True, "Reused, nothing charged. "),
        ({}, False, ""),
    ],
)
def test_a_state_begins_with_what_the_run_charged(
    values: dict[str, object], is_reused: bool, expected: str
) -> None:
    summary = RunSummary.from_json({"run_id": "r", **values})
    line = charge_line(summary, BUDGET if summary.dataset else None, is_reused)
    assert line.startswith(expected)
    assert bool(line) == bool(expected)


def test_a_degraded_run_names_each_problem_and_a_whole_one_none() -> None:
    problems = ["clerk was down in iteration 1: no answer. Start it.", "3 texts are missing: why"]
    assert degraded_line(problems) == (
        "Degraded: clerk was down in iteration 1: no answer. Start it; 3 texts are missing: why. "
    )
    assert degraded_line([]) == ""


def test_long_lines_are_continued_below_their_contents_and_paths_stay_whole() -> None:
    path = "/home/somebody/" + "folder/" * 12 + "report.html"
    line = "warning     " + "the texts are below the floor, " * 4
    lines = narrow(f"{line}\n\nreport      {path}", PAGE_WIDTH).splitlines()
    first, second, *_, blank, whole = lines
    assert first.startswith("warning     the texts")
    assert second.startswith(" " * 12 + "the") or second.startswith(" " * 12 + "below")
    assert max(map(len, lines[:-1])) <= PAGE_WIDTH
    assert (blank, whole) == ("", f"report      {path}")


def test_a_wide_table_keeps_its_rule_and_all_of_its_cells() -> None:
    cells = ", ".join(f"model-{number} 6 (0.11)" for number in range(6))
    rule, row, *further = narrow(f"{'-' * 9}  {'-' * 90}\n        0  {cells}", 76).splitlines()
    assert len(rule) == 76
    assert " ".join([row, *further]).split() == ["0", *cells.split()]
    assert all(line.startswith(" " * 8) for line in (row, *further))
