"""States and events of flow runs that Prefect leaves out.

Tasks that a dead process left open or that are fatal for a run which stops later, and the start and end of a run.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

from prefect import get_client, runtime
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import FlowRunFilter, TaskRunFilter
from prefect.client.schemas.objects import State, TaskRun
from prefect.events import emit_event
from prefect.exceptions import ObjectNotFound
from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY
from prefect.states import Crashed, Failed

from connectors.interfaces.json_values import Json
from tasks.prefect import page
from tasks.prefect.runtime import MODEL_DOWN

ENDED = "wasp.flow-run.ended"
"""Event after the last heartbeat. Without it, a heartbeat that arrives after Prefect's own event of the end would make
the automation mark a finished run as crashed."""


def end_left_tasks(earlier: str | None, began: datetime) -> None:
    """Mark the open task runs of earlier attempts as crashed; called by the run that holds their lock.

    Args:
        earlier: id of the flow run that executed this run before, which may be the current one (Retry).
        began: a moment before the first step of the current attempt. This call may come later than that step: a pending
            task run of the current attempt looks like one of an earlier attempt, but it is younger.
    """
    own = runtime.flow_run.id
    if own is not None:
        crash_open_tasks(str(own), began)
    if earlier is not None and earlier != str(own):
        crash_open_tasks(earlier)


def crash_open_tasks(flow_run: str, before: datetime | None = None) -> None:
    """Mark the open task runs of a flow run, whose process is dead, as crashed; with `before`, only older ones."""
    with get_client(sync_client=True) as client:
        for task in _tasks(client, flow_run, {"type": {"any_": ["RUNNING", "PENDING"]}}):
            if before is None or (task.state is not None and task.state.timestamp < before):
                _set(client, task, Crashed(message="The process of this attempt died."))


def fail_down_models() -> None:
    """Mark the steps of models that are down as failed, when the run stops because of them.

    Until then their state is Completed, because the other models may make up for their texts.
    """
    if runtime.flow_run.id is None:
        return
    with get_client(sync_client=True) as client:
        for task in _tasks(client, str(runtime.flow_run.id), {"name": {"any_": [MODEL_DOWN]}}):
            message = task.state.message if task.state else None
            _set(client, task, Failed(name=MODEL_DOWN, message=message))


def _tasks(client: SyncPrefectClient, flow_run: str, state: Json) -> list[TaskRun]:
    of_run = FlowRunFilter.model_validate({"id": {"any_": [UUID(flow_run)]}})
    in_state = TaskRunFilter.model_validate({"state": state})
    return client.read_task_runs(flow_run_filter=of_run, task_run_filter=in_state)


def _set(client: SyncPrefectClient, task: TaskRun, state: State[Any]) -> None:
    # Forced, because Prefect's rules accept no change of a task run that has ended.
    try:
        client.set_task_run_state(task.id, state, force=True)
    except ObjectNotFound:  # deleted in between
        return


@contextmanager
def reported_end() -> Iterator[None]:
    """Emit the event of the end of this flow run, if it has a heartbeat."""
    run = runtime.flow_run.id
    if run is None or PREFECT_FLOWS_HEARTBEAT_FREQUENCY.value() is None:
        yield
        return
    resource = {
        "prefect.resource.id": f"prefect.flow-run.{run}",
        "prefect.resource.name": str(runtime.flow_run.name),
    }
    page.defer(lambda: _emit_scheduled(UUID(str(run)), resource))
    try:
        yield
    finally:
        emit_event(ENDED, resource)


def _emit_scheduled(run: UUID, resource: dict[str, str]) -> None:
    """Emit the first event of a run that a schedule created.

    Prefect's scheduler emits none. The server holds the later events of the run, which follow this one, for 15 minutes,
    and with them every automation.
    """
    with get_client(sync_client=True) as client:
        if not client.read_flow_run(run).auto_scheduled:
            return
        first = min(client.read_flow_run_states(run), key=lambda state: state.timestamp)
    emit_event(f"prefect.flow-run.{first.name}", resource, id=first.id)
