"""Runs that wait for an approval: started, found on the server, answered."""

import subprocess
import time
from typing import Any

from tests.support.runs.pipeline import Pipeline
from tests.support.runs.served_flow import Refused, ask
from tests.support.waits import wait_until


def resume(api: str, run: str, **answer: Any) -> str:
    """Fill the form of a paused run and send it; return what the server did with it."""
    return str(ask(api, f"/flow_runs/{run}/resume", {"run_input": answer})["status"])


def paused(api: str, after: str) -> dict[str, Any]:
    """Wait for a run that started lately to pause; return it with its form on the server."""

    def waiting() -> list[dict[str, Any]]:
        runs = ask(api, "/flow_runs/filter", {"sort": "START_TIME_DESC", "limit": 5})
        return [run for run in runs if run["state_type"] == "PAUSED" and run["expected_start_time"] > after]

    run = wait_until(waiting, every=0.3)[0]
    with_form(api, run)
    return run


def with_form(api: str, run: dict[str, Any]) -> str:
    """Wait until the form's text is there; return it."""
    keys = run["state"]["state_details"]["run_input_keyset"]

    def form() -> str:
        try:
            return str(ask(api, f"/flow_runs/{run['id']}/input/{keys['description']}"))
        except Refused:
            return ""

    return wait_until(form, every=0.2)


def started(pipeline: Pipeline, *arguments: str) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """Start the command without a terminal; return it and the run that waits in Prefect."""
    now = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() - 1))
    process = pipeline.start(*arguments)
    return process, paused(pipeline.api, now)
