"""A deployment of a flow, served by a process of its own, and what a person does with it in the Prefect UI."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.support.paths import ROOT
from tests.support.runs.pipeline import Pipeline
from tests.support.waits import wait_until

SERVE = """
import json, sys
from prefect.deployments.runner import EntrypointType
from flows.methods.wasp.flow import wasp
chosen = {"limit": 1, "pause_on_shutdown": False, "entrypoint_type": EntrypointType.MODULE_PATH}
wasp.serve(**json.loads(sys.argv[1]), **chosen)
"""
OVER = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")


class Refused(Exception):
    """The server said no."""


def call_api(api: str, path: str, body: Any = None, method: str = "") -> Any:
    """Call the API as the UI does."""
    for _ in range(20):
        answer = httpx.request(
            method or ("GET" if body is None else "POST"), f"{api}{path}", json=body, timeout=30
        )
        if answer.status_code != 503:
            break
        time.sleep(0.5)  # its SQLite was busy
    if answer.is_error:
        raise Refused(f"{answer.status_code} {answer.text}")
    return answer.json() if answer.content else None


def states_of_steps(api: str, run: str) -> dict[str, str]:
    """Return the latest state name of each step; the server takes in steps after the run itself has ended."""
    body = {"flow_runs": {"id": {"any_": [run]}}, "sort": "EXPECTED_START_TIME_ASC", "limit": 200}
    seen: dict[str, str] = {}
    quiet = 0
    while quiet < 4:
        now = {
            task["name"]: task["state_name"] for task in call_api(api, "/task_runs/filter", body)
        }
        quiet = quiet + 1 if now == seen else 0
        seen = now
        time.sleep(0.5)
    return seen


@dataclass
class Served:
    """A deployment of `wasp`; `pipeline` is the state folder of its runs, `config` what its form is filled with."""

    pipeline: Pipeline
    name: str
    config: dict[str, Any] | None = None
    interval: int | None = None
    process: "subprocess.Popen[bytes] | None" = field(default=None, init=False)
    id: str = field(default="", init=False)

    @property
    def api(self) -> str:
        """The address of the server."""
        return self.pipeline.api

    def start(self) -> None:
        """Begin to serve."""
        folder = self.pipeline.home.parent
        further = {"PREFECT_RUNNER_POLL_FREQUENCY": "1", "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30"}
        further |= {
            "PREFECT_HOME": str(folder / "prefect-of-serve"),
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        }
        served = {"name": self.name, "interval": self.interval}
        served |= {"parameters": {"config": self.config}} if self.config else {}
        command = [sys.executable, "-c", SERVE, json.dumps(served)]
        with (folder / "serve.log").open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=self.pipeline.environment | further, stdout=log, stderr=log
            )
        self.id = wait_until(self._registered, self.process, self.log)

    def stop(self, kill: bool = False) -> None:
        """End the serving process; with `kill` at once, as when its machine is gone."""
        if self.process is not None:
            (self.process.kill if kill else self.process.terminate)()
            self.process.wait(timeout=60)
            self.process = None

    def log(self) -> str:
        """Return the end of what the serving process wrote."""
        return (self.pipeline.home.parent / "serve.log").read_text()[-3000:]

    def run(self, config: dict[str, Any] | None = None) -> str:
        """Start a run, from the form if its values are given; return its id."""
        parameters = {"config": config, "resumes": None} if config else {}
        body = {"parameters": parameters, "state": {"type": "SCHEDULED"}}
        return str(call_api(self.api, f"/deployments/{self.id}/create_flow_run", body)["id"])

    def retry(self, run: str) -> None:
        """Click Retry."""
        self.set_state(run, type="SCHEDULED", name="AwaitingRetry", message="Retry from the UI")

    def set_state(self, run: str, **state: str) -> None:
        """Put a run into a state, from any other."""
        call_api(self.api, f"/flow_runs/{run}/set_state", {"state": state, "force": True})

    def pause(self) -> None:
        """Switch the schedule off and drop what is late: a busy machine has a queue of it."""
        call_api(self.api, f"/deployments/{self.id}/pause_deployment", {})
        for run in self.runs():
            if run["state"]["type"] == "SCHEDULED":
                call_api(self.api, f"/flow_runs/{run['id']}", method="DELETE")

    def runs(self) -> list[dict[str, Any]]:
        """Return the flow runs of the deployment, oldest first."""
        body = {
            "deployments": {"id": {"any_": [self.id]}},
            "sort": "EXPECTED_START_TIME_ASC",
            "limit": 100,
        }
        return list(call_api(self.api, "/flow_runs/filter", body))

    def state(self, run: str) -> dict[str, Any]:
        """Return the state of a run."""
        return dict(call_api(self.api, f"/flow_runs/{run}")["state"])

    def until(self, run: str, *expected: str) -> dict[str, Any]:
        """Wait until the run is in one of these kinds of states; return its state."""
        wait_until(
            lambda: self.state(run)["type"] in expected, log=lambda: (self.state(run), self.log())
        )
        return self.state(run)

    def end(self, run: str) -> dict[str, Any]:
        """Wait for the end of a run; return its state."""
        return self.until(run, *OVER)

    def tasks(self, run: str) -> dict[str, str]:
        """Return the latest state name of each step."""
        return states_of_steps(self.api, run)

    def _registered(self) -> str:
        try:
            return str(call_api(self.api, f"/deployments/name/wasp/{self.name}")["id"])
        except Refused:
            return ""


def artifacts(api: str, run: str) -> dict[str, dict[str, Any]]:
    """Return the artifacts of a run by key, the latest of each."""
    body = {"flow_runs": {"id": {"any_": [run]}}, "sort": "CREATED_DESC", "limit": 200}
    return {entry["key"]: entry for entry in reversed(call_api(api, "/artifacts/filter", body))}


@contextmanager
def served(
    pipeline: Pipeline, name: str, config: dict[str, Any] | None = None, interval: int | None = None
) -> Iterator[Served]:
    """Serve the flow `wasp` under this name of a deployment until the block ends."""
    pipeline.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    deployment = Served(pipeline, name, config, interval)
    try:
        deployment.start()
        yield deployment
    finally:
        deployment.stop()
