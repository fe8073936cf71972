"""Progress is told with rate and time left, whether a terminal is there or not."""

import io

from flows.runtime.terminal_progress import Bars, Lines


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
