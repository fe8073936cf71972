"""The benchmarks run; how fast things are is never asserted here."""

import json
import math
from pathlib import Path

import pytest

from tests.benchmarks.__main__ import BENCHMARKS, main
from tests.benchmarks.goals import GOALS, table, toward, verdicts
from tests.benchmarks.race import line

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
