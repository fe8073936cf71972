"""The addresses that the browser goes to, and what the servers behind them say when a program asks."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.support.runs.pipeline import Pipeline
from tests.support.runs.served_flow import artifacts, ask
from tests.support.servers.stack import stack


@dataclass(frozen=True)
class Site:
    """Where Prefect and MLflow answer, the state folder of the worker, and the variables that lead a shell there."""

    prefect: str
    mlflow: str
    home: Path
    client: dict[str, str]

    @property
    def api(self) -> str:
        return f"{self.prefect}/api"

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

    def metric(self, run: str, name: str) -> dict[int, float]:
        """Return the values of a metric in MLflow by iteration."""
        address = f"{self.mlflow}/api/2.0/mlflow/metrics/get-history"
        answer = httpx.get(address, params={"run_id": run, "metric_key": name}).raise_for_status().json()
        return {point.get("step", 0): point["value"] for point in answer["metrics"]}

    def deployment(self, name: str) -> dict[str, Any]:
        return dict(ask(self.api, f"/deployments/name/{name}"))

    def start(self, deployment: str, config: dict[str, Any]) -> str:
        """Start a run of a deployment with parameters of its own; return its id."""
        body = {"parameters": {"config": config}, "state": {"type": "SCHEDULED"}}
        place = f"/deployments/{self.deployment(deployment)['id']}/create_flow_run"
        return str(ask(self.api, place, body)["id"])

    def fill_form_with(self, deployment: str, config: dict[str, Any]) -> None:
        """Change the values that the form of a deployment starts with."""
        place = f"/deployments/{self.deployment(deployment)['id']}"
        ask(self.api, place, {"parameters": {"config": config}}, method="PATCH")

    def artifact_page(self, flow_run: str, key: str) -> str:
        return f"{self.prefect}/v2/artifacts/artifact/{artifacts(self.api, flow_run)[key]['id']}"

    def flow_runs(self) -> list[dict[str, Any]]:
        return list(ask(self.api, "/flow_runs/filter", {}))

    def flow_run(self, flow_run: str) -> dict[str, Any]:
        return dict(ask(self.api, f"/flow_runs/{flow_run}"))

    def manifest(self, flow_run: str) -> dict[str, Any]:
        """Return what the worker's state folder knows of a run: its manifest, and its summary once it is finished."""
        for place in self.home.glob("runs/*/manifest.json"):
            kept: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
            if kept["prefect_run_id"] == flow_run:
                summary = place.with_name("summary.json")
                return kept | {"summary": json.loads(summary.read_text(encoding="utf-8")) if summary.exists() else {}}
        raise AssertionError(f"the state folder has no run of {flow_run}")

    def steps(self, flow_run: str) -> dict[str, list[str]]:
        """Return the names of the states that each step of a run ended in, oldest first."""
        body = {"flow_runs": {"id": {"any_": [flow_run]}}, "sort": "EXPECTED_START_TIME_ASC", "limit": 200}
        states: dict[str, list[str]] = {}
        for one in ask(self.api, "/task_runs/filter", body):
            states.setdefault(one["name"], []).append(one["state"]["name"])
        return states


@contextmanager
def running_site(home: Path) -> Iterator[Site]:
    """Start everything that `make up` starts, with a state folder of its own."""
    with stack(home, PREFECT_WORKER_QUERY_SECONDS="1") as running:
        yield Site(running.prefect, running.mlflow, running.home, running.client)
