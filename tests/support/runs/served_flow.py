"""A deployment of a flow, served by a process of its own, and what a person does with it in the Prefect UI."""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.support.paths import ROOT
from tests.support.runs.pipeline import Pipeline
from tests.support.waits import WAIT_SECONDS

SERVE = """
from prefect.deployments.runner import EntrypointType
from flows.methods.wasp.flow import wasp
wasp.serve(name={name!r}, pause_on_shutdown=False, entrypoint_type=EntrypointType.MODULE_PATH)
"""
OVER = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}


class Refused(Exception):
    """The server said no: `status` and its words."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(f"{status} {words}")
        self.status = status


def ask(api: str, path: str, body: Any = None, method: str = "") -> Any:
    """Call the API as the UI does."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{api}{path}", data, {"Content-Type": "application/json"})
    request.method = method or ("GET" if body is None else "POST")
    for attempt in range(20):
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                text = answer.read()
                return json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            if error.code != 503 or attempt == 19:
                raise Refused(error.code, error.read().decode()) from None
        time.sleep(0.5)  # its SQLite was busy
    raise AssertionError


@dataclass
class Served:
    """One deployment; `pipeline` is the state folder that its runs work in."""

    api: str
    deployment: str
    pipeline: Pipeline

    def start(self, config: dict[str, Any]) -> str:
        """Start a run from the form; return its id."""
        body = {"parameters": {"config": config, "resumes": None}, "state": {"type": "SCHEDULED"}}
        return str(ask(self.api, f"/deployments/{self.deployment}/create_flow_run", body)["id"])

    def retry(self, run: str) -> None:
        """Click Retry."""
        state = {"type": "SCHEDULED", "name": "AwaitingRetry", "message": "Retry from the UI"}
        ask(self.api, f"/flow_runs/{run}/set_state", {"state": state, "force": True})

    def until(self, run: str, *wanted: str, seconds: float = WAIT_SECONDS) -> dict[str, Any]:
        """Wait until the run is in one of these kinds of states; return its state."""
        deadline = time.monotonic() + seconds
        state: dict[str, Any] = {}
        while time.monotonic() < deadline:
            state = ask(self.api, f"/flow_runs/{run}")["state"]
            if state["type"] in wanted:
                return state
            time.sleep(0.3)
        raise AssertionError(f"run {run} is still {state}")

    def end(self, run: str, seconds: float = WAIT_SECONDS) -> dict[str, Any]:
        """Wait for the end of a run; return its state."""
        time.sleep(0.5)
        return self.until(run, *OVER, seconds=seconds)

    def tasks(self, run: str) -> dict[str, str]:
        """Return the latest state name of each step."""
        body = {"flow_runs": {"id": {"any_": [run]}}, "sort": "EXPECTED_START_TIME_ASC", "limit": 200}
        return {one["name"]: one["state_name"] for one in ask(self.api, "/task_runs/filter", body)}

    def logs(self, run: str) -> list[str]:
        """Return the log of a run, task runs included."""
        body = {"logs": {"flow_run_id": {"any_": [run]}}, "sort": "TIMESTAMP_ASC", "limit": 200}
        return [one["message"] for one in ask(self.api, "/logs/filter", body)]

    def artifacts(self, run: str) -> dict[str, dict[str, Any]]:
        """Return the artifacts of a run by key, the latest of each."""
        return artifacts(self.api, run)


def artifacts(api: str, run: str) -> dict[str, dict[str, Any]]:
    """Return the artifacts of a run by key, the latest of each."""
    body = {"flow_runs": {"id": {"any_": [run]}}, "sort": "CREATED_DESC", "limit": 200}
    return {one["key"]: one for one in reversed(ask(api, "/artifacts/filter", body))}


@contextmanager
def served(api: str, pipeline: Pipeline, name: str) -> Iterator[Served]:
    """Serve the flow `wasp` under this name of a deployment."""
    pipeline.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    more = {"PREFECT_RUNNER_POLL_FREQUENCY": "1", "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30"}
    home = {"PREFECT_HOME": str(pipeline.home / "prefect")}
    log = pipeline.home / "serve.log"
    with log.open("wb") as file:
        command = [sys.executable, "-c", SERVE.format(name=name)]
        process = subprocess.Popen(command, cwd=ROOT, env=pipeline.environment | more | home, stdout=file, stderr=file)
    try:
        yield Served(api, _registered(api, name, process, log), pipeline)
    finally:
        process.terminate()
        process.wait(timeout=60)


def _registered(api: str, name: str, process: "subprocess.Popen[bytes]", log: Any) -> str:
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(log.read_text()[-2000:])
        try:
            return str(ask(api, f"/deployments/name/wasp/{name}")["id"])
        except Refused:
            time.sleep(0.5)
    raise RuntimeError(f"the deployment was not registered: {log.read_text()[-2000:]}")
