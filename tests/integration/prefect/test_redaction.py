"""A key that slips into an error nobody foresaw is in no state and no log line that Prefect stores."""

import json
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prefect import flow, runtime
from prefect.settings import PREFECT_API_URL, PREFECT_LOGGING_TO_API_ENABLED, temporary_settings

from connectors.interfaces.errors import WaspError
from flows.runtime.failure import Story, told
from tasks.prefect.runtime import step

KEY = "planted-0123456789abcdef"


def asked(api: str, path: str, body: dict[str, Any]) -> str:
    """Return what the server answers, as it stores it."""
    request = urllib.request.Request(
        f"{api}/{path}", data=json.dumps(body).encode(), headers={"content-type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        return str(answer.read().decode())


def test_a_key_in_an_error_that_nobody_foresaw(api: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESK_API_KEY", KEY)
    ids: list[str] = []

    @step("ask the desk")
    def ask() -> None:
        raise RuntimeError(f"the desk does not know {KEY}")

    @flow
    def work() -> None:
        ids.append(str(runtime.flow_run.id))
        with told(Story(tmp_path, begun=True)):
            ask.submit().result()

    with temporary_settings({PREFECT_API_URL: api, PREFECT_LOGGING_TO_API_ENABLED: True}):
        with pytest.raises(WaspError, match=r"Step 'ask the desk' failed: RuntimeError: the desk does not know \*\*\*"):
            work()
        mine = {"flow_runs": {"id": {"any_": ids}}}
        logs = {"logs": {"flow_run_id": {"any_": ids}}}
        deadline = time.monotonic() + 20
        while "Traceback" not in (said := asked(api, "logs/filter", logs)) and time.monotonic() < deadline:
            time.sleep(0.2)
        stored = [said, asked(api, "task_runs/filter", mine), asked(api, "flow_runs/filter", mine)]
    assert [part for part in stored if KEY in part] == []
    assert all("the desk does not know ***" in part for part in stored)
    assert "Traceback" in stored[0]
    assert KEY not in (tmp_path / "failure.txt").read_text()
