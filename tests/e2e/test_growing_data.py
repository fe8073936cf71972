"""A scheduled deployment whose file grows: nothing new costs nothing, new rows are charged, a full cap refuses."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.support.paths import DESK
from tests.support.runs.pipeline import Pipeline, values
from tests.support.runs.prepared_run import LABELS
from tests.support.runs.served_flow import OVER, Served, served
from tests.support.servers.vendor import VendorServer
from tests.support.waits import wait_until

EPSILON, CAP = 4.0, 6.0
TWICE = 5.992
"""The epsilon at delta 1e-5 of two runs of epsilon 4 together, by Gaussian DP: mu^2 adds up."""
ROWS = pd.read_parquet(DESK / "private.parquet")


def kinds(entries: list[dict[str, Any]]) -> list[str]:
    return [entry["kind"] for entry in entries]


def spent(pipeline: Pipeline) -> float:
    (status,) = pipeline.answer("budget", "show", "growing")["datasets"]
    return float(status["spent"])


def run_once(deployment: Served) -> tuple[dict[str, Any], dict[str, str]]:
    run = deployment.run()
    return deployment.end(run), deployment.tasks(run)


def over(deployment: Served) -> list[dict[str, Any]]:
    return [run for run in deployment.runs() if run["state_type"] in OVER]


@pytest.mark.slow
def test_a_schedule_on_a_growing_file(pipeline: Pipeline, tmp_path: Path) -> None:
    pipeline.extra = {"VENDOR_KEY": "sk-none"}
    file = tmp_path / "rows.parquet"
    ROWS.head(80).to_parquet(file)
    classes = [word for label in LABELS for word in ("--class", label)]
    pipeline.answer(
        "dataset", "add", "growing", "--path", str(file), "--epsilon-cap", str(CAP), *classes
    )
    with VendorServer() as server:
        config = values(plms=[server.plm()]) | {"private": {"dataset": "growing"}}
        with served(pipeline, "growing", config, interval=30) as deployment:
            wait_until(lambda: len(over(deployment)) >= 2, log=deployment.log)
            deployment.pause()
            wait_until(lambda: over(deployment) == deployment.runs(), log=deployment.log)

            # the schedule: once from nothing, then for nothing
            first, second = over(deployment)[:2]
            assert (first["state_name"], second["state_name"]) == ("Completed", "Reused"), second[
                "state"
            ]
            assert first["state"]["message"].startswith(f"Charged epsilon {EPSILON:.4f}; ")
            assert second["state"]["message"].startswith("Reused, nothing charged; ")
            assert set(deployment.tasks(first["id"]).values()) == {"Completed"}
            steps = deployment.tasks(second["id"])
            assert {
                name: state
                for name, state in steps.items()
                if state != "Reused" and "record" not in name
            } == {}
            assert len(steps) > 10
            entries, asked = pipeline.entries("growing"), server.count
            assert asked == 72
            assert kinds(entries).count("release") == 2
            assert kinds(entries)[-1] == "finish", "the second run wrote no line"
            assert kinds(entries).count("finish") == kinds(entries).count("reserve") == 1

            # new rows: a version of the same dataset, charged on top of what the shared rows have spent
            ROWS.head(100).to_parquet(file)
            state, _ = run_once(deployment)
            assert state["name"] == "Completed", state
            new = pipeline.entries("growing")[len(entries) :]
            assert kinds(new) == ["version", "reserve", "release", "release", "finish"]
            assert spent(pipeline) == pytest.approx(TWICE, abs=1e-3)

            # the cap is full: the run is refused, and its state says why and what to do
            ROWS.to_parquet(file)
            asked = server.count
            state, steps = run_once(deployment)
            assert (state["name"], steps) == ("Failed", {})
            assert f"needs epsilon {EPSILON:g}" in state["message"]
            assert f"left {CAP - TWICE:.4f}"[:9] in state["message"]
            assert f"of the cap {CAP:g}" in state["message"]
            assert "Lower privacy.epsilon" in state["message"]
            assert "wasp budget cap growing" in state["message"]
            assert server.count == asked
            assert spent(pipeline) == pytest.approx(TWICE, abs=1e-3)
            assert kinds(pipeline.entries("growing"))[-2:] == ["version", "refuse"]
    pipeline.call("budget", "verify", "growing", code=0)
