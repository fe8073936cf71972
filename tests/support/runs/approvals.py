"""Runs that wait for an approval: started, found on the server, answered."""

from __future__ import annotations

import subprocess
import time
from typing import Any

from tests.support.runs.pipeline import Pipeline
from tests.support.runs.served_flow import Refused, ask
from tests.support.waits import WAIT_SECONDS


def resume(api: str, run: str, **answer: Any) -> str:
    """Fill the form of a paused run and send it; return what the server did with it."""
    return str(ask(api, f"/flow_runs/{run}/resume", {"run_input": answer})["status"])


def paused(api: str, after: float) -> dict[str, Any]:
    """Wait for a run that started lately to pause; return it with its form on the server."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        for run in ask(api, "/flow_runs/filter", {"sort": "START_TIME_DESC", "limit": 5}):
            if run["state_type"] == "PAUSED" and run["expected_start_time"] > after:
                with_form(api, run)
                return dict(run)
        time.sleep(0.3)
    raise AssertionError("no run paused")


def with_form(api: str, run: dict[str, Any]) -> str:
    """Wait until the form's text is there; return it."""
    keys = run["state"]["state_details"]["run_input_keyset"]
    for _ in range(50):
        try:
            return str(ask(api, f"/flow_runs/{run['id']}/input/{keys['description']}"))
        except Refused:
            time.sleep(0.2)
    raise AssertionError("the run has no form")


def started(pipeline: Pipeline, *arguments: str) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """Start the command without a terminal; return it and the run that waits in Prefect."""
    now = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() - 1))
    process = pipeline.start(*arguments)
    return process, paused(pipeline.api, now)
