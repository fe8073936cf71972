"""Progress has a rate once it is measured, names what is waited for, and runs to the end of a run."""

import io
import logging
import os
import threading
import time

import pytest
from rich.console import Console

from connectors.interfaces.counts import duration
from flows.runtime import terminal_progress
from flows.runtime.terminal_progress import (
    ENDING_ITERATIONS,
    Bars,
    Display,
    Work,
    connector_messages,
    show,
)


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(terminal_progress, "time", clock)
    return clock


def deliver(work: Work, units: int, clock: Clock, after: float) -> None:
    """Let some time pass, then deliver units one by one, as a batch arrives."""
    clock.now += after
    for _ in range(units):
        work.add(1)
        clock.now += 0.01


def shown_by(bars: Bars) -> str:
    console = Console(width=150, file=io.StringIO())
    console.print(bars._live.renderable)
    return console.file.getvalue()


def test_one_delivery_of_a_batch_gives_no_rate(clock: Clock) -> None:
    work = Work("write smollm2", 60, started=clock.now)
    clock.now += 40
    for _ in range(20):
        work.add(1)
        assert "/s" not in work.describe()
        assert "left" not in work.describe()
        clock.now += 0.01


def test_the_rate_is_that_of_finished_deliveries(clock: Clock) -> None:
    work = Work("write smollm2", 60, started=clock.now)
    deliver(work, 20, clock, after=40)
    deliver(
        work, 1, clock, after=40
    )  # the second delivery has only begun: 21 texts did not take 80 s
    assert work.describe() == "0.5/s, 78 s left"
    deliver(work, 19, clock, after=0)
    deliver(work, 20, clock, after=40)
    assert work.describe() == "0.5/s"


def test_a_steady_stream_has_a_rate(clock: Clock) -> None:
    work = Work("write gpt", 1000, started=clock.now)
    for _ in range(40):
        clock.now += 0.1
        work.add(1)
    assert work.describe().startswith("10.0/s, ")


def test_plain_lines_have_rate_time_left_and_cost(clock: Clock) -> None:
    stream = io.StringIO()
    spent = iter(("$0.0100 of $1", "$0.0200 of $1"))
    work = Work("write clerk", 100, lambda: next(spent), started=clock.now)
    with Display(stream, every=0.0).work(work) as update:
        deliver(work, 25, clock, after=5)
        deliver(work, 25, clock, after=5)
        update()
    first, last = stream.getvalue().splitlines()
    assert first.startswith("write clerk")
    assert "50/100  4.8/s, 10 s left, $0.0100 of $1" in first
    assert last.endswith("$0.0200 of $1")


def test_work_that_delivers_nothing_is_shown_ever_more_rarely() -> None:
    stream = io.StringIO()
    work = Work("write clerk", 100, lambda: "writing a batch of 64")
    with Display(stream, every=0.05).work(work):
        time.sleep(1.0)
    first, *reminders, last = stream.getvalue().splitlines()
    # After 0.05, 0.15, 0.35 and 0.75 s; a busy machine shows fewer.
    assert len(reminders) <= 3
    assert {first, last} == {f"{'write clerk':<28} 0/100  writing a batch of 64"}
    assert all(line.startswith(f"{first}, unchanged for ") for line in reminders)
    assert "progress" not in {thread.name for thread in threading.enumerate()}


def test_a_repeated_line_states_since_when_it_is_true(clock: Clock) -> None:
    stream = io.StringIO()
    work = Work("write clerk", 100, started=clock.now)
    with Display(stream).work(work) as update:
        for seconds in (10, 20):
            clock.now += seconds
            update()
        work.add(1)
        clock.now += 10
        update()
    ends = [line.removeprefix(f"{'write clerk':<28} ") for line in stream.getvalue().splitlines()]
    assert ends == ["0/100", "0/100, unchanged for 20 s", "1/100", "1/100"]


def test_bars_come_and_go_with_their_work_above_the_state_of_the_run() -> None:
    with Bars() as bars:
        work = Work("write clerk", 10, lambda: "$0.0100")
        with bars.work(work) as update:
            work.add(5)
            update()
            bars.status(1, 5, "epsilon 4")
            bar, state = shown_by(bars).splitlines()
        assert bars._bars.tasks == []
        bars.say("a line above")
    assert "write clerk" in bar
    assert "5/10" in bar
    assert "$0.0100" in bar
    assert "1 of 5 iterations done | epsilon 4" in state


def test_clock_and_estimate_run_on_after_the_last_iteration(clock: Clock) -> None:
    with Bars() as bars:
        bars.status(0, 2)
        assert "left" not in shown_by(bars)
        clock.now += 200
        bars.status(1, 2, "epsilon 4")
        clock.now += 200
        bars.status(2, 2, "epsilon 4")
        with bars.waiting("training the student"):
            line = shown_by(bars)
            assert "2 of 2 iterations done | epsilon 4 | training the student" in line
            assert f"about {duration(200 * ENDING_ITERATIONS)} left" in line
            task = bars._state.tasks[0]
            before = task.elapsed
            assert before is not None
            assert task.finished_time is None, "the clock of a finished task stands still"
        clock.now += 200 * ENDING_ITERATIONS + 1
        assert "left" not in shown_by(bars), "an estimate that has run out is not shown as 0"


def test_what_is_waited_for_is_named() -> None:
    stream = io.StringIO()
    with Display(stream).waiting("reading the private records (no count is shown)"):
        assert stream.getvalue() == "reading the private records (no count is shown) ...\n"
    with Bars() as bars, bars.waiting("starting Prefect's temporary server"):
        assert "starting Prefect's temporary server" in shown_by(bars)


def test_work_that_is_shorter_than_an_update_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Screen()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(terminal_progress, "terminal", lambda: screen)
    with Bars() as bars, bars.waiting("reading the rows"):
        pass
    assert "reading the rows" in screen.getvalue()


def test_notices_and_warnings_of_connectors_are_shown_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with connector_messages(), show():
        logging.getLogger("connectors.models").info("unpacking")
        logging.getLogger("connectors.models").warning("refused")
    assert capsys.readouterr().err == "unpacking\nwarning: refused\n"


def test_quiet_shows_warnings_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WASP_QUIET", "1")
    with show() as display:
        display.say("iteration 1")
        display.say("warning: few rows")
        with display.work(Work("embed", 2)) as update, display.waiting("reading"):
            update()
    assert capsys.readouterr().err == "warning: few rows\n"


def test_a_run_goes_on_when_nobody_reads_its_output() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w", encoding="utf-8") as stream:
        shown = Display(stream)
        shown.say("nobody reads this")
        with shown.work(Work("write", 2)) as update:
            update()
        # What the stream still holds cannot be written either, and closing it would say so.
        os.dup2(os.open(os.devnull, os.O_WRONLY), writing)
