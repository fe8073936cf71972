"""Events of privacy budgets on a real server: one for each charge, one for each refusal, and nothing private."""

import time
from collections.abc import Mapping
from typing import Any

import pytest
from mlflow import MlflowClient

from flows.runtime.budget_events import CHARGED, REFUSED, left_range
from tests.support.runs.pipeline import Pipeline
from tests.support.runs.served_flow import call_api
from tests.support.servers.prefect import read_events
from tests.support.waits import wait_until

Event = Mapping[str, Any]
QUIET_SECONDS = 3.0
"""Time in which an event that must not come would arrive."""


def related(event: Event) -> dict[str, str]:
    """Return the ids of an event's related resources by their role."""
    return {
        entry["prefect.resource.role"]: entry["prefect.resource.id"] for entry in event["related"]
    }


def of_run(api: str, name: str, run_id: str) -> list[Event]:
    events = read_events(api, name, "wasp.dataset.desk")
    return [event for event in events if event["payload"]["run_id"] == run_id]


@pytest.fixture(scope="module")
def second_run(
    api: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Pipeline, Mapping[str, Any]]:
    """Return a state folder and the summary of its second run: the first one has spent a part of the cap."""
    pipeline = Pipeline(tmp_path_factory.mktemp("events") / "home", api)
    pipeline.run()
    pipeline.answer("budget", "cap", "desk", "--epsilon", "6.5", "--reason", "of the test")
    return pipeline, pipeline.run(execution={"seed": 1})


def test_each_charge_has_one_event_and_a_run_that_charges_nothing_has_none(
    second_run: tuple[Pipeline, Mapping[str, Any]],
) -> None:
    pipeline, summary = second_run
    run_id = summary["run_id"]
    released = [entry for entry in pipeline.entries() if entry["kind"] == "release"]
    entries = [entry for entry in released if entry["run_id"] == run_id]
    before = released[len(released) - len(entries) - 1]
    assert len(entries) > 1, "one release would prove nothing about each"
    wait_until(lambda: len(of_run(pipeline.api, CHARGED, run_id)) >= len(entries), seconds=60)
    events = sorted(
        of_run(pipeline.api, CHARGED, run_id), key=lambda event: event["payload"]["epsilon_total"]
    )
    charges = [event["payload"] for event in events]
    assert [charge["slot"] for charge in charges] == [entry["slot"] for entry in entries]
    assert [charge["epsilon_total"] for charge in charges] == pytest.approx(
        [entry["epsilon"] for entry in entries]
    )
    charged = sum(charge["epsilon_charged"] for charge in charges)
    last = charges[-1]
    assert before["run_id"] != run_id
    assert charged == pytest.approx(last["epsilon_total"] - before["epsilon"])
    assert (last["epsilon_cap"], last["delta_cap"], last["delta_total"]) == (6.5, 1e-5, 1e-5)
    assert last["share_left"] == pytest.approx(1 - last["epsilon_total"] / 6.5)
    assert set(last) == {
        *("dataset", "run_id", "slot", "epsilon_charged", "epsilon_total", "epsilon_cap"),
        *("delta_charged", "delta_total", "delta_cap", "share_left", "exposed"),
    }
    for event in events:
        assert event["resource"]["prefect.resource.name"] == "desk"
        assert event["resource"]["wasp.budget.left"] == left_range(event["payload"]["share_left"])
        assert related(event)["flow-run"] == f"prefect.flow-run.{summary['prefect_run_id']}"
    # Resumed: all releases are those of the ledger.
    assert pipeline.answer("resume", run_id)["epsilon_added"] == summary["epsilon_added"]
    time.sleep(QUIET_SECONDS)
    assert len(of_run(pipeline.api, CHARGED, run_id)) == len(entries)


def test_a_run_that_the_cap_refuses_has_an_event(
    second_run: tuple[Pipeline, Mapping[str, Any]],
) -> None:
    pipeline, summary = second_run
    refused = pipeline.call(
        "run", "wasp", "--config", str(pipeline.config(execution={"seed": 7})), code=3
    )
    assert "of the cap 6.5" in refused.stderr
    wait_until(lambda: read_events(pipeline.api, REFUSED, "wasp.dataset.desk"), seconds=60)
    (event,) = [
        event
        for event in read_events(pipeline.api, REFUSED, "wasp.dataset.desk")
        if event["payload"]["epsilon_cap"] == 6.5
    ]
    payload = event["payload"]
    assert payload["epsilon_needed"] == pytest.approx(summary["epsilon_spent"], rel=1e-3)
    assert f"needs epsilon {payload['epsilon_needed']:.4g}" in refused.stderr
    assert f"left {payload['epsilon_left']:.4g} of the cap 6.5" in refused.stderr
    assert f"missing {payload['epsilon_missing']:.4g}" in refused.stderr
    assert "flow-run" in related(event)


def test_a_run_whose_rows_stay_closed_states_epsilon_0_and_charges_nothing(
    pipeline: Pipeline,
) -> None:
    method = {"guidance": "auto", "iterations": 2, "samples": 36}
    summary = pipeline.run(method=method, private={"declared_rows": 20}, privacy={"epsilon": 1.5})
    assert (summary["epsilon_spent"], summary["releases"]) == (0, 0)
    run = call_api(pipeline.api, f"/flow_runs/{summary['prefect_run_id']}")
    assert "-e0-s0-" in run["name"]
    assert "epsilon 0" in run["tags"]
    client = MlflowClient(f"sqlite:///{pipeline.home / 'mlflow.db'}")
    tags = client.get_run(summary["mlflow_run_id"]).data.tags
    assert tags["wasp.privacy"] == "epsilon 0"
    time.sleep(QUIET_SECONDS)
    assert of_run(pipeline.api, CHARGED, summary["run_id"]) == []


def test_a_share_is_in_one_range() -> None:
    shares = (0.0, 0.0999, 0.1, 0.1999, 0.2, 1.0, None)
    assert [left_range(share) for share in shares] == [
        *("0-10 %", "0-10 %", "10-20 %", "10-20 %", "20-30 %", "90-100 %", "no cap"),
    ]
