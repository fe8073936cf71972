"""Progress of long steps on the run's page in Prefect, told by a thread of its own: no step waits for the API."""

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
from flows.runtime.terminal_progress import Note, display, nothing_more, rate_and_rest

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

EVERY_SECONDS = 2.0
"""Between two showings; work that is over sooner is not shown at all."""
PATIENCE_SECONDS = 5.0
PAUSE_SECONDS = 30.0
"""Without a showing after the API failed."""


@dataclass(slots=True, eq=False)
class Piece:
    """One piece of work in a step of a flow run, and what its page shows of it so far."""

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

    def words(self) -> str:
        """Return done and wanted, rate and time left: the page itself draws no more than a percentage."""
        seconds = time.monotonic() - self.started
        note = self.note()
        rest = rate_and_rest(self.done, self.total, seconds)
        return f"{self.what}: {self.done} of {self.total}, {rest}{', ' if note else ''}{note}"

    def due(self) -> bool:
        """Say whether the page should be told: something changed, and the work is no short one."""
        age = time.monotonic() - self.started
        return self.done != self.shown and (self.artifact is not None or (age >= EVERY_SECONDS and not self.over))


class LivePage:
    """Keeps one progress artifact per long piece of work up to date while there is work."""

    def __init__(self) -> None:
        self._pieces: list[Piece] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._quiet_until = 0.0
        self._told = False

    @contextmanager
    def work(self, what: str, total: int, note: Note = nothing_more) -> Iterator[Advance]:
        """Show a piece of work if a flow run does it; a page that cannot be reached changes nothing."""
        piece = _piece(what, total, note)
        if piece is None:
            yield _nowhere
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

    def flush(self, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait a moment until the last state of everything that ended is shown."""
        thread = self._thread
        if thread is not None:
            self._wake.set()
            thread.join(seconds)

    def _begin(self, piece: Piece) -> None:
        with self._lock:
            self._pieces.append(piece)
            if self._thread is None:
                # The settings of the run (its server) lie in the context, which threads do not inherit.
                run = contextvars.copy_context().run
                self._thread = threading.Thread(target=run, args=(self._keep_telling,), daemon=True)
                self._thread.start()

    def _keep_telling(self) -> None:
        while True:
            self._wake.wait(EVERY_SECONDS)
            self._wake.clear()
            with self._lock:
                pieces = list(self._pieces)
                ended = [piece for piece in pieces if piece.over]
            self._tell([piece for piece in pieces if piece.due()])
            with self._lock:
                self._pieces = [piece for piece in self._pieces if piece not in ended]
                if not self._pieces:
                    self._thread = None
                    return

    def _tell(self, pieces: list[Piece]) -> None:
        if not pieces or time.monotonic() < self._quiet_until:
            return
        from prefect import get_client

        try:
            with get_client(sync_client=True, httpx_settings={"timeout": PATIENCE_SECONDS}) as client:
                for piece in pieces:
                    _show(client, piece)
        except Exception as error:  # noqa: BLE001  (whatever the page's trouble is, the run goes on)
            self._quiet_until = time.monotonic() + PAUSE_SECONDS
            if not self._told:
                self._told = True
                pieces[0].log.warning(
                    "Prefect's page cannot be told how far the steps are (%s); the run goes on", type(error).__name__
                )


def _piece(what: str, total: int, note: Note) -> Piece | None:
    """Return the piece of work as part of the flow run that does it; None outside of one."""
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


def _show(client: SyncPrefectClient, piece: Piece) -> None:
    from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate

    done, words = piece.done, piece.words()
    share = round(100 * min(done / piece.total, 1.0), 1)
    if piece.artifact is None:
        key = "progress-" + re.sub(r"[^a-z0-9]+", "-", piece.what.lower()).strip("-")
        made = ArtifactCreate(
            type="progress",
            key=key,
            data=share,
            description=words,
            flow_run_id=piece.flow_run,
            task_run_id=piece.task_run,
        )
        piece.artifact = client.create_artifact(made).id
    else:
        client.update_artifact(piece.artifact, ArtifactUpdate(data=share, description=words))
    piece.shown = done


def _nowhere(units: int) -> None:
    """Nobody looks."""


PAGE = LivePage()
"""The pages of this process' runs."""


@contextmanager
def shown(what: str, total: int, note: Note = nothing_more) -> Iterator[Advance]:
    """Show one piece of work on the display of this process and on the run's page."""
    with display().work(what, total, note) as here, PAGE.work(what, total, note) as there:

        def advance(units: int) -> None:
            cancellation.go_on()
            here(units)
            there(units)

        yield advance
