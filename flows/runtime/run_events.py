"""Events of a flow run that Prefect leaves out and the automations of its server need: its scheduling and its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from prefect import get_client, runtime
from prefect.events import emit_event
from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY

from tasks.prefect import page

ENDED = "wasp.flow-run.ended"
"""Event after the last heartbeat. Without it, a heartbeat that arrives after Prefect's own event of the end would make
the automation mark a finished run as crashed."""


@contextmanager
def reported_end() -> Iterator[None]:
    """Emit the event of the end of this flow run, if it has a heartbeat."""
    run = runtime.flow_run.id
    if run is None or PREFECT_FLOWS_HEARTBEAT_FREQUENCY.value() is None:
        yield
        return
    resource = {"prefect.resource.id": f"prefect.flow-run.{run}", "prefect.resource.name": str(runtime.flow_run.name)}
    page.later(lambda: _emit_scheduled(UUID(str(run)), resource))
    try:
        yield
    finally:
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
