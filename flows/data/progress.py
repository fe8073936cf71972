"""Progress of a transfer: a bar on a terminal, a line every few seconds elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from connectors.interfaces.counts import duration
from flows.config.environment import environment
from flows.runtime.library_output import terminal
from flows.runtime.terminal_progress import EVERY_SECONDS, display

MEGABYTE = 1e6


def readable_size(size: float | None) -> str:
    """Return a size in kB or MB; a sentence if it is not known."""
    if size is None:
        return "size not known before the transfer"
    if size < MEGABYTE:
        return f"{size / 1000:,.0f} kB"
    return f"{size / MEGABYTE:,.1f} MB"


class Progress:
    """Bytes of one transfer, its rate and the time left."""

    def __init__(self, name: str, size: int | None, show: Callable[["Progress"], None]) -> None:
        self.name = name
        self.size = size
        self.done = 0
        self._show = show
        self._began = time.monotonic()
        self._before = 0

    def begin(self, start: int, size: int | None) -> None:
        """Set the bytes of earlier attempts, and the size that the origin states."""
        self.done = start
        self.size = size or self.size
        self._before = start
        self._began = time.monotonic()
        self._show(self)

    def add(self, size: int) -> None:
        """Add bytes that arrived."""
        self.done += size
        self._show(self)

    def __str__(self) -> str:
        seconds = max(time.monotonic() - self._began, 1e-3)
        rate = (self.done - self._before) / seconds
        parts = [readable_size(self.done)]
        if self.size:
            parts = [f"{readable_size(self.done)} of {readable_size(self.size)}"]
        if rate:
            parts.append(f"{readable_size(rate)}/s")
        if rate and self.size and self.done < self.size:
            parts.append(f"{duration((self.size - self.done) / rate)} left")
        return f"{self.name}: {', '.join(parts)}"


@contextmanager
def transfer(name: str, size: int | None) -> Iterator[Progress]:
    """Show the progress of the block."""
    if environment().quiet:
        yield Progress(name, size, lambda _: None)
        return
    if terminal().isatty():
        yield from _bar(name, size)
        return
    shown = time.monotonic()

    def show(progress: Progress) -> None:
        nonlocal shown
        if time.monotonic() - shown >= EVERY_SECONDS:
            shown = time.monotonic()
            display().say(str(progress))

    progress = Progress(name, size, show)
    yield progress
    display().say(str(progress))


def _bar(name: str, size: int | None) -> Iterator[Progress]:
    from rich import progress as bars
    from rich.console import Console

    columns = (
        bars.TextColumn("{task.description:<28}"),
        bars.BarColumn(bar_width=32),
        bars.DownloadColumn(),
        bars.TransferSpeedColumn(),
        bars.TimeRemainingColumn(),
    )
    with bars.Progress(*columns, console=Console(file=terminal())) as shown:
        task = shown.add_task(name, total=size)
        yield Progress(
            name, size, lambda state: shown.update(task, completed=state.done, total=state.size)
        )
