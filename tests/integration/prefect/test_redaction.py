"""A key that slips into an error nobody foresaw is in no state and no log line that Prefect stores."""

import json
from pathlib import Path

import pytest
from prefect import flow, runtime
from prefect.settings import PREFECT_API_URL, PREFECT_LOGGING_TO_API_ENABLED, temporary_settings

from connectors.interfaces.errors import WaspError
from flows.runtime.failure import Story, told
from tasks.prefect.runtime import task_step
from tests.support.runs.served_flow import ask
from tests.support.waits import wait_until

KEY = "planted-0123456789abcdef"


def test_a_key_in_an_error_that_nobody_foresaw(api: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESK_API_KEY", KEY)
    ids: list[str] = []

    @task_step("ask the desk")
    def fail() -> None:
        raise RuntimeError(f"the desk does not know {KEY}")

    @flow
    def work() -> None:
        ids.append(str(runtime.flow_run.id))
        with told(Story(tmp_path, begun=True)):
            fail.submit().result()

    with temporary_settings({PREFECT_API_URL: api, PREFECT_LOGGING_TO_API_ENABLED: True}):
        with pytest.raises(WaspError, match=r"Step 'ask the desk' failed: RuntimeError: the desk does not know \*\*\*"):
            work()
        mine = {"flow_runs": {"id": {"any_": ids}}}
        logs = {"logs": {"flow_run_id": {"any_": ids}}}
        wait_until(lambda: "Traceback" in json.dumps(ask(api, "/logs/filter", logs)))
        parts = (("logs", logs), ("task_runs", mine), ("flow_runs", mine))
        stored = [json.dumps(ask(api, f"/{part}/filter", body)) for part, body in parts]
    assert [part for part in stored if KEY in part] == []
    assert all("the desk does not know ***" in part for part in stored)
    assert KEY not in (tmp_path / "failure.txt").read_text()
