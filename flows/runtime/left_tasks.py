"""Task runs that a dead process left open: their pages would show them as Running forever."""

from __future__ import annotations

from uuid import UUID

from prefect import get_client, runtime
from prefect.client.schemas.filters import FlowRunFilter, TaskRunFilter
from prefect.exceptions import ObjectNotFound
from prefect.states import Crashed

OPEN = TaskRunFilter.model_validate({"state": {"type": {"any_": ["RUNNING", "PENDING"]}}})


def end_left_tasks(earlier: str | None) -> None:
    """Mark the open task runs of earlier attempts as crashed; called by the run that holds their lock.

    Args:
        earlier: id of the flow run that executed this run before, which may be the current one (Retry).
    """
    own, attempt = runtime.flow_run.id, runtime.flow_run.run_count
    if own is not None:
        crash_open_tasks(str(own), attempt)
    if earlier is not None and earlier != str(own):
        crash_open_tasks(earlier)


def crash_open_tasks(flow_run: str, before: int | None = None) -> None:
    """Mark the open task runs of a flow run, whose process is dead, as crashed; with `before`, of earlier attempts."""
    of_run = FlowRunFilter.model_validate({"id": {"any_": [UUID(flow_run)]}})
    with get_client(sync_client=True) as client:
        for task in client.read_task_runs(flow_run_filter=of_run, task_run_filter=OPEN):
            if before is not None and int(task.flow_run_run_count) >= before:
                continue
            try:
                client.set_task_run_state(task.id, Crashed(message="The process of this attempt died."), force=True)
            except ObjectNotFound:  # deleted in between
                continue
