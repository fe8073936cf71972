"""WASP as a deployment: a process that serves it, and what a person does in the UI, by the same calls.

As a program it serves the flow: `python -m tests.support.runs.deployed_flow CONFIG.yaml SECONDS`; 0: no schedule.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import yaml

from tests.support.paths import ROOT
from tests.support.runs.pipeline import Pipeline
from tests.support.waits import WAIT_SECONDS

NAME = "tested"


@dataclass
class Deployed:
    """One deployment named `NAME`, served by a process of its own."""

    pipeline: Pipeline
    config: Path
    interval: int = 0
    process: "subprocess.Popen[bytes] | None" = field(default=None, init=False)

    def start(self) -> None:
        """Begin to serve."""
        environment = self.pipeline.environment | {
            "PREFECT_RUNNER_POLL_FREQUENCY": "2",
            "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
            "PREFECT_HOME": str(self.pipeline.home.parent / "prefect-of-serve"),
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "PYTHONPATH": str(ROOT),
        }
        command = [sys.executable, "-m", "tests.support.runs.deployed_flow", str(self.config), str(self.interval)]
        with (self.pipeline.home.parent / "serve.log").open("ab") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        self.until(self._is_there, "no deployment")

    def stop(self, kill: bool = False) -> None:
        """End the serving process; with `kill` at once, as when its machine is gone."""
        if self.process is not None:
            (self.process.kill if kill else self.process.terminate)()
            self.process.wait(timeout=60)
            self.process = None

    def until(self, done: Any, otherwise: str) -> None:
        """Wait until `done()`."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not done():
            if time.monotonic() > deadline:
                raise AssertionError(f"{otherwise}: {(self.pipeline.home.parent / 'serve.log').read_text()[-3000:]}")
            time.sleep(0.5)

    # --- what a person does in the UI
    def trigger(self) -> UUID:
        """Quick run: a new run with the parameters of the deployment."""
        with self.client() as client:
            return UUID(str(client.create_flow_run_from_deployment(self._id()).id))

    def retry(self, run: UUID) -> None:
        """Click Retry: the state that the UI posts."""
        from prefect.client.schemas.objects import State, StateDetails, StateType

        details = StateDetails(scheduled_time=datetime.now(UTC))
        state = State(
            type=StateType.SCHEDULED, name="AwaitingRetry", message="Retry from the UI", state_details=details
        )
        with self.client() as client:
            client.set_flow_run_state(run, state, force=True)

    def set_crashed(self, run: UUID) -> None:
        """Do what the automation does when the heartbeat stops."""
        from prefect.states import Crashed

        with self.client() as client:
            client.set_flow_run_state(run, Crashed(message="No heartbeat"), force=True)

    def pause(self) -> None:
        """Switch the schedule off and drop what is late: a busy machine has a queue of it."""
        with self.client() as client:
            client.set_deployment_paused_state(self._id(), True)
        waiting = [one for one in self.runs() if one.state.is_scheduled()]
        with self.client() as client:
            for one in waiting:
                client.delete_flow_run(one.id)

    # --- what a person sees in the UI
    def runs(self) -> list[Any]:
        """Return the flow runs of the deployment, oldest first."""
        from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterId

        with self.client() as client:
            found = client.read_flow_runs(
                deployment_filter=DeploymentFilter(id=DeploymentFilterId(any_=[self._id()])), limit=100
            )
        return sorted(found, key=lambda one: one.expected_start_time or one.created)

    def state(self, run: UUID) -> Any:
        """Return the state of a flow run."""
        with self.client() as client:
            return client.read_flow_run(run).state

    def ended(self, run: UUID) -> Any:
        """Wait until a flow run has ended; return its state."""
        self.until(lambda: self.state(run).is_final(), f"run {run} does not end")
        return self.state(run)

    def steps(self, run: UUID) -> dict[str, str]:
        """Return the state name of each step of a flow run, the latest where a retry made it twice."""
        from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

        # The server takes in task runs after the run itself has ended.
        seen: dict[str, str] = {}
        quiet = 0
        while quiet < 4:
            with self.client() as client:
                where = FlowRunFilter(id=FlowRunFilterId(any_=[run]))
                found = client.read_task_runs(flow_run_filter=where, limit=200)
            found.sort(key=lambda one: one.start_time or one.created)
            now = {one.name: one.state_name or "" for one in found}
            quiet = quiet + 1 if now == seen else 0
            seen = now
            time.sleep(0.5)
        return seen

    @contextmanager
    def client(self) -> Iterator[Any]:
        """Speak with the server."""
        from prefect.client.orchestration import get_client
        from prefect.settings import PREFECT_API_URL, temporary_settings

        with temporary_settings({PREFECT_API_URL: self.pipeline.api}), get_client(sync_client=True) as client:
            yield client

    def _id(self) -> UUID:
        with self.client() as client:
            return UUID(str(client.read_deployment_by_name(f"wasp/{self.name}").id))

    @property
    def name(self) -> str:
        """Name of the deployment: each test its own on a shared server."""
        return f"{NAME}-{self.config.stem}-{self.config.parent.name}"

    def _is_there(self) -> bool:
        from prefect.exceptions import ObjectNotFound

        assert self.process is not None
        assert self.process.poll() is None, (self.pipeline.home.parent / "serve.log").read_text()[-3000:]
        try:
            self._id()
        except ObjectNotFound:
            return False
        return True


@contextmanager
def deployed(pipeline: Pipeline, config: Path, interval: int = 0) -> Iterator[Deployed]:
    """Serve a configuration as a deployment until the block ends."""
    served = Deployed(pipeline, config, interval)
    served.start()
    try:
        yield served
    finally:
        served.stop()


def main(config: Path, seconds: int) -> None:
    """Serve WASP with the configuration of a file, every so many seconds."""
    from prefect import serve
    from prefect.deployments.runner import EntrypointType

    from flows.methods.wasp.flow import wasp

    parameters = {"config": yaml.safe_load(config.read_text(encoding="utf-8"))}
    deployment = wasp.to_deployment(
        name=Deployed(Pipeline(Path(os.environ["WASP_HOME"])), config).name,
        parameters=parameters,
        interval=seconds or None,
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    serve(deployment, limit=1, pause_on_shutdown=False)  # type: ignore[arg-type]


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
