"""Progress display on standard error: bars of rich on a terminal, plain lines elsewhere."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TextIO

from connectors.interfaces.counts import duration
from flows.runtime.library_output import terminal

EVERY_SECONDS = 5.0
LONGEST_SILENCE = 300.0
"""Longest pause, in seconds, between lines of work that delivers nothing; the first ones are 5, 10, 20, ... long."""
DELIVERY_SECONDS = 1.0
"""Units that arrive within this time are one delivery."""
ENDING_ITERATIONS = 2.0
"""Duration of the last steps of a run (student, baselines, MLflow), in iterations, until they are measured."""
ALWAYS_SHOWN = ("warning", "Interrupted")
"""Beginnings of the lines that a quiet display shows."""


@dataclass(slots=True, eq=False)
class Work:
    """A piece of work: how many of its `total` units are finished since `started`.

    Units that arrive within a second are one delivery: a local model delivers a batch at once, and its first text says
    nothing about the next batch. The rate is that of finished deliveries, hence unknown before the second one.

    `note`: text after the rate, computed at each update, such as the run's cost so far.
    """

    what: str
    total: int
    note: Callable[[], str] = str
    started: float = field(default_factory=time.monotonic)
    done: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    _delivery: float | None = None
    """Begin of the present delivery."""
    _last: float = 0.0
    """Time of the last unit."""
    _measured: tuple[int, float] = (0, 0.0)
    """Units of finished deliveries, and the time of the last of them."""

    def add(self, units: int) -> None:
        """Add finished units; unusable texts are written again, so there may be more than planned."""
        with self.lock:
            now = time.monotonic()
            if self._delivery is None or now - self._delivery > DELIVERY_SECONDS:
                self._measured = (self.done, self._last)
                self._delivery = now
            self.done += units
            self._last = now
            self.total = max(self.done, self.total)

    @property
    def rate(self) -> float | None:
        """Units per second; None until it is measured."""
        with self.lock:
            units, until = self._measured
            # Nothing more arrives: the last delivery is finished too.
            if self.done >= self.total:
                units = self.done
                until = self._last
        if not units:
            return None
        # Cached completions arrive at once; a clock with coarse ticks would divide by zero.
        return units / max(until - self.started, 1e-3)

    def describe(self) -> str:
        """Return units per second, the estimated time left and the note."""
        rate = self.rate
        parts = []
        if rate is not None:
            parts.append(f"{rate:.1f}/s")
            if self.done < self.total:
                parts.append(f"{(self.total - self.done) / rate:.0f} s left")
        parts.append(self.note())
        return ", ".join(filter(None, parts))

    def __str__(self) -> str:
        return f"{self.what:<28} {self.done}/{self.total}  {self.describe()}".rstrip()


class Display:
    """A thread-safe display of plain lines: every few seconds, more rarely while nothing changes, and at the end."""

    def __init__(
        self, stream: TextIO | None = None, every: float = EVERY_SECONDS, quiet: bool = False
    ) -> None:
        self._stream = stream
        self._every = every
        self._quiet = quiet
        self._lock = threading.Lock()

    def say(self, line: str) -> None:
        """Show a line; a quiet display shows warnings and interruptions only."""
        if not self._quiet or line.startswith(ALWAYS_SHOWN):
            # A terminal that was closed, or a program that read the output and ended: the run goes on without them, and
            # its log and page have what counts.
            with self._lock, suppress(BrokenPipeError):
                print(line, file=self._stream or terminal(), flush=True)

    def status(self, done: int, iterations: int, text: str = "") -> None:
        """Set the state of the run below all bars: finished iterations, and what they cost."""

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Name what the user waits for in the block, which has no units to count."""
        self.say(f"{what} ...")
        yield

    def close(self) -> None:
        """End the display before its time; further lines are still shown."""

    def confirm(self, question: str) -> bool | None:  # noqa: ARG002
        """Request a yes or no from the user; None if the display has no input."""
        return None

    @contextmanager
    def work(self, work: Work) -> Iterator[Callable[[], None]]:
        """Show a piece of work; call the value after each change of it."""
        shown = work.started
        last = ""
        changed = work.started
        ended = threading.Event()

        def show_after(seconds: float) -> bool:
            """Show the work if its last line is older; return True if it is."""
            nonlocal shown, last, changed
            with self._lock:
                if time.monotonic() - shown < seconds:
                    return False
                shown = time.monotonic()
            # Outside the lock, which `say` takes too: a note may wait for a thread that says something.
            line = str(work)
            if line != last:
                last = line
                changed = shown
            # A line that only repeats the last one looks like an error.
            if shown > changed:
                line += f", unchanged for {shown - changed:.0f} s"
            self.say(line)
            return True

        def remind() -> None:
            """Show work without deliveries: a batch of long prompts takes many minutes."""
            first = self._every or EVERY_SECONDS
            pause = first
            while not ended.wait(pause):
                pause = min(2 * pause, LONGEST_SILENCE) if show_after(pause) else first

        def update() -> None:
            show_after(self._every)

        reminder = threading.Thread(target=remind, name="progress", daemon=True)
        reminder.start()
        try:
            yield update
        finally:
            ended.set()
            reminder.join()
        self.say(str(work))


