"""Events of a flow run that the automations of the server wait for: heartbeats, its end, and its scheduling.

Prefect's heartbeat thread sleeps in whole seconds and Prefect joins it, which ends each flow run up to a second late.
Runs started by a command therefore have a thread of their own. For runs started by a worker, the worker's environment
decides, and Prefect's thread sends the heartbeat.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from uuid import UUID

from prefect import __version__, get_client, runtime
from prefect.events import emit_event
from prefect.settings import PREFECT_API_URL, PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

from tasks.prefect import page

ENDED = "wasp.flow-run.ended"
"""Event after the last heartbeat. Without it, a heartbeat that arrives after Prefect's own event of the end would make
the automation mark a finished run as crashed."""

_seconds: ContextVar[int | None] = ContextVar("seconds between heartbeats", default=None)


@contextmanager
def own_heartbeat() -> Iterator[None]:
    """Use `beating` for flow runs in this block; no heartbeat for a temporary server."""
    every = PREFECT_FLOWS_HEARTBEAT_FREQUENCY.value() if PREFECT_API_URL.value() else None
    token = _seconds.set(every)
    try:
        with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):
            yield
    finally:
        _seconds.reset(token)


@contextmanager
def beating() -> Iterator[None]:
    """Send heartbeats of this flow run, if Prefect does not (`own_heartbeat`), and the event of its end."""
    every, run = _seconds.get(), runtime.flow_run.id
    if run is None or (every or PREFECT_FLOWS_HEARTBEAT_FREQUENCY.value()) is None:
        yield
        return
    resource = {
        "prefect.resource.id": f"prefect.flow-run.{run}",
        "prefect.resource.name": str(runtime.flow_run.name),
        "prefect.version": __version__,
    }
    finished = threading.Event()

    def beat() -> None:
        while not finished.is_set():
            emit_event("prefect.flow-run.heartbeat", resource)
            finished.wait(every)

    if every is None:
        page.later(lambda: _emit_scheduled(UUID(str(run)), resource))
    else:  # The context contains the server and the flow of the event; threads do not inherit it.
        threading.Thread(target=copy_context().run, args=(beat,), name="heartbeat", daemon=True).start()
    try:
        yield
    finally:
        finished.set()
        emit_event(ENDED, resource)


def _emit_scheduled(run: UUID, resource: dict[str, str]) -> None:
    """Emit the first event of a run that a schedule created.

    Prefect's scheduler emits none. The server holds the later events of the run, which follow this one, for 15 minutes,
    and with them every notice.
    """
    with get_client(sync_client=True) as client:
        if not client.read_flow_run(run).auto_scheduled:
            return
        first = min(client.read_flow_run_states(run), key=lambda state: state.timestamp)
    emit_event(f"prefect.flow-run.{first.name}", resource, id=first.id)
