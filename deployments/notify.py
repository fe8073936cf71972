"""The notice flow of the automations: a local notice without external services."""

from __future__ import annotations

import json
from uuid import UUID

from prefect import flow, get_client, get_run_logger, runtime
from prefect.artifacts import create_markdown_artifact

from flows.runtime.flow_runs import crash_open_tasks
from flows.runtime.manifest import now
from flows.runtime.state_folder import state_folder


@flow(name="notice", validate_parameters=True)
def notice(subject: str = "A notice", text: str = "", run: str = "") -> None:
    """Write a line to notices.jsonl in the state folder, and the artifact 'notices'.

    Args:
        subject: a short title.
        text: details and the next action.
        run: id of the flow run.
    """
    page = _page(run)
    if run:
        _end_tasks_of_a_crashed_run(run)
    line = json.dumps({"time": now(), "subject": subject, "text": text, "run": page}, ensure_ascii=False)
    with (state_folder() / "notices.jsonl").open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    create_markdown_artifact(f"# {subject}\n\n{text}\n\n{page}", key="notices", description=subject)
    get_run_logger().warning("%s. %s", subject, text)


def _end_tasks_of_a_crashed_run(run: str) -> None:
    """Mark its open task runs as crashed, too; their process is dead."""
    with get_client(sync_client=True) as client:
        state = client.read_flow_run(UUID(run)).state
    if state is not None and state.is_crashed():
        crash_open_tasks(run)


def _page(run: str) -> str:
    """Return the URL of a flow run's page, derived from the URL of this run."""
    own, page = str(runtime.flow_run.id), str(runtime.flow_run.ui_url or "")
    return page.replace(own, run) if run and own in page else ""
