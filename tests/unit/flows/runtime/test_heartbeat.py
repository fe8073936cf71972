"""Runs that a command starts beat for as long as they run, and end when they are done."""

import time
from typing import Any

import pytest
from prefect import flow, runtime
from prefect.settings import (
    PREFECT_API_URL,
    PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
    PREFECT_LOGGING_TO_API_ENABLED,
    temporary_settings,
)

from flows.runtime import heartbeat
from flows.runtime.heartbeat import beating, own_heartbeat
from tests.support.runs.served_flow import ask

BEAT = "prefect.flow-run.heartbeat"


@pytest.mark.parametrize(("address", "beats"), [("", None), ("http://127.0.0.1:4200/api", 30)])
def test_only_a_server_that_outlives_the_run_is_sent_heartbeats(address: str, beats: int | None) -> None:
    with temporary_settings({PREFECT_API_URL: address or None, PREFECT_FLOWS_HEARTBEAT_FREQUENCY: 30}):
        with own_heartbeat():
            assert PREFECT_FLOWS_HEARTBEAT_FREQUENCY.value() is None, "Prefect's thread would hold up the end"
            assert heartbeat._seconds.get() == beats
        assert (PREFECT_FLOWS_HEARTBEAT_FREQUENCY.value(), heartbeat._seconds.get()) == (30, None)


def test_a_run_beats_until_it_ends_and_does_not_end_late(api: str) -> None:
    @flow
    def work() -> str:
        with beating():
            time.sleep(1.3)
        return str(runtime.flow_run.id)

    here = {PREFECT_API_URL: api, PREFECT_FLOWS_HEARTBEAT_FREQUENCY: 30, PREFECT_LOGGING_TO_API_ENABLED: False}
    with temporary_settings(here), own_heartbeat():
        heartbeat._seconds.set(1)
        started = time.monotonic()
        run = work()
        took = time.monotonic() - started
    found = wait_for(api, run, 2)
    assert len(found) == 2, "at once, and a second later"
    assert {"flow"} <= {one["prefect.resource.role"] for one in found[0]["related"]}, "automations ask for the flow"
    assert took < 10
    time.sleep(1.2)
    assert len(wait_for(api, run, 2)) == 2, "none after the end"


def wait_for(api: str, run: str, beats: int) -> list[dict[str, Any]]:
    """Return the heartbeats of a flow run, once there are so many."""
    about = {"event": {"name": [BEAT]}, "resource": {"id": [f"prefect.flow-run.{run}"]}}
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        found: list[dict[str, Any]] = ask(api, "/events/filter", {"filter": about})["events"]
        if len(found) >= beats:
            break
        time.sleep(0.3)
    return found
