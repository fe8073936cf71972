"""Messages of runs and first commands, in Prefect and on the terminal: errors, events, no key, no warning."""

import json
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from prefect import flow, runtime, task_engine
from prefect.settings import PREFECT_API_URL, PREFECT_LOGGING_TO_API_ENABLED, temporary_settings

from connectors.interfaces.errors import ConfigError, WaspError
from flows.cli.clean_flow import clean
from flows.config.files import load_config
from flows.methods.wasp.config import WaspConfig
from flows.methods.wasp.flow import wasp
from flows.runtime.failure import ErrorContext, explained_errors, kept_interruption
from flows.storage.retention import Retention
from tasks.prefect.runtime import task_step
from tests.support.registered import DEMO
from tests.support.runs.pipeline import Pipeline
from tests.support.runs.served_flow import call_api
from tests.support.waits import wait_until


def test_a_wrong_change_is_a_failed_run_with_its_sentence(api: str, home: Path) -> None:
    def latest(name: str) -> dict[str, Any]:
        # By name: the server is that of all tests, and others may run now.
        named = {"flow_runs": {"name": {"like_": name}}, "sort": "START_TIME_DESC", "limit": 1}
        (run,) = call_api(api, "/flow_runs/filter", named)
        return dict(run)

    config = load_config(WaspConfig, DEMO)
    with temporary_settings({PREFECT_API_URL: api, PREFECT_LOGGING_TO_API_ENABLED: False}):
        with pytest.raises(ConfigError, match="privacy.epsilon"):
            wasp(config, changes=["privacy.epsilon=-1"])
        run = latest("wasp-20")
        assert run["state_type"] == "FAILED"
        assert "privacy.epsilon" in run["state"]["message"]
        with pytest.raises(ConfigError, match="dataset"):
            wasp(config, changes=["private=nosuch"])
        run = latest("wasp-nosuch-e4-s0-20")
        assert run["state_type"] == "FAILED"


# --- a key that slips into an error nobody foresaw is in no state and no log line that Prefect stores
KEY = "planted-0123456789abcdef"


def test_a_key_in_an_error_that_nobody_foresaw(
    api: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESK_API_KEY", KEY)
    ids: list[str] = []

    @task_step("ask the desk")
    def fail() -> None:
        raise RuntimeError(f"the desk does not know {KEY}")

    @flow
    def work() -> None:
        ids.append(str(runtime.flow_run.id))
        with explained_errors(ErrorContext(tmp_path, has_started=True)):
            fail.submit().result()

    with temporary_settings({PREFECT_API_URL: api, PREFECT_LOGGING_TO_API_ENABLED: True}):
        with pytest.raises(
            WaspError,
            match=r"Step 'ask the desk' failed: RuntimeError: the desk does not know \*\*\*",
        ):
            work()
        mine = {"flow_runs": {"id": {"any_": ids}}}
        logs = {"logs": {"flow_run_id": {"any_": ids}}}
        wait_until(lambda: "Traceback" in json.dumps(call_api(api, "/logs/filter", logs)))
        parts = (("logs", logs), ("task_runs", mine), ("flow_runs", mine))
        stored = [json.dumps(call_api(api, f"/{part}/filter", body)) for part, body in parts]
    assert [part for part in stored if KEY in part] == []
    assert all("the desk does not know ***" in part for part in stored)
    assert KEY not in (tmp_path / "failure.txt").read_text()


def test_ctrl_c_while_prefect_creates_a_task_run_stays_ctrl_c(
    api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    @task_step("ask the desk")
    def ask() -> None: ...

    @flow
    def work(guarded: bool) -> None:
        with kept_interruption() if guarded else nullcontext():
            ask()

    monkeypatch.setattr(task_engine, "_create_task_run_locally", interrupt)
    with temporary_settings({PREFECT_API_URL: api, PREFECT_LOGGING_TO_API_ENABLED: False}):
        with pytest.raises(ValueError, match="Task run is not set"):
            work(False)
        with pytest.raises(KeyboardInterrupt):
            work(True)


# --- the first command in an empty state folder
@pytest.mark.runs
@pytest.mark.parametrize(
    "words",
    [
        ("plan", "wasp", "-c", str(DEMO)),
        ("advise", "--rows", "100", "--classes", "10", "--epsilon", "1"),
    ],
)
def test_a_first_command_prints_no_warning(tmp_path: Path, words: tuple[str, ...]) -> None:
    process = Pipeline(tmp_path / "home", extra={"HOME": str(tmp_path)}).start(*words)
    printed, errors = process.communicate(timeout=120)
    assert process.returncode == 0
    assert printed
    assert "Warning" not in errors


# --- retention as a flow: reported first, removed on request, on a real server
def test_a_scheduled_cleaning_reports_first_and_removes_on_request(api: str, home: Path) -> None:
    left, rules = (
        home / "embeddings" / ".x.parquet.00.tmp",
        Retention(intermediate_older_than="30d"),
    )
    left.parent.mkdir(mode=0o700)
    left.write_bytes(b"half")
    os.utime(left, (1, 1))
    with temporary_settings({PREFECT_API_URL: api, PREFECT_LOGGING_TO_API_ENABLED: False}):
        reported = clean(rules, remove=False)
        assert (reported["applied"], [entry["path"] for entry in reported["going"]]) == (
            False,
            ["embeddings/.x.parquet.00.tmp"],
        )
        assert left.exists()
        assert clean(rules, remove=True)["applied"] is True
    assert not left.exists()
