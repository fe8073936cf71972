"""Progress of a transfer: a bar on a terminal, a line every few seconds elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from connectors.interfaces.counts import duration, sized
from flows.config.environment import environment
from flows.runtime.library_output import terminal
from flows.runtime.terminal_progress import EVERY_SECONDS, display


class Progress:
    """Bytes of one transfer, its rate and the time left."""

    def __init__(self, name: str, size: int | None) -> None:
        self.name = name
        self.size = size
        self.done = 0
        self.show: Callable[[], None] = _show_nothing
        self._began = time.monotonic()
        self._before = 0

    def begin(self, start: int, size: int | None) -> None:
        """Set the bytes of earlier attempts, and the size that the origin states."""
        self.done = start
        self.size = size or self.size
        self._before = start
        self._began = time.monotonic()
        self.show()

    def add(self, size: int) -> None:
        """Add bytes that arrived."""
        self.done += size
        self.show()

    def __str__(self) -> str:
        seconds = max(time.monotonic() - self._began, 1e-3)
        rate = (self.done - self._before) / seconds
        parts = [sized(self.done)]
        if self.size:
            parts = [f"{sized(self.done)} of {sized(self.size)}"]
        if rate:
            parts.append(f"{sized(rate)}/s")
        if rate and self.size and self.done < self.size:
            parts.append(f"{duration((self.size - self.done) / rate)} left")
        return f"{self.name}: {', '.join(parts)}"


def _show_nothing() -> None:
    """Show no progress, as `wasp -q` requires."""


@contextmanager
def shown(progress: Progress) -> Iterator[None]:
    """Show the progress of a transfer in the block."""
    if environment().quiet:
        yield
        return
    if terminal().isatty():
        with _bar(progress):
            yield
        return
    last = time.monotonic()

    def show() -> None:
        nonlocal last
        if time.monotonic() - last >= EVERY_SECONDS:
            last = time.monotonic()
            display().say(str(progress))

    progress.show = show
    yield
    display().say(str(progress))


@contextmanager
def _bar(progress: Progress) -> Iterator[None]:
    # rich is slow to import, and only a terminal needs it.
    from rich import progress as bars
    from rich.console import Console

    columns = (
        bars.TextColumn("{task.description:<28}"),
        bars.BarColumn(bar_width=32),
        bars.DownloadColumn(),
        bars.TransferSpeedColumn(),
        bars.TimeRemainingColumn(),
    )
    with bars.Progress(*columns, console=Console(file=terminal())) as shown_bars:
        task = shown_bars.add_task(progress.name, total=progress.size)
        progress.show = lambda: shown_bars.update(
            task, completed=progress.done, total=progress.size
        )
        yield
