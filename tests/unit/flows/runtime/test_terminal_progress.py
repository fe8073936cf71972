"""Progress is shown with rate and time left, whether a terminal is there or not."""

import io

import pytest
from rich.console import Console

from flows.runtime.terminal_progress import Bars, Display, show


def test_long_work_is_shown_in_between_with_rate_time_left_and_cost() -> None:
    stream = io.StringIO()
    spent = iter(("$0.0100 of $1", "$0.0200 of $1"))
    with Display(stream, every=0.0).work("write clerk", 100, lambda: next(spent)) as advance:
        advance(25)
    first, last = stream.getvalue().splitlines()
    assert first.startswith("write clerk")
    assert "25/100" in first
    assert "/s, " in first
    assert "s left" in first
    assert first.endswith("$0.0100 of $1")
    assert last.endswith("$0.0200 of $1")


def test_bars_come_and_go_with_their_work_above_the_state_of_the_run() -> None:
    console = Console(width=150, file=io.StringIO())
    with Bars() as bars:
        with bars.work("write clerk", 10, lambda: "$0.0100") as advance:
            advance(5)
            bars.status(1, 5, "epsilon 4")
            console.print(bars._live.renderable)
        assert bars._bars.tasks == []
        bars.say("a line above")
    bar, state = console.file.getvalue().splitlines()
    assert "write clerk" in bar
    assert "5/10" in bar
    assert "$0.0100" in bar
    assert "1 of 5 iterations done | epsilon 4" in state


def test_quiet_shows_warnings_only(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASP_QUIET", "1")
    with show() as display:
        display.say("iteration 1")
        display.say("warning: few rows")
        with display.work("embed", 2) as advance:
            advance(2)
    assert capsys.readouterr().err == "warning: few rows\n"
