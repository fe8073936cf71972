"""The comparison of runs: chance between two equal runs is not blamed, and every other difference is."""

from tests.support.runs.public_traces import blamed

ONE = {"output": ["a", "random 1"], "plan.json": ["x"]}
AGAIN = {"output": ["a", "random 2"], "plan.json": ["x"]}


def test_what_differs_between_equal_runs_is_chance() -> None:
    assert blamed(ONE, AGAIN, {"output": ["a", "random 3"], "plan.json": ["x"]}) == []


def test_a_line_that_both_equal_runs_have_is_no_chance() -> None:
    assert blamed(ONE, AGAIN, {"output": ["b", "random 3"], "plan.json": ["x"]}) == ["output: a"]


def test_every_difference_in_a_file_without_chance_is_blamed() -> None:
    found = blamed(ONE, AGAIN, {"output": ["a", "random 3"], "plan.json": ["x", "y"], "new": []})
    assert found == ["new: only one run has this file", "plan.json: y"]
