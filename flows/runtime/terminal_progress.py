"""Progress display on standard error: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol, TextIO

from connectors.interfaces.progress import Advance

EVERY_SECONDS = 5.0
QUIET = "WASP_QUIET"
"""Variable that `wasp -q` sets."""
Note = Callable[[], str]
"""Text after the rate, computed at each update, such as the run's cost so far."""


def no_note() -> str:
    """Return an empty note."""
    return ""


class Display(Protocol):
    """A thread-safe display of progress."""

    def work(self, what: str, total: int, note: Note = no_note) -> AbstractContextManager[Advance]:
        """Show a piece of work of `total` units; the value reports finished units."""

    def say(self, line: str) -> None:
        """Show a line."""

    def status(self, done: int, iterations: int, text: str = "") -> None:
        """Set the state of the run, which stays visible below all work: finished iterations, and what they cost."""

    def confirm(self, question: str) -> bool | None:
        """Request a yes or no from the user; None if the display has no input."""


class Quiet:
    """Display of warnings only."""

    def work(self, what: str, total: int, note: Note = no_note) -> AbstractContextManager[Advance]:  # noqa: ARG002
        """Show nothing."""
        return nullcontext(lambda _: None)

    def say(self, line: str) -> None:
        """Write a line if it is a warning, or about an interruption."""
        if line.startswith(("warning", "Interrupted")):
            sys.stderr.write(f"{line}\n")

    def status(self, done: int, iterations: int, text: str = "") -> None:
        """Show nothing."""

    def confirm(self, question: str) -> bool | None:  # noqa: ARG002
        """Return None: this display has no input."""
        return None


class Lines:
    """Display of plain lines: every few seconds, and at the end of a piece of work."""

    def __init__(self, stream: TextIO | None = None, every: float = EVERY_SECONDS) -> None:
        self._stream = stream
        self._every = every
        self._lock = threading.Lock()

    def say(self, line: str) -> None:
        """Write a line."""
        with self._lock:
            print(line, file=self._stream or sys.stderr, flush=True)

    def status(self, done: int, iterations: int, text: str = "") -> None:
        """Show nothing: lines of finished work and iterations stay visible."""

    def confirm(self, question: str) -> bool | None:  # noqa: ARG002
        """Return None: this display has no input."""
        return None

    @contextmanager
    def work(self, what: str, total: int, note: Note = no_note) -> Iterator[Advance]:
        """Write the state of `what` periodically and at its end."""
        started = shown = time.monotonic()
        done = 0

        def advance(units: int) -> None:
            nonlocal done, shown
            with self._lock:
                done += units
                now = time.monotonic()
                is_due = now - shown >= self._every
                shown = now if is_due else shown
            if is_due:
                self.say(_line(what, done, total, now - started, note()))

        yield advance
        self.say(_line(what, done, total, time.monotonic() - started, note()))


class Bars:
    """Display of one bar per piece of work, removed at its end, above a line with the state of the run."""

    def __init__(self) -> None:
        from rich.console import Console, RenderableType
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
        from rich.spinner import Spinner

        started, spinner, bars = time.monotonic(), Spinner("dots", style="cyan"), self
        self._state = "starting"
        self._iteration_began = started
        self._ends: float | None = None

        class WithState(Progress):
            """Bars, and below them the state of the run with the time since its start."""

            def get_renderables(self) -> Iterable[RenderableType]:
                """Yield the bars and the state."""
                yield self.make_tasks_table(self.tasks)
                now = time.monotonic()
                left = "" if bars._ends is None else f", {_minutes(max(0.0, bars._ends - now))} left"
                spinner.update(text=f"{_minutes(now - started)}  {bars._state}{left}")
                yield spinner

        self._progress = WithState(
            TextColumn("{task.description:<28}"),
            BarColumn(bar_width=32),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )

    def __enter__(self) -> Bars:
        self._progress.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._progress.stop()

    def say(self, line: str) -> None:
        """Write a line above the bars."""
        self._progress.console.print(line, highlight=False, markup=False)

    def status(self, done: int, iterations: int, text: str = "") -> None:
        """Set the line below the bars; the duration of the last iteration predicts those that are left."""
        now = time.monotonic()
        seconds, left = now - self._iteration_began, iterations - done
        self._ends = now + seconds * left if done and left else None
        self._iteration_began = now
        rate = f"{seconds:.0f} s per iteration" if done else ""
        self._state = " | ".join(filter(None, (f"{done} of {iterations} iterations done", text, rate)))

    def confirm(self, question: str) -> bool | None:
        """Read yes or no; any other input is a no. None without a terminal."""
        if not sys.stdin.isatty():
            return None
        self._progress.stop()
        try:
            self._progress.console.print(f"{question} [y/N] ", end="", highlight=False, markup=False)
            answer = self._progress.console.input()
        except EOFError:
            return False
        finally:
            self._progress.start()
        return answer.strip().lower() in {"y", "yes"}

    @contextmanager
    def work(self, what: str, total: int, note: Note = no_note) -> Iterator[Advance]:
        """Show a bar for `what`."""
        started = time.monotonic()
        bar = self._progress.add_task(what, total=total, rate="")

        def advance(units: int) -> None:
            self._progress.advance(bar, units)
            done = self._progress.tasks[self._progress.task_ids.index(bar)].completed
            self._progress.update(bar, total=max(done, total))
            rate = f"{done / max(time.monotonic() - started, 1e-3):.1f}/s"
            self._progress.update(bar, rate="  ".join(filter(None, (rate, note()))))

        try:
            yield advance
        finally:
            self._progress.remove_task(bar)


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _line(what: str, done: int, total: int, seconds: float, note: str) -> str:
    total = max(done, total)  # unusable texts are asked for again
    return f"{what:<28} {done}/{total}  {format_rate(done, total, seconds)}{'  ' if note else ''}{note}"


def format_rate(done: int, total: int, seconds: float) -> str:
    """Return units per second and the estimated time left."""
    rate = done / seconds if seconds > 0 else 0.0
    left = f", {(total - done) / rate:.0f} s left" if rate > 0 and done < total else ""
    return f"{rate:.1f}/s{left}"


class _Current:
    """The display of this process; a worker without a terminal writes plain lines."""

    display: Display = Lines()


def display() -> Display:
    """Return the display of this process."""
    return _Current.display


class _Warnings(logging.Handler):
    """Shows warnings of the connectors, which know no display, on the display of this process."""

    def emit(self, record: logging.LogRecord) -> None:
        display().say(f"warning: {record.getMessage()}")


@contextmanager
def show() -> Iterator[Display]:
    """Set the display of this process: warnings with `wasp -q`, bars on a terminal, else lines."""
    before = _Current.display
    connectors, warnings = logging.getLogger("connectors"), _Warnings(logging.WARNING)
    connectors.addHandler(warnings)
    try:
        if os.environ.get(QUIET):
            _Current.display = Quiet()
            yield _Current.display
        elif sys.stderr.isatty():
            with Bars() as bars:
                _Current.display = bars
                yield bars
        else:
            yield before
    finally:
        _Current.display = before
        connectors.removeHandler(warnings)
