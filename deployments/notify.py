"""A notice that automations start: it needs no account and no other machine."""

from __future__ import annotations

import json

from prefect import flow, get_run_logger, runtime
from prefect.artifacts import create_markdown_artifact

from flows.runtime.manifest import now
from flows.runtime.state_folder import state_folder


@flow(name="notice", validate_parameters=True)
def notice(subject: str = "A notice", text: str = "", run: str = "") -> None:
    """Write a line to notices.jsonl of the state folder, and an artifact that the UI shows under 'notices'.

    Args:
        subject: what happened, in a few words.
        text: what to know and what to do next.
        run: id of the flow run that it is about.
    """
    place = _page(run)
    line = json.dumps({"time": now(), "subject": subject, "text": text, "run": place}, ensure_ascii=False)
    with (state_folder() / "notices.jsonl").open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    create_markdown_artifact(f"# {subject}\n\n{text}\n\n{place}", key="notices", description=subject)
    get_run_logger().warning("%s. %s", subject, text)


def _page(run: str) -> str:
    """Return the page of a flow run: it lies beside the page of this one."""
    own, page = str(runtime.flow_run.id), str(runtime.flow_run.ui_url or "")
    return page.replace(own, run) if run and own in page else ""
