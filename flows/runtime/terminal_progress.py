"""Progress display on standard error: bars of rich on a terminal, plain lines elsewhere."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TextIO

EVERY_SECONDS = 5.0
ALWAYS_SHOWN = ("warning", "Interrupted")
"""Beginnings of the lines that a quiet display shows."""


@dataclass(slots=True, eq=False)
class Work:
    """A piece of work: how many of its `total` units are finished since `started`.

    `note`: text after the rate, computed at each update, such as the run's cost so far.
    """

    what: str
    total: int
    note: Callable[[], str] = str
    started: float = field(default_factory=time.monotonic)
    done: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, units: int) -> None:
        """Add finished units; unusable texts are written again, so there may be more than planned."""
        with self.lock:
            self.done += units
            self.total = max(self.done, self.total)

    def describe(self) -> str:
        """Return units per second, the estimated time left and the note."""
        rate = self.done / max(time.monotonic() - self.started, 1e-3)
        left = f"{(self.total - self.done) / rate:.0f} s left" if 0 < self.done < self.total else ""
        return ", ".join(filter(None, (f"{rate:.1f}/s", left, self.note())))

    def __str__(self) -> str:
        return f"{self.what:<28} {self.done}/{self.total}  {self.describe()}"


class Display:
    """A thread-safe display of plain lines: every few seconds, and at the end of a piece of work."""

    def __init__(self, stream: TextIO | None = None, every: float = EVERY_SECONDS, quiet: bool = False) -> None:
        self._stream = stream
        self._every = every
        self._quiet = quiet
        self._lock = threading.Lock()

    def say(self, line: str) -> None:
        """Show a line; a quiet display shows warnings and interruptions only."""
        if not self._quiet or line.startswith(ALWAYS_SHOWN):
            with self._lock:
                print(line, file=self._stream or sys.stderr, flush=True)

    def status(self, done: int, iterations: int, text: str = "") -> None:
        """Set the state of the run below all bars: finished iterations, and what they cost."""

    def confirm(self, question: str) -> bool | None:  # noqa: ARG002
        """Request a yes or no from the user; None if the display has no input."""
        return None

    @contextmanager
    def work(self, work: Work) -> Iterator[Callable[[], None]]:
        """Show a piece of work; call the value after each change of it."""
        shown = work.started

        def update() -> None:
            nonlocal shown
            with self._lock:
                is_due = time.monotonic() - shown >= self._every
                shown = time.monotonic() if is_due else shown
            if is_due:
                self.say(str(work))

        yield update
        self.say(str(work))


class Bars(Display):
    """One bar per piece of work, removed at its end, above a line with the state of the run."""

    def __init__(self) -> None:
        super().__init__()
        from rich.console import Console, Group
        from rich.live import Live
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        name, rate = TextColumn("{task.description:<28}"), TextColumn("{task.fields[rate]}")
        self._bars = Progress(name, BarColumn(bar_width=32), MofNCompleteColumn(), rate)
        state = TextColumn("{task.description}")
        self._state = Progress(
            SpinnerColumn(style="cyan"),
            TimeElapsedColumn(),
            state,
            TimeRemainingColumn(),
            speed_estimate_period=24 * 3600,
        )
        self._run = self._state.add_task("starting", total=None)
        self._live = Live(Group(self._bars, self._state), console=Console(stderr=True), transient=True)

    def __enter__(self) -> Bars:
        self._live.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._live.stop()

    def say(self, line: str) -> None:
        """Write a line above the bars."""
        self._live.console.print(line, highlight=False, markup=False)

    def status(self, done: int, iterations: int, text: str = "") -> None:
        """Set the line below the bars."""
        state = f"{done} of {iterations} iterations done{' | ' if text else ''}{text}"
        self._state.update(self._run, description=state, completed=done, total=iterations)

    def confirm(self, question: str) -> bool | None:
        """Read yes or no; any other input is a no. None without a terminal."""
        if not sys.stdin.isatty():
            return None
        self._live.stop()
        try:
            self._live.console.print(f"{question} [y/N] ", end="", highlight=False, markup=False)
            answer = self._live.console.input()
        except EOFError:
            return False
        finally:
            self._live.start()
        return answer.strip().lower() in {"y", "yes"}

    @contextmanager
    def work(self, work: Work) -> Iterator[Callable[[], None]]:
        """Show a bar for a piece of work."""
        bar = self._bars.add_task(work.what, total=work.total, rate="")
        try:
            yield lambda: self._bars.update(bar, completed=work.done, total=work.total, rate=work.describe())
        finally:
            self._bars.remove_task(bar)


class _Current:
    """The display of this process; a worker without a terminal writes plain lines."""

    display = Display()


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
    from flows.config.environment import environment

    before, is_quiet = _Current.display, environment().quiet
    connectors, warnings = logging.getLogger("connectors"), _Warnings(logging.WARNING)
    connectors.addHandler(warnings)
    try:
        if not is_quiet and sys.stderr.isatty():
            with Bars() as _Current.display:
                yield _Current.display
        else:
            _Current.display = Display(quiet=True) if is_quiet else before
            yield _Current.display
    finally:
        _Current.display = before
        connectors.removeHandler(warnings)
