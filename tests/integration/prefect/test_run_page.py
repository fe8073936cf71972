"""The page of a run in Prefect: in order, in the background, and never at the run's expense."""

import logging
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from prefect import flow, runtime, task
from prefect.artifacts import create_markdown_artifact
from prefect.client.orchestration import SyncPrefectClient
from prefect.settings import (
    PREFECT_API_URL,
    PREFECT_CLIENT_MAX_RETRIES,
    PREFECT_LOGGING_TO_API_ENABLED,
    temporary_settings,
)

from connectors.interfaces.artifacts import ArtifactRef
from flows.runtime import prefect_progress
from flows.runtime.prefect_progress import shown
from tasks.evaluation.steps import MeasureJob
from tasks.prefect import page as page_steps
from tasks.prefect.page import Page
from tasks.prefect.runtime import run_step, submit_step, task_step
from tasks.steps.values import TextTable
from tests.support.runs.served_flow import artifacts, call_api
from tests.support.servers.ports import free_port
from tests.support.waits import wait_until


@pytest.fixture
def server(api: str) -> Iterator[str]:
    """A server without logs: sent late, they would still be on their way when it ends."""
    with temporary_settings({PREFECT_API_URL: api, PREFECT_LOGGING_TO_API_ENABLED: False}):
        yield api


def test_what_a_step_shows_is_the_step_s_own_and_there_when_the_run_is_over(server: str) -> None:
    @task
    def show() -> str:
        page_steps.defer(lambda: create_markdown_artifact("done", key="done"))
        return str(runtime.task_run.id)

    @flow
    def work() -> tuple[str, str]:
        step = show()
        page_steps.flush()
        return str(runtime.flow_run.id), step

    run, of = work()
    shown = artifacts(server, run)["done"]
    assert (shown["data"], shown["task_run_id"], shown["flow_run_id"]) == ("done", of, run)


def test_nobody_waits_for_the_page_and_its_order_is_kept() -> None:
    page, free, shown = Page(), threading.Event(), list[int]()
    page.defer(free.wait)
    for number in range(5):
        page.defer(partial(shown.append, number))
    assert shown == []
    free.set()
    page.flush()
    assert shown == [0, 1, 2, 3, 4]
    page.defer(partial(sys.exit, 3))
    page.defer(lambda: shown.append(5))
    page.flush(5)
    assert shown[-1] == 5, "it begins anew, and goes on whatever ends one of its jobs"


def test_a_run_waits_for_its_own_artifacts_alone_and_leaves_out_none_of_others(server: str) -> None:
    page, free, shown = Page(), threading.Event(), list[str]()

    @flow
    def slow() -> None:
        page.defer(free.wait)
        page.defer(lambda: shown.append("slow"))
        quick()
        free.set()
        page.flush()

    @flow
    def quick() -> None:
        page.defer(lambda: shown.append("quick"))
        page.flush(
            0.2
        )  # the page is still at the other run's: given up, and that of the other is not

    slow()
    assert shown == ["slow"]


def test_a_page_that_is_away_or_slow_is_reported_in_the_log_and_harms_no_run(
    server: str, caplog: pytest.LogCaptureFixture
) -> None:
    page, free = Page(), threading.Event()

    @flow
    def work() -> str:
        away = f"http://127.0.0.1:{free_port()}/api"
        with temporary_settings({PREFECT_API_URL: away, PREFECT_CLIENT_MAX_RETRIES: 0}):
            page.defer(_ask_the_server)
            page.flush()
        page.defer(free.wait)
        page.defer(lambda: left.append("shown"))
        page.flush(0.2)
        return "done"

    left: list[str] = []
    with caplog.at_level(logging.WARNING):
        assert work() == "done"
    free.set()
    page.flush()
    assert left == []
    message = [record.getMessage() for record in caplog.records if "page" in record.getMessage()]
    assert message == [
        "Prefect's page is missing artifacts (ConnectError); the run continues",
        "Prefect's page is slow; the last artifacts of this run are missing from it",
    ]


def _ask_the_server() -> None:
    with SyncPrefectClient(str(PREFECT_API_URL.value())) as client:
        client.hello()


def ref(path: str) -> ArtifactRef:
    return ArtifactRef(path, f"{path:0>64}", "", f"generate {path}", 1)


@task_step("write {name}")
def write(name: str) -> TextTable:
    return TextTable(name, 0, ref(name))


@task_step("weigh")
def weigh() -> dict[str, float]:
    return {"a model of two words": 0.5}


@task_step("measure")
def measure(job: MeasureJob, weights: dict[str, float]) -> int:
    return len(job.written)


def test_a_step_follows_those_that_made_what_it_is_given(server: str) -> None:
    @flow
    def work() -> str:
        written = [submit_step(write, name) for name in ("one", "two", "three")]
        job = MeasureJob(0, (written[0].result(), written[2].result()), "none", None, None, 0)
        assert run_step(measure, job, run_step(weigh)) == 2
        written[1].result()
        return str(runtime.flow_run.id)

    run = work()
    where = {"flow_runs": {"id": {"any_": [run]}}}

    def completed() -> list[dict[str, Any]]:
        tasks = call_api(server, "/task_runs/filter", where)
        return tasks if [entry["state_name"] for entry in tasks].count("Completed") == 5 else []

    tasks = {entry["id"]: entry for entry in wait_until(completed)}
    (inputs,) = (entry["task_inputs"] for entry in tasks.values() if entry["name"] == "measure")
    behind = {tasks[entry["id"]]["name"] for made in inputs.values() for entry in made}
    assert behind == {"write one", "write three", "weigh"}


# --- long steps state on the page how far they are
@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefect_progress, "EVERY_SECONDS", 0.3)


@pytest.mark.usefixtures("quick")
def test_a_long_step_shows_done_and_wanted_rate_and_time_left(server: str) -> None:
    seen: list[dict[str, Any]] = []

    @task
    def write() -> None:
        with shown("write clerk t=2", 8, lambda: "$0.02 of $1") as advance:
            for number in range(8):
                time.sleep(0.4)
                advance(1)
                if number == 5:
                    seen.append(
                        artifacts(server, str(runtime.flow_run.id))["progress-write-clerk-t-2"]
                    )

    @flow
    def work() -> str:
        write()
        page_steps.flush()
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


@pytest.mark.usefixtures("quick")
def test_a_short_step_and_work_outside_of_a_run_are_not_shown(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @flow
    def work() -> str:
        with shown("embed", 3) as advance:
            advance(3)
        page_steps.flush()
        return str(runtime.flow_run.id)

    assert artifacts(server, work()) == {}
    queued: list[object] = []
    monkeypatch.setattr(page_steps, "defer", queued.append)
    monkeypatch.setattr(prefect_progress, "EVERY_SECONDS", 0.0)
    with shown("preview", 3) as advance:
        advance(3)
    assert not queued
