"""Progress is told with rate and time left, whether a terminal is there or not."""

import io
import re

import pytest

from flows.runtime.terminal_progress import QUIET, Bars, Lines, show


def test_lines_end_with_what_was_done_and_how_fast() -> None:
    stream = io.StringIO()
    lines = Lines(stream)
    with lines.work("write clerk", 4) as advance:
        for _ in range(4):
            advance(1)
    assert "write clerk" in stream.getvalue()
    assert "4/4" in stream.getvalue()
    assert "/s" in stream.getvalue()


def test_long_work_is_told_in_between_with_the_time_left() -> None:
    stream = io.StringIO()
    with Lines(stream, every=0.0).work("write clerk", 100) as advance:
        advance(25)
    first = stream.getvalue().splitlines()[0]
    assert "25/100" in first
    assert "s left" in first


def test_bars_come_and_go_with_their_work() -> None:
    with Bars() as bars:
        with bars.work("embed", 10) as advance:
            advance(5)
            assert [task.completed for task in bars._progress.tasks] == [5]
        assert bars._progress.tasks == []
        bars.say("a line above")


def test_the_money_so_far_stands_beside_the_rate() -> None:
    stream = io.StringIO()
    spent = iter(("$0.0100 of $1", "$0.0200 of $1"))
    with Lines(stream, every=0.0).work("write clerk", 2, lambda: next(spent)) as advance:
        advance(1)
    first, last = stream.getvalue().splitlines()
    assert first.endswith("$0.0100 of $1")
    assert last.endswith("$0.0200 of $1")


def test_a_bar_shows_the_money_so_far() -> None:
    with Bars() as bars, bars.work("write clerk", 2, lambda: "$0.0100") as advance:
        advance(1)
        assert bars._progress.tasks[0].fields["rate"].endswith("$0.0100")


def test_the_state_of_the_run_stays_below_the_bars() -> None:
    with Bars() as bars:
        bars.status(0, 5)
        bars._iteration_began -= 20
        bars.status(1, 5, "epsilon 4")
        *_, state = bars._progress.get_renderables()
        assert re.search(r"1 of 5 iterations done \| epsilon 4 \| 20 s per iteration, 1:(20|19) left", str(state.text))
        bars.status(5, 5, "epsilon 4")
        *_, state = bars._progress.get_renderables()
        assert "left" not in str(state.text)


def test_quiet_shows_warnings_only(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(QUIET, "1")
    with show() as display:
        display.say("iteration 1")
        display.say("warning: few rows")
        with display.work("embed", 2) as advance:
            advance(2)
    assert capsys.readouterr().err == "warning: few rows\n"
