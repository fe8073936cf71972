"""Progress of long steps on the run's page in Prefect; no step waits for the API."""

import contextvars
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import UUID

from connectors.interfaces import cancellation
from connectors.interfaces.progress import Advance
from flows.runtime.terminal_progress import Work, display

EVERY_SECONDS = 2.0
"""Update interval; shorter work is not shown."""


@dataclass(slots=True, eq=False)
class Progress:
    """The progress artifact of a piece of work of a flow run, and its last published state."""

    work: Work
    context: contextvars.Context = field(default_factory=contextvars.copy_context)
    """The run and its server; steps advance from threads that do not inherit them."""
    updated: float = field(default_factory=time.monotonic)
    is_queued: bool = False
    artifact: UUID | None = None

    def update(self, is_last: bool = False) -> None:
        """Queue an update if the last one is long enough ago; the last update of work that is shown at once."""
        from tasks.prefect import page

        with self.work.lock:
            is_due = time.monotonic() - self.updated >= EVERY_SECONDS
            # Work that ended before its first update never appears on the page.
            if is_last:
                is_due = self.artifact is not None
            if is_due and not self.is_queued:
                self.is_queued = True
                self.context.run(page.defer, self._publish)

    def _publish(self) -> None:
        from prefect.artifacts import create_progress_artifact, update_progress_artifact

        work = self.work
        with work.lock:
            self.is_queued = False
            self.updated = time.monotonic()
        percent = round(100 * work.done / work.total, 1)
        description = f"{work.what}: {work.done} of {work.total}, {work.describe()}"
        if self.artifact is None:
            key = "progress-" + re.sub(r"[^a-z0-9]+", "-", work.what.lower()).strip("-")
            self.artifact = create_progress_artifact(percent, key, description)  # type: ignore[assignment]
        else:
            update_progress_artifact(self.artifact, percent, description)


@contextmanager
def shown(what: str, total: int, note: Callable[[], str] = str) -> Iterator[Advance]:
    """Show a piece of work on the display of this process and, in a flow run, in Prefect."""
    from prefect import runtime

    work = Work(what, total, note)
    on_page = None
    if runtime.flow_run.id is not None and total > 0:
        on_page = Progress(work)
    with display().work(work) as update_display:

        def advance(units: int) -> None:
            # Long steps report often, and notice a cancellation here.
            cancellation.raise_if_stopped()
            work.add(units)
            update_display()
            if on_page is not None:
                on_page.update()

        try:
            yield advance
        finally:
            if on_page is not None:
                on_page.update(is_last=True)
