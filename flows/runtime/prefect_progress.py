"""Progress of long steps on the run's page in Prefect; no step waits for the API."""

from __future__ import annotations

import contextvars
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import UUID

from connectors.interfaces import cancellation
from connectors.interfaces.progress import Advance
from flows.runtime.terminal_progress import Note, Work, display, no_note

EVERY_SECONDS = 2.0
"""Update interval; shorter work is not shown."""


@dataclass(slots=True, eq=False)
class Piece(Work):
    """A piece of work of a flow run, and its last published state."""

    context: contextvars.Context = field(default_factory=contextvars.copy_context)
    """The run and its server; steps advance from threads that do not inherit them."""
    updated: float = field(default_factory=time.monotonic)
    is_queued: bool = False
    artifact: UUID | None = None

    def advance(self, units: int) -> None:
        """Add finished units; queue an update if the last one is long enough ago."""
        self.add(units)
        with self.lock:
            if time.monotonic() - self.updated >= EVERY_SECONDS:
                self._queue()

    def finish(self) -> None:
        """Queue the last update of work that is shown."""
        with self.lock:
            if self.artifact is not None:
                self._queue()

    def _queue(self) -> None:
        if not self.is_queued:
            self.is_queued = True
            from tasks.prefect import page

            self.context.run(page.later, self._publish)

    def _publish(self) -> None:
        from prefect.artifacts import create_progress_artifact, update_progress_artifact

        with self.lock:
            self.is_queued, self.updated = False, time.monotonic()
        percent = round(100 * self.done / self.total, 1)
        description = f"{self.what}: {self.done} of {self.total}, {self.describe()}"
        if self.artifact is None:
            key = "progress-" + re.sub(r"[^a-z0-9]+", "-", self.what.lower()).strip("-")
            self.artifact = create_progress_artifact(percent, key, description)  # type: ignore[assignment]
        else:
            update_progress_artifact(self.artifact, percent, description)


@contextmanager
def shown(what: str, total: int, note: Note = no_note) -> Iterator[Advance]:
    """Show a piece of work on the display of this process and, in a flow run, in Prefect."""
    from prefect import runtime

    piece = Piece(what, total, note) if runtime.flow_run.id is not None and total > 0 else None
    with display().work(what, total, note) as advance_display:

        def advance(units: int) -> None:
            cancellation.raise_if_stopped()
            advance_display(units)
            if piece is not None:
                piece.advance(units)

        try:
            yield advance
        finally:
            if piece is not None:
                piece.finish()
