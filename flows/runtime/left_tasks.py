"""Task runs that a dead process left open: their pages would show them as Running forever."""

from __future__ import annotations

from uuid import UUID

from prefect import get_client, runtime
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterId,
    TaskRunFilter,
    TaskRunFilterState,
    TaskRunFilterStateType,
)
from prefect.client.schemas.objects import StateType, TaskRun
from prefect.exceptions import ObjectNotFound
from prefect.states import Crashed

OPEN = [StateType.RUNNING, StateType.PENDING]


def end_left_tasks(earlier: str | None) -> None:
    """Mark the open task runs of earlier attempts as crashed; called by the run that holds their lock.

    Args:
        earlier: id of the flow run that executed this run before, which may be the current one (Retry).
    """
    own, attempt = runtime.flow_run.id, runtime.flow_run.run_count
    with get_client(sync_client=True) as client:
        if own is not None:
            crash_tasks(client, [task for task in open_tasks(client, UUID(str(own))) if _attempt(task) < attempt])
        if earlier is not None and earlier != str(own):
            crash_tasks(client, open_tasks(client, UUID(earlier)))


def open_tasks(client: SyncPrefectClient, run: UUID) -> list[TaskRun]:
    """Return the task runs of a flow run that are pending or running."""
    return client.read_task_runs(
        flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[run])),
        task_run_filter=TaskRunFilter(state=TaskRunFilterState(type=TaskRunFilterStateType(any_=OPEN))),
    )


def crash_tasks(client: SyncPrefectClient, tasks: list[TaskRun]) -> None:
    """Mark task runs, whose process is dead, as crashed."""
    for task in tasks:
        try:
            client.set_task_run_state(task.id, Crashed(message="The process of this attempt died."), force=True)
        except ObjectNotFound:  # deleted in between
            continue


def _attempt(task: TaskRun) -> int:
    return int(task.flow_run_run_count)
