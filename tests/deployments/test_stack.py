"""The real stack: started, started again, a run through its worker, a shell next to it, ended without a trace."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from deployments.stack.supervisor import Supervisor
from flows.engine.server import FILE
from tests.support.paths import DESK
from tests.support.runs.pipeline import SMALL, last_json, values, written
from tests.support.runs.served_flow import artifacts, call_api
from tests.support.servers.stack import RunningStack, stack
from tests.support.waits import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.slow
AUTH = "keeper:a long enough password"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory):
    location = tmp_path_factory.mktemp("stack")
    (location / "data").mkdir()
    with stack(location / "home", WASP_DATA=str(location / "data")) as result:
        yield result


def start_run(running: RunningStack, **changes: Any) -> str:
    """Start a small run through the server, as the UI does; return its id."""
    return running.start("wasp/demo", values(**changes))


def run_in_shell(running: RunningStack, folder: Path) -> dict[str, Any]:
    """Run a small configuration by the command, in a shell that read the env file; return its summary."""
    file = written(folder / "config.yaml", SMALL | {"execution": {"max_workers": 2, "seed": 7}})
    done = running.command("flows.cli.main", "run", "wasp", "--config", str(file), "--json")
    assert done.returncode == 0, done.stderr[-3000:]
    return last_json(done.stdout)


def wait_for_state(
    running: RunningStack, run: str, *states: str, seconds: float = WAIT_SECONDS
) -> dict[str, Any]:
    def state() -> dict[str, Any]:
        return dict(running.flow_run(run)["state"])

    log = (running.home / "stack/logs/worker.log").read_text
    wait_until(
        lambda: state()["name"] in states,
        log=lambda: (state(), log()[-3000:]),
        seconds=seconds,
        every=0.5,
    )
    return state()


def events(running: RunningStack, *names: str) -> list[dict[str, Any]]:
    asked = {"event": {"name": names}, "occurred": {"since": "2026-01-01T00:00:00Z"}}
    return list(call_api(running.api, "/events/filter", {"filter": asked, "limit": 50})["events"])


def pids(running: RunningStack) -> dict[str, int]:
    return {name: pid for name, (_, pid) in Supervisor(running.home / "stack").states().items()}


def test_a_second_up_changes_nothing(running) -> None:
    before = pids(running)
    assert set(before) >= {"prefect", "mlflow", "worker"}
    again = running.word("up")
    assert again.returncode == 0, again.stderr
    assert pids(running) == before
    assert again.stdout.count("already running") == len(before)
    assert "deployments: 0 registered" in again.stdout
    assert "to change them, run make down first" in again.stdout
    for what in (running.prefect, running.mlflow, str(running.home), "source "):
        assert what in again.stdout


def test_no_secret_is_seen_in_the_list_of_processes(running) -> None:
    stored = json.loads((running.home / "stack" / "kept.json").read_text())
    shown = " ".join(part for process in running.members() for part in process.cmdline())
    assert not [name for name, secret in stored.items() if secret in shown]
    logs = "".join(
        path.read_text(errors="replace") for path in (running.home / "stack" / "logs").iterdir()
    )
    assert not [name for name, secret in stored.items() if secret in logs]


def test_a_run_from_the_server_with_paths_of_the_data_folder(running) -> None:
    import pandas as pd

    data = Path(running.environment["WASP_DATA"])
    rows = pd.read_parquet(DESK / "private.parquet")
    rows["text"] += " (ours)"  # with the bundled texts, all runs of this file would share one cap
    rows.to_csv(data / "notes.csv", index=False)
    pd.read_parquet(DESK / "test.parquet")[:90].to_csv(data / "asked.csv", index=False)
    # A server starts no run on records whose classes their owner has not declared.
    classes = [part for name in sorted(set(rows["label"])) for part in ("--class", name)]
    words = ("dataset", "add", "notes", "--path", str(data / "notes.csv"), "--declared-rows", "120")
    added = running.command("flows.cli.main", *words, *classes)
    assert added.returncode == 0, added.stderr
    run = start_run(running, private={"dataset": "notes"}, test={"path": "asked.csv"})
    assert wait_for_state(running, run, "Completed", "Failed", "Crashed")["name"] == "Completed"
    info = running.mlflow_run(running.manifest(run)["summary"]["mlflow_run_id"])["info"]
    assert info["status"] == "FINISHED"
    assert info["artifact_uri"].startswith("mlflow-artifacts:/")
    assert list((running.home / "mlartifacts").rglob("*.html")), (
        "the report went through the server"
    )


def test_a_shell_that_read_the_env_file_works_with_the_stack(running, tmp_path) -> None:
    summary = run_in_shell(running, tmp_path)
    assert (
        call_api(running.api, f"/flow_runs/{summary['prefect_run_id']}")["state"]["name"]
        == "Completed"
    )
    shown = last_json(running.command("flows.cli.main", "budget", "show", "--json").stdout)
    plain = {
        name: value for name, value in running.environment.items() if name != "WASP_LEDGER_URL"
    }
    other = RunningStack(running.home, "", "", plain)
    assert last_json(other.command("flows.cli.main", "budget", "show", "--json").stdout) == shown


def test_a_program_that_dies_is_started_again(running) -> None:
    before = pids(running)
    os.kill(before["worker"], signal.SIGKILL)
    os.kill(before["mlflow"], signal.SIGKILL)  # its children still use the port

    def all_run() -> bool:
        return (
            running.word("status").stdout.count("running, process") == len(before)
            and pids(running) != before
        )

    wait_until(all_run, log=lambda: running.word("status").stdout, every=1)
    again = running.word("up")
    assert again.returncode == 0, again.stderr
    after = pids(running)
    assert {name for name in after if after[name] != before[name]} == {"worker", "mlflow"}
    assert status(f"{running.mlflow}/health") == 200


LONG: dict[str, Any] = {"method": {"iterations": 40, "samples": 20_000}}


def wait_for_task(running: RunningStack, run: str, state: str) -> list[dict[str, Any]]:
    """Wait until a task run of a flow run has a state; return all of this state."""
    asked = {
        "flow_runs": {"id": {"any_": [run]}},
        "task_runs": {"state": {"type": {"any_": [state]}}},
    }
    return list(wait_until(lambda: call_api(running.api, "/task_runs/filter", asked), every=0.5))


def test_the_crash_of_a_run_is_seen_within_a_minute(running) -> None:
    run = start_run(running, **LONG, execution={"max_workers": 2, "seed": 5})
    wait_for_task(running, run, "RUNNING")
    os.kill(running.manifest(run)["process"], signal.SIGKILL)  # its worker lives
    assert wait_for_state(running, run, "Crashed", seconds=60)


def test_a_cancelled_run_shows_what_it_reserves_and_how_to_give_it_back(running) -> None:
    run = start_run(running, **LONG, execution={"max_workers": 2, "seed": 6})
    wait_for_task(running, run, "RUNNING")
    call_api(
        running.api,
        f"/flow_runs/{run}/set_state",
        {"state": {"type": "CANCELLING", "name": "Cancelling"}, "force": True},
    )
    wait_for_state(running, run, "Cancelled")
    shown, book = artifacts(running.api, run)["stopped"]["data"], running.manifest(run)
    name = book["run_id"]
    assert book["state"] == "interrupted"
    assert f"wasp abandon {name}" in shown
    assert "reserve" in shown
    abandoned = running.command("flows.cli.main", "abandon", name)
    assert abandoned.returncode == 0, abandoned.stderr


def test_the_automation_of_silent_runs_leaves_finished_ones_alone(running) -> None:
    """A run that is refused at once ends before its first heartbeat arrives."""
    refused = start_run(running, task="nonesuch")
    assert wait_for_state(running, refused, "Failed")
    time.sleep(100)  # longer than the silence that the automation waits for
    acted = events(running, "prefect.automation.action.failed", "prefect.automation.triggered")
    assert [
        entry
        for entry in acted
        if refused in json.dumps(entry) and "silent run" in json.dumps(entry)
    ] == []
    assert call_api(running.api, f"/flow_runs/{refused}")["state"]["name"] == "Failed"


def test_a_run_whose_worker_is_killed_with_it_is_crashed_within_two_minutes(running) -> None:
    run = start_run(running, **LONG, execution={"max_workers": 2, "seed": 3})
    wait_for_state(running, run, "Running")
    time.sleep(5)  # the first heartbeat is on its way
    servers = {pid for name, pid in pids(running).items() if name != "worker"}
    stored = {
        entry.pid
        for entry in running.members()
        if entry.pid in servers or {p.pid for p in entry.parents()} & servers
    }
    for process in running.members():
        if process.pid not in stored:
            process.kill()
    killed = time.monotonic()
    state = wait_for_state(running, run, "Crashed", seconds=130)
    assert time.monotonic() - killed < 120
    assert "No heartbeat" in state["message"]
    assert running.word("up").returncode == 0


def test_a_run_outlives_its_worker(running) -> None:
    run = start_run(
        running, method={"iterations": 3, "samples": 1500}, execution={"max_workers": 2, "seed": 8}
    )
    wait_for_task(running, run, "COMPLETED")
    worker = pids(running)["worker"]
    os.kill(worker, signal.SIGKILL)
    ended = wait_for_state(running, run, "Completed", "Failed", "Crashed", seconds=180)
    assert ended["name"] == "Completed", ended["message"]
    assert pids(running)["worker"] != worker, "the supervisor has started another"


def test_down_ends_a_run_in_order_and_retry_completes_it(running) -> None:
    run = start_run(
        running, method={"iterations": 4, "samples": 4000}, execution={"max_workers": 2, "seed": 4}
    )
    wait_for_task(running, run, "COMPLETED")
    done = running.word("down")
    assert done.returncode == 0, done.stderr
    assert running.members() == []
    assert not (running.home / "stack" / "env").exists()
    assert running.word("up").returncode == 0
    crashed = wait_for_state(running, run, "Crashed", seconds=5)
    assert crashed["message"]
    again = {"type": "SCHEDULED", "name": "AwaitingRetry", "message": "Retry"}
    call_api(running.api, f"/flow_runs/{run}/set_state", {"state": again, "force": True})
    assert wait_for_state(running, run, "Completed", "Failed")["name"] == "Completed"


def test_a_stack_without_its_supervisor_is_taken_down_and_up(running) -> None:
    os.kill(int((running.home / "stack" / "supervisord.pid").read_text()), signal.SIGKILL)
    assert "run make up" in running.word("status").stdout
    done = running.word("up")
    assert done.returncode == 0, done.stderr
    assert (
        len(
            {
                process.pid
                for process in running.members()
                if "supervisord" in " ".join(process.cmdline())
            }
        )
        == 1
    )


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory):
    with stack(tmp_path_factory.mktemp("locked") / "home", WASP_AUTH=AUTH) as result:
        yield result


def status(address: str, auth: str = "") -> int:
    name, _, password = auth.partition(":")
    return httpx.get(address, auth=(name, password) if auth else None, timeout=30).status_code


def test_a_stack_with_a_password_accepts_registered_datasets_only(locked, running) -> None:
    assert (locked.home / FILE).exists()
    assert not (running.home / FILE).exists()


def addresses(locked: RunningStack) -> tuple[str, str]:
    return (
        f"{locked.api}/version",
        f"{locked.mlflow}/api/2.0/mlflow/experiments/get?experiment_id=0",
    )


def test_both_servers_request_the_password(locked) -> None:
    for address in addresses(locked):
        assert status(address) == 401
        assert status(address, "keeper:another password") == 401
        assert status(address, AUTH) == 200


def test_the_commands_of_a_shell_know_the_password(locked, tmp_path) -> None:
    summary = run_in_shell(locked, tmp_path)
    address = f"{locked.mlflow}/api/2.0/mlflow/runs/get?run_id={summary['mlflow_run_id']}"
    assert status(address, AUTH) == 200
    assert (locked.home / "stack" / "env").stat().st_mode & 0o077 == 0


def test_the_password_can_be_changed_between_down_and_up(locked) -> None:
    other = "keeper:quite another password"
    assert locked.word("down").returncode == 0
    done = locked.word("up", WASP_AUTH=other)
    assert done.returncode == 0, done.stderr
    for address in addresses(locked):
        assert status(address, AUTH) == 401
        assert status(address, other) == 200
    logs = "".join(
        path.read_text(errors="replace") for path in (locked.home / "stack" / "logs").iterdir()
    )
    assert "another password" not in logs
