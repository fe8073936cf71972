"""`wasp serve`: all flows in one process against a running server; a clear word where there is none."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deployments.registry import deployments
from tests.support.paths import ROOT
from tests.support.runs.pipeline import SMALL, Pipeline
from tests.support.runs.served_flow import OVER, ask
from tests.support.servers.ports import free_port
from tests.support.servers.prefect import prefect_server
from tests.support.waits import WAIT_SECONDS, wait_until


def test_without_a_server_it_says_what_to_type(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path / "home", f"http://127.0.0.1:{free_port()}/api")
    done = pipeline.call("serve")
    assert done.returncode == 2
    assert "No Prefect server responds at http://127.0.0.1:" in done.stderr
    assert "prefect server start" in done.stderr
    assert "make up" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_deployment_of_a_worker_is_not_taken_from_it(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    with prefect_server(tmp_path / "server") as api:
        pipeline = Pipeline(tmp_path / "home", api)
        subprocess.run(
            [sys.executable, "-m", "deployments.register"], env=pipeline.environment, cwd=ROOT, check=True, timeout=200
        )
        done = pipeline.call("serve")
    assert done.returncode == 2
    assert "already runs the deployment" in done.stderr


@pytest.mark.slow
def test_a_run_that_is_started_at_the_server_is_carried_out_twice_over(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    with prefect_server(tmp_path / "server") as api:
        pipeline = Pipeline(tmp_path / "home", api)
        for seed in (0, 1):  # what was served and ended can be served again
            log = (tmp_path / f"serve{seed}.log").open("w")
            served = subprocess.Popen(
                [sys.executable, "-m", "flows.cli.main", "serve"],
                cwd=ROOT,
                env=pipeline.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            try:
                state = _run_once(api, seed)
            finally:
                served.send_signal(signal.SIGINT)
                served.wait(WAIT_SECONDS)
                log.close()
            assert state["name"] == "Completed", (tmp_path / f"serve{seed}.log").read_text()[-3000:]
    assert len(list((pipeline.home / "runs").glob("*/report.html"))) == 2


def _run_once(api: str, seed: int) -> dict[str, Any]:
    wait_until(lambda: _active(api) == len(deployments()))
    demo = ask(api, "/deployments/name/wasp/demo")
    assert demo["entrypoint"] == "flows.methods.wasp.flow.wasp"
    assert demo["parameters"]["config"]["method"]["samples"] == 480
    values = SMALL | {"execution": {"max_workers": 2, "seed": seed}}
    run = ask(api, f"/deployments/{demo['id']}/create_flow_run", {"parameters": {"config": values}})["id"]
    wait_until(lambda: ask(api, f"/flow_runs/{run}")["state"]["type"] in OVER)
    return dict(ask(api, f"/flow_runs/{run}")["state"])


def _active(api: str) -> int:
    """Return how many deployments are served: those of a server that ended are paused."""
    return sum(not deployment["paused"] for deployment in ask(api, "/deployments/filter", {}))
