"""Live progress: bars on a terminal, plain lines elsewhere; both with rate and time left, on standard error."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TextIO

from connectors.interfaces.progress import Advance

EVERY_SECONDS = 5.0
Note = Callable[[], str]
"""What stands behind the rate, asked for at each showing: the run's dollars so far."""


def nothing_more() -> str:
    """No note."""
    return ""


class Display(Protocol):
    """Shows pieces of work; safe to use from several threads."""

    def work(self, what: str, total: int, note: Note = nothing_more) -> AbstractContextManager[Advance]:
        """Show one piece of work of `total` units; the value reports units done."""

    def say(self, line: str) -> None:
        """Show one line."""

    def confirm(self, question: str) -> bool | None:
        """Ask whoever sits before this display; None if nobody can answer."""


class Lines:
    """Plain lines: at the end of each piece of work, and every few seconds during a long one."""

    def __init__(self, stream: TextIO | None = None, every: float = EVERY_SECONDS) -> None:
        self._stream = stream
        self._every = every
        self._lock = threading.Lock()

    def say(self, line: str) -> None:
        """Write one line."""
        with self._lock:
            print(line, file=self._stream or sys.stderr, flush=True)

    def confirm(self, question: str) -> bool | None:  # noqa: ARG002
        """Nobody can answer here."""
        return None

    @contextmanager
    def work(self, what: str, total: int, note: Note = nothing_more) -> Iterator[Advance]:
        """Write the state of `what` now and then, and when it ends."""
        started = shown = time.monotonic()
        done = 0

        def advance(units: int) -> None:
            nonlocal done, shown
            with self._lock:
                done += units
                now = time.monotonic()
                late = now - shown >= self._every
                shown = now if late else shown
            if late:
                self.say(_line(what, done, total, now - started, note()))

        yield advance
        self.say(_line(what, done, total, time.monotonic() - started, note()))


class Bars:
    """One bar per piece of work, gone when it ends."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
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
        """Write one line above the bars."""
        self._progress.console.print(line, highlight=False, markup=False)

    def confirm(self, question: str) -> bool | None:
        """Ask for yes or no; everything but a yes is a no. None if nothing can be typed here."""
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
    def work(self, what: str, total: int, note: Note = nothing_more) -> Iterator[Advance]:
        """Show a bar while `what` goes on."""
        started = time.monotonic()
        bar = self._progress.add_task(what, total=total, rate="")

        def advance(units: int) -> None:
            self._progress.advance(bar, units)
            done = self._progress.tasks[self._progress.task_ids.index(bar)].completed
            rate = f"{done / max(time.monotonic() - started, 1e-3):.1f}/s"
            self._progress.update(bar, rate="  ".join(filter(None, (rate, note()))))

        try:
            yield advance
        finally:
            self._progress.remove_task(bar)


def _line(what: str, done: int, total: int, seconds: float, note: str) -> str:
    return f"{what:<28} {done}/{total}  {rate_and_rest(done, total, seconds)}{'  ' if note else ''}{note}"


def rate_and_rest(done: int, total: int, seconds: float) -> str:
    """Return how fast work goes, and how long the rest takes at that pace."""
    rate = done / seconds if seconds > 0 else 0.0
    left = f", {(total - done) / rate:.0f} s left" if rate > 0 and done < total else ""
    return f"{rate:.1f}/s{left}"


class _Shown:
    """The display of this process; a worker without a terminal writes plain lines."""

    display: Display = Lines()


def display() -> Display:
    """Return the display of this process."""
    return _Shown.display


@contextmanager
def show() -> Iterator[Display]:
    """Choose the display for this process while a command runs: bars on a terminal, else lines."""
    before = _Shown.display
    try:
        if sys.stderr.isatty():
            with Bars() as bars:
                _Shown.display = bars
                yield bars
        else:
            yield before
    finally:
        _Shown.display = before
