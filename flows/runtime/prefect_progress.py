"""Progress of long steps on the run's page in Prefect; no step waits for the API."""

from __future__ import annotations

import contextvars
import logging
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from connectors.interfaces import cancellation
from connectors.interfaces.progress import Advance
from flows.runtime.terminal_progress import Note, display, format_rate, no_note

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

EVERY_SECONDS = 2.0
"""Update interval; shorter work is not shown."""
TIMEOUT_SECONDS = 5.0
PAUSE_SECONDS = 30.0
"""Pause of updates after the API failed."""


@dataclass(slots=True)
class Outage:
    """The last failure of the API: no update is sent until `until`, and only the first failure is logged."""

    until: float = 0.0
    logged: bool = False


OUTAGE = Outage()


@dataclass(slots=True, eq=False)
class Piece:
    """A piece of work of a flow run, and its last published state."""

    what: str
    total: int
    note: Note
    flow_run: UUID
    task_run: UUID | None
    log: Any
    context: contextvars.Context = field(default_factory=contextvars.copy_context)
    """Settings of the run (its server); steps advance from threads that do not inherit them."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    started: float = field(default_factory=time.monotonic)
    updated: float = field(default_factory=time.monotonic)
    done: int = 0
    shown: int = -1
    is_queued: bool = False
    artifact: UUID | None = None

    def advance(self, units: int) -> None:
        """Add finished units; queue an update if the last one is long enough ago."""
        with self.lock:
            self.done += units
            if time.monotonic() - self.updated >= EVERY_SECONDS:
                self._queue()

    def finish(self) -> None:
        """Queue the last update of work that is shown."""
        with self.lock:
            if self.artifact is not None and self.done != self.shown:
                self._queue()

    def describe(self) -> str:
        """Return units, rate and time left; Prefect's page itself shows only a percentage."""
        seconds = time.monotonic() - self.started
        note = self.note()
        rate = format_rate(self.done, self.total, seconds)
        return f"{self.what}: {self.done} of {self.total}, {rate}{', ' if note else ''}{note}"

    def _queue(self) -> None:
        if not self.is_queued:
            self.is_queued = True
            from tasks.prefect import page

            self.context.run(page.later, self._publish)

    def _publish(self) -> None:
        from prefect import get_client

        with self.lock:
            self.is_queued, self.updated = False, time.monotonic()
        if self.updated < OUTAGE.until:
            return
        try:
            with get_client(sync_client=True, httpx_settings={"timeout": TIMEOUT_SECONDS}) as client:
                _publish_piece(client, self)
        except Exception as error:  # noqa: BLE001  (a display error must not stop the run)
            OUTAGE.until = time.monotonic() + PAUSE_SECONDS
            if not OUTAGE.logged:
                OUTAGE.logged = True
                self.log.warning(
                    "Progress cannot be sent to Prefect (%s). The run is not affected", type(error).__name__
                )


def _publish_piece(client: SyncPrefectClient, piece: Piece) -> None:
    from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate

    done, description = piece.done, piece.describe()
    percent = round(100 * min(done / piece.total, 1.0), 1)
    if piece.artifact is None:
        key = "progress-" + re.sub(r"[^a-z0-9]+", "-", piece.what.lower()).strip("-")
        artifact = ArtifactCreate(
            type="progress",
            key=key,
            data=percent,
            description=description,
            flow_run_id=piece.flow_run,
            task_run_id=piece.task_run,
        )
        piece.artifact = client.create_artifact(artifact).id
    else:
        client.update_artifact(piece.artifact, ArtifactUpdate(data=percent, description=description))
    piece.shown = done


def _piece(what: str, total: int, note: Note) -> Piece | None:
    """Return the piece of work of the current flow run; None outside a flow run."""
    from prefect import get_run_logger, runtime
    from prefect.exceptions import MissingContextError

    flow_run, task_run = runtime.flow_run.id, runtime.task_run.id
    if flow_run is None or total <= 0:
        return None
    try:
        log: Any = get_run_logger()
    except MissingContextError:
        log = logging.getLogger(__name__)
    return Piece(what, total, note, UUID(str(flow_run)), UUID(str(task_run)) if task_run else None, log)


@contextmanager
def shown(what: str, total: int, note: Note = no_note) -> Iterator[Advance]:
    """Show a piece of work on the display of this process and in Prefect."""
    piece = _piece(what, total, note)
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
