"""Heartbeat of a flow run started by a command; it ends with the run.

Prefect's heartbeat thread sleeps in whole seconds and Prefect joins it, which ends each flow run up to a second late.
For runs started by a worker, the worker's environment decides and Prefect's thread sends the heartbeat.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context

from prefect import __version__, runtime
from prefect.events import emit_event
from prefect.settings import PREFECT_API_URL, PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

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
    """Send heartbeats of this flow run, if Prefect does not (`own_heartbeat`)."""
    every, run = _seconds.get(), runtime.flow_run.id
    if every is None or run is None:
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

    # The context contains the server and the flow of the event; threads do not inherit it.
    threading.Thread(target=copy_context().run, args=(beat,), name="heartbeat", daemon=True).start()
    try:
        yield
    finally:
        finished.set()
