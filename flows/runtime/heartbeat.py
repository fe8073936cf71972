"""The heartbeat of a flow run that a command started; it ends with the run.

Prefect's own thread sleeps in whole seconds and is waited for, so that each flow run ends up to a second late. Where a
worker starts a run, the worker's environment decides, and Prefect's thread beats.
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
    """Let flow runs of this block beat by themselves (`beating`); a server that ends with this process gets none."""
    every = PREFECT_FLOWS_HEARTBEAT_FREQUENCY.value() if PREFECT_API_URL.value() else None
    token = _seconds.set(every)
    try:
        with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):
            yield
    finally:
        _seconds.reset(token)


@contextmanager
def beating() -> Iterator[None]:
    """Tell the server now and then that this flow run lives, where Prefect does not (`own_heartbeat`)."""
    every, run = _seconds.get(), runtime.flow_run.id
    if every is None or run is None:
        yield
        return
    about = {
        "prefect.resource.id": f"prefect.flow-run.{run}",
        "prefect.resource.name": str(runtime.flow_run.name),
        "prefect.version": __version__,
    }
    over = threading.Event()

    def beat() -> None:
        while not over.is_set():
            emit_event("prefect.flow-run.heartbeat", about)
            over.wait(every)

    # The server, and the flow that the event belongs to, lie in the context, which threads do not inherit.
    threading.Thread(target=copy_context().run, args=(beat,), name="heartbeat", daemon=True).start()
    try:
        yield
    finally:
        over.set()
