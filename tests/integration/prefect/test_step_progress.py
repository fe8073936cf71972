"""Long steps tell the run's page in Prefect how far they are."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from prefect import flow, runtime, task
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.runtime import prefect_progress
from flows.runtime.prefect_progress import shown
from tasks.prefect import page
from tests.support.runs.served_flow import artifacts


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefect_progress, "EVERY_SECONDS", 0.3)


@pytest.fixture
def server(api: str) -> Iterator[str]:
    with temporary_settings({PREFECT_API_URL: api}):
        yield api


def test_a_long_step_shows_done_and_wanted_rate_and_time_left(server: str) -> None:
    seen: list[dict[str, Any]] = []

    @task
    def write() -> None:
        with shown("write clerk t=2", 8, lambda: "$0.02 of $1") as advance:
            for number in range(8):
                time.sleep(0.4)
                advance(1)
                if number == 5:
                    seen.append(artifacts(server, str(runtime.flow_run.id))["progress-write-clerk-t-2"])

    @flow
    def work() -> str:
        write()
        page.flush()
        return str(runtime.flow_run.id)

    last = artifacts(server, work())["progress-write-clerk-t-2"]
    assert seen[0]["type"] == "progress"
    assert 0 < seen[0]["data"] < 100
    for word in ("write clerk t=2: ", " of 8, ", "/s, ", "s left", "$0.02 of $1"):
        assert word in seen[0]["description"]
    assert seen[0]["task_run_id"] is not None
    assert last["id"] == seen[0]["id"], "it is one artifact that changes"
    assert last["data"] == 100
    assert last["description"].startswith("write clerk t=2: 8 of 8")


def test_a_short_step_and_work_outside_of_a_run_are_not_shown(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    @flow
    def work() -> str:
        with shown("embed", 3) as advance:
            advance(3)
        page.flush()
        return str(runtime.flow_run.id)

    assert artifacts(server, work()) == {}
    queued: list[object] = []
    monkeypatch.setattr(page, "later", queued.append)
    monkeypatch.setattr(prefect_progress, "EVERY_SECONDS", 0.0)
    with shown("preview", 3) as advance:
        advance(3)
    assert not queued
