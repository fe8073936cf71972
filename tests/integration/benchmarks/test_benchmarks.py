"""The benchmarks run; how fast things are is never asserted here."""

import json
import math
from pathlib import Path

import pytest

from tests.benchmarks.__main__ import BENCHMARKS, main
from tests.benchmarks.goals import GOALS, table, toward, verdicts
from tests.benchmarks.race import in_turns, line

NAMES = [pytest.param(name, marks=() if name == "vote" else pytest.mark.runs) for name in BENCHMARKS]


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_gives_finite_positive_ratios(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bench.json"
    main(["--only", name, "--json", str(file), "--tiny"])
    result = json.loads(file.read_text())
    assert result["lines"]
    assert list(result["seconds"]) == [name]
    for one in result["lines"]:
        assert one["subject"] == name
        for number in ("ours_seconds", "peer_seconds", "ratio", "low", "high"):
            assert 0 < one[number] < math.inf
        assert one["case"] in capsys.readouterr().out + one["case"]


def test_a_goal_is_judged_by_the_worst_line_that_measures_it() -> None:
    one, two = (toward(line("s", "c", "peer", [seconds], [1.0]), "P1") for seconds in (1.1, 1.6))
    faster = toward(one, "P16-64", 0.95)
    found = {goal.name: value for goal, value in verdicts([one, faster, two])}
    assert (found["P1"], found["P16-64"], found["P8"]) == (1.6, 0.95, None)
    assert not GOALS["P1"].met(1.6)
    assert GOALS["P16-64"].met(0.95)
    rows = table([one, faster, two]).splitlines()
    assert "NOT MET" in rows[1]
    assert "P16-64 " in rows[2]
    assert "P8" in rows[-1]


def test_arms_run_in_turns_and_the_first_run_of_each_is_not_measured() -> None:
    order: list[str] = []
    taken = in_turns({"a": lambda: order.append("A"), "b": lambda: order.append("B")}, rounds=2)
    assert "".join(order) == "ABABAB"
    assert [len(rounds) for rounds in taken.values()] == [2, 2]


def test_the_ratio_is_the_median_of_the_rounds_own_ratios() -> None:
    one = line("s", "c", "peer", ours=[1.0, 9.0, 2.0], peer=[2.0, 3.0, 2.0])
    assert (one.ratio, one.low, one.high) == (1.0, 0.5, 3.0)
    assert (one.ours_seconds, one.peer_seconds) == (2.0, 2.0)
