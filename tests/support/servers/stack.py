"""The whole stack of `make up` for a test: free ports, its own state folder, nothing left afterwards."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

from deployments.stack.postgres import cluster_path
from deployments.stack.supervisor import stack_processes
from tests.support.environment import without_settings
from tests.support.paths import ROOT
from tests.support.runs.pipeline import Pipeline
from tests.support.runs.served_flow import artifacts, call_api
from tests.support.servers.ports import free_port


@dataclass
class RunningStack:
    """Where a stack answers; `client` are the variables that a shell gets from its env file."""

    home: Path
    prefect: str
    mlflow: str
    environment: dict[str, str]
    client: dict[str, str] = field(default_factory=dict)

    @property
    def api(self) -> str:
        return f"{self.prefect}/api"

    def word(self, word: str, **changes: str) -> "subprocess.CompletedProcess[str]":
        """Run `make up`, `make down` or `make status`."""
        command = [sys.executable, "-m", "deployments.stack", word]
        return subprocess.run(
            command,
            cwd=ROOT,
            env=self.environment | changes,
            capture_output=True,
            text=True,
            timeout=400,
        )

    def command(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a program of this environment (`prefect`, `flows.cli.main`) as a shell would after `source env`."""
        command = [sys.executable, "-m", *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=self.shell, capture_output=True, text=True, timeout=400
        )

    @property
    def shell(self) -> dict[str, str]:
        """The environment of a shell that has read the env file."""
        return self.environment | self.client

    def members(self) -> list[psutil.Process]:
        """Every process of the stack that runs now."""
        return stack_processes(self.home / "stack")

    @property
    def pipeline(self) -> Pipeline:
        """The command in the state folder that the worker uses."""
        return Pipeline(self.home, self.api, self.client)

    def run_page(self, flow_run: str) -> str:
        return f"{self.prefect}/v2/runs/flow-run/{flow_run}"

    def mlflow_page(self, run: str) -> str:
        return f"{self.mlflow}/#/experiments/{self.mlflow_run(run)['info']['experiment_id']}/runs/{run}"

    def mlflow_run(self, run: str) -> dict[str, Any]:
        address = f"{self.mlflow}/api/2.0/mlflow/runs/get"
        return dict(httpx.get(address, params={"run_id": run}).raise_for_status().json()["run"])

    def deployment(self, name: str) -> dict[str, Any]:
        return dict(call_api(self.api, f"/deployments/name/{name}"))

    def start(self, deployment: str, config: dict[str, Any]) -> str:
        """Start a run of a deployment with parameters of its own; return its id."""
        body = {"parameters": {"config": config}, "state": {"type": "SCHEDULED"}}
        location = f"/deployments/{self.deployment(deployment)['id']}/create_flow_run"
        return str(call_api(self.api, location, body)["id"])

    def fill_form_with(self, deployment: str, config: dict[str, Any]) -> None:
        """Change the values that the form of a deployment starts with."""
        location = f"/deployments/{self.deployment(deployment)['id']}"
        call_api(self.api, location, {"parameters": {"config": config}}, method="PATCH")

    def artifact_page(self, flow_run: str, key: str) -> str:
        return f"{self.prefect}/v2/artifacts/artifact/{artifacts(self.api, flow_run)[key]['id']}"

    def flow_runs(self) -> list[dict[str, Any]]:
        return list(call_api(self.api, "/flow_runs/filter", {}))

    def flow_run(self, flow_run: str) -> dict[str, Any]:
        return dict(call_api(self.api, f"/flow_runs/{flow_run}"))

    def manifest(self, flow_run: str) -> dict[str, Any]:
        """Return what the worker's state folder knows of a run: its manifest, and its summary once it is finished."""
        for location in self.home.glob("runs/*/manifest.json"):
            stored: dict[str, Any] = json.loads(location.read_text(encoding="utf-8"))
            if stored["prefect_run_id"] == flow_run:
                summary = location.with_name("summary.json")
                return stored | {
                    "summary": json.loads(summary.read_text(encoding="utf-8"))
                    if summary.exists()
                    else {}
                }
        raise AssertionError(f"the state folder has no run of {flow_run}")

    def steps(self, flow_run: str) -> dict[str, list[str]]:
        """Return the names of the states that each step of a run ended in, oldest first."""
        body = {
            "flow_runs": {"id": {"any_": [flow_run]}},
            "sort": "EXPECTED_START_TIME_ASC",
            "limit": 200,
        }
        states: dict[str, list[str]] = {}
        for entry in call_api(self.api, "/task_runs/filter", body):
            states.setdefault(entry["name"], []).append(entry["state"]["name"])
        return states


def clean_environment(home: Path, **changes: str) -> dict[str, str]:
    stored = without_settings()
    ports = {name: str(free_port()) for name in ("PREFECT_PORT", "MLFLOW_PORT")}
    inherited = {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    return stored | inherited | ports | {"WASP_HOME": str(home)} | changes


def read_exports(location: Path) -> dict[str, str]:
    """Return the variables that a shell has after reading the env file."""
    text = subprocess.run(
        ["bash", "-c", f'set -a; source "{location}"; env -0'],
        env={},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return dict(
        line.split("=", 1)
        for line in text.split("\0")
        if line.startswith(("WASP_", "PREFECT_", "MLFLOW_"))
    )


@contextmanager
def stack(home: Path, **env: str) -> Iterator[RunningStack]:
    """Start everything on free ports; `env` are variables of `make up`: WASP_AUTH, WASP_DATA..."""
    environment = clean_environment(home, **env)
    urls = [f"http://127.0.0.1:{environment[name]}" for name in ("PREFECT_PORT", "MLFLOW_PORT")]
    running = RunningStack(home, urls[0], urls[1], environment)
    try:
        done = running.word("up")
        assert done.returncode == 0, done.stdout + done.stderr
        running.client = read_exports(home / "stack" / "env")
        yield running
    finally:
        ended = running.word("down")
        # Of root it is not in the state folder.
        shutil.rmtree(cluster_path(home / "stack"), ignore_errors=True)
        left = [process.cmdline() for process in running.members()]
        assert ended.returncode == 0, ended.stderr
        assert left == []
