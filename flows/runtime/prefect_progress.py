"""Publishes progress artifacts to Prefect from a background thread.

No step waits for the API.
"""

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


@dataclass(slots=True, eq=False)
class Piece:
    """A piece of work in a step of a flow run, and its last published state."""

    what: str
    total: int
    note: Note
    flow_run: UUID
    task_run: UUID | None
    log: Any
    started: float = field(default_factory=time.monotonic)
    done: int = 0
    shown: int = -1
    over: bool = False
    artifact: UUID | None = None

    def describe(self) -> str:
        """Return units, rate and time left; Prefect's page itself shows only a percentage."""
        seconds = time.monotonic() - self.started
        note = self.note()
        rate = format_rate(self.done, self.total, seconds)
        return f"{self.what}: {self.done} of {self.total}, {rate}{', ' if note else ''}{note}"

    def due(self) -> bool:
        """Return True if the state changed and the work is long enough to publish."""
        age = time.monotonic() - self.started
        return self.done != self.shown and (self.artifact is not None or (age >= EVERY_SECONDS and not self.over))


class LivePage:
    """Publisher of one progress artifact per long piece of work."""

    def __init__(self) -> None:
        self._pieces: list[Piece] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._quiet_until = 0.0
        self._has_warned = False

    @contextmanager
    def work(self, what: str, total: int, note: Note = no_note) -> Iterator[Advance]:
        """Show a piece of work of a flow run; an unreachable API does not affect the work."""
        piece = _piece(what, total, note)
        if piece is None:
            yield _ignore
            return
        self._begin(piece)

        def advance(units: int) -> None:
            with self._lock:
                piece.done += units

        try:
            yield advance
        finally:
            piece.over = True
            self._wake.set()

    def flush(self, seconds: float = TIMEOUT_SECONDS) -> None:
        """Wait until the state of all finished work is published, at most `seconds`."""
        thread = self._thread
        if thread is not None:
            self._wake.set()
            thread.join(seconds)

    def _begin(self, piece: Piece) -> None:
        with self._lock:
            self._pieces.append(piece)
            if self._thread is None:
                # The context contains the settings of the run (its server); threads do not inherit it.
                run = contextvars.copy_context().run
                self._thread = threading.Thread(target=run, args=(self._publish_loop,), daemon=True)
                self._thread.start()

    def _publish_loop(self) -> None:
        while True:
            self._wake.wait(EVERY_SECONDS)
            self._wake.clear()
            with self._lock:
                pieces = list(self._pieces)
                finished = [piece for piece in pieces if piece.over]
            self._publish([piece for piece in pieces if piece.due()])
            with self._lock:
                self._pieces = [piece for piece in self._pieces if piece not in finished]
                if not self._pieces:
                    self._thread = None
                    return

    def _publish(self, pieces: list[Piece]) -> None:
        if not pieces or time.monotonic() < self._quiet_until:
            return
        from prefect import get_client

        try:
            with get_client(sync_client=True, httpx_settings={"timeout": TIMEOUT_SECONDS}) as client:
                for piece in pieces:
                    _publish_piece(client, piece)
        except Exception as error:  # noqa: BLE001  (a display error must not stop the run)
            self._quiet_until = time.monotonic() + PAUSE_SECONDS
            if not self._has_warned:
                self._has_warned = True
                pieces[0].log.warning(
                    "Progress cannot be sent to Prefect (%s). The run is not affected", type(error).__name__
                )


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


def _ignore(units: int) -> None: ...


PAGE = LivePage()
"""Publisher for the runs of this process."""


@contextmanager
def shown(what: str, total: int, note: Note = no_note) -> Iterator[Advance]:
    """Show a piece of work on the display of this process and in Prefect."""
    with display().work(what, total, note) as advance_display, PAGE.work(what, total, note) as advance_page:

        def advance(units: int) -> None:
            cancellation.raise_if_stopped()
            advance_display(units)
            advance_page(units)

        yield advance