@dataclass(slots=True)
class _Iterations:
    """Finished iterations of a run, and the time of the last change."""

    total: int
    done: int
    started: float
    changed: float

    def left(self) -> float | None:
        """Return the estimated seconds to the end of the run; None until an iteration is finished."""
        if not self.done:
            return None
        each = (self.changed - self.started) / self.done
        left = each * (self.total - self.done + ENDING_ITERATIONS)
        # The clock runs on between two changes.
        return max(0.0, left - (time.monotonic() - self.changed))


class Bars(Display):
    """One bar per piece of work, removed at its end, above a line with the state of the run.

    The clock of the line runs until the display ends: a run has work after its last iteration.
    """

    def __init__(self) -> None:
        super().__init__()
        # rich is slow to import, and only a terminal needs it.
        from rich.console import Console, Group
        from rich.live import Live
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            SpinnerColumn,
            Task,
            TextColumn,
            TimeElapsedColumn,
        )
        from rich.text import Text

        class Described(TextColumn):
            """A column whose text is computed whenever it is shown."""

            def render(self, task: Task) -> Text:
                return Text(task.fields["describe"]())

        name = TextColumn("{task.description:<28}")
        self._bars = Progress(name, BarColumn(bar_width=32), MofNCompleteColumn(), Described(""))
        self._state = Progress(SpinnerColumn(style="cyan"), TimeElapsedColumn(), Described(""))
        # Without a total the task never ends, and its clock never stops.
        self._state.add_task("", total=None, describe=self._described)
        self._iterations: _Iterations | None = None
        self._cost = ""
        self._waits: list[str] = []
        # Output of libraries that is hidden must not return by way of the bars.
        self._live = Live(
            Group(self._bars, self._state),
            console=Console(file=terminal()),
            transient=True,
            redirect_stderr=terminal() is sys.stderr,
        )

    def __enter__(self) -> Bars:
        self._live.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the bars, and show the cursor again."""
        self._live.stop()

    def say(self, line: str) -> None:
        """Write a line above the bars."""
        self._live.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def status(self, done: int, iterations: int, text: str = "") -> None:
        """Set the line below the bars."""
        now = time.monotonic()
        started = now
        # Without a finished iteration the clock starts again: what came before was no iteration.
        if self._iterations and done:
            started = self._iterations.started
        self._iterations = _Iterations(iterations, done, started, now)
        self._cost = text

    def _described(self) -> str:
        iterations = self._iterations
        if iterations is None:
            return ", ".join(self._waits)
        left = iterations.left()
        parts = [
            f"{iterations.done} of {iterations.total} iterations done",
            self._cost,
            ", ".join(self._waits),
        ]
        # An estimate that has run out says nothing.
        if left:
            parts.append(f"about {duration(left)} left")
        return " | ".join(filter(None, parts))

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Name what the user waits for beside the clock."""
        self._waits.append(what)
        # At once: work that is shorter than the time between two updates would never be named.
        self._live.refresh()
        try:
            yield
        finally:
            self._waits.remove(what)

    def confirm(self, question: str) -> bool | None:
        """Read yes or no; any other input is a no. None without a terminal."""
        if not sys.stdin.isatty():
            return None
        # The bars would redraw over the question.
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
        bar = self._bars.add_task(work.what, total=work.total, describe=work.describe)
        try:
            yield lambda: self._bars.update(bar, completed=work.done, total=work.total)
        finally:
            self._bars.remove_task(bar)


class _Current:
    """The display of this process; a worker without a terminal writes plain lines."""

    display = Display()


def display() -> Display:
    """Return the display of this process."""
    return _Current.display


class _Messages(logging.Handler):
    """Shows warnings and notices of the connectors, which know no display, on the display of this process."""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.levelno >= logging.WARNING:
            text = f"warning: {text}"
        display().say(text)


@contextmanager
def connector_messages() -> Iterator[None]:
    """Show warnings and notices of the connectors in the block."""
    connectors = logging.getLogger("connectors")
    messages = _Messages(logging.INFO)
    # Blocks nest (a command, and its progress display): a second handler would show each message twice.
    if any(isinstance(handler, _Messages) for handler in connectors.handlers):
        yield
        return
    before = connectors.level
    connectors.addHandler(messages)
    connectors.setLevel(logging.INFO)
    try:
        yield
    finally:
        connectors.setLevel(before)
        connectors.removeHandler(messages)


@contextmanager
def show() -> Iterator[Display]:
    """Set the display of this process: warnings with `wasp -q`, bars on a terminal, else lines."""
    from flows.config.environment import environment

    before = _Current.display
    is_quiet = environment().quiet
    try:
        with connector_messages():
            if not is_quiet and terminal().isatty():
                with Bars() as _Current.display:
                    yield _Current.display
            else:
                if is_quiet:
                    _Current.display = Display(quiet=True)
                yield _Current.display
    finally:
        _Current.display = before
