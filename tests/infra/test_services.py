"""The commands of compose.yaml as processes of this machine: they start, answer, and ask for the password.

No engine runs here: names of services, ports and folders of containers become addresses and folders of this machine;
commands, variables, entrypoint, the script of the databases and the health checks are those of the compose file.
"""

import base64
import json
import os
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import make_url

from tests.support.infra_files import INFRA, SECRETS, compose, plain_environment
from tests.support.paths import ROOT
from tests.support.runs.pipeline import SMALL
from tests.support.servers.databases import make_databases
from tests.support.servers.postgres import PROGRAMS, free_port, postgres_server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (PROGRAMS and shutil.which("psql")), reason="needs PostgreSQL"),
]
AUTH = SECRETS["WASP_AUTH"]
PASSWORDS = {name: SECRETS[f"{name.upper()}_DB_PASSWORD"] for name in ("prefect", "mlflow", "ledger")}


class Machine:
    """Plays the engine: starts services of the compose file, one process each."""

    def __init__(self, folder: Path, postgres_port: int) -> None:
        self.folder, self.postgres = folder, postgres_port
        self.prefect, self.mlflow, self.worker = free_port(), free_port(), free_port()
        self.replaced = {
            "postgres:5432": f"127.0.0.1:{postgres_port}",
            "prefect-server:4200": f"127.0.0.1:{self.prefect}",
            "mlflow:5000": f"127.0.0.1:{self.mlflow}",
            "127.0.0.1:4200": f"127.0.0.1:{self.prefect}",
            "127.0.0.1:5000": f"127.0.0.1:{self.mlflow}",
            "127.0.0.1:8080": f"127.0.0.1:{self.worker}",
            "0.0.0.0": "127.0.0.1",
            "/var/lib/": f"{folder}/",
        }
        (folder / "data").mkdir(mode=0o500)
        self.words = {"4200": str(self.prefect), "5000": str(self.mlflow), "/data": str(folder / "data")}

    def here(self, text: str) -> str:
        for name, place in self.replaced.items():
            text = text.replace(name, place)
        return self.words.get(text, text)

    def service(self, name: str, **variables: str) -> dict[str, Any]:
        found: dict[str, Any] = compose(SECRETS | variables)["services"][name]
        return found

    def environment(self, name: str, **variables: str) -> dict[str, str]:
        own = {key: self.here(value) for key, value in self.service(name, **variables)["environment"].items()}
        home = {"HOME": str(self.folder), "WASP_HOME": f"{self.folder}/wasp", "PREFECT_HOME": f"{self.folder}/{name}"}
        more = {"PREFECT_WORKER_WEBSERVER_PORT": str(self.worker), "PREFECT_WORKER_WEBSERVER_HOST": "127.0.0.1"}
        return plain_environment(**home, **more, **own)

    def start(self, name: str, **variables: str) -> "subprocess.Popen[bytes]":
        command = [self.here(word) for word in self.service(name)["command"]]
        log = (self.folder / f"{name}.log").open("ab")
        return subprocess.Popen(
            ["sh", str(INFRA / "entrypoint.sh"), *command],
            env=self.environment(name, **variables),
            cwd=ROOT,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def healthy(self, name: str) -> bool:
        """Run the health check of the compose file as it is."""
        kind, *command = self.service(name)["healthcheck"]["test"]
        assert kind == "CMD"
        done = subprocess.run([self.here(word) for word in command], env=plain_environment(), capture_output=True)
        return done.returncode == 0

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    @contextmanager
    def running(self, name: str, **variables: str) -> Iterator[None]:
        """Start a service, wait for its health check, end it with all its children."""
        assert not self.healthy(name)
        process = self.start(name, **variables)
        try:
            deadline = time.monotonic() + 240
            while not self.healthy(name):
                assert process.poll() is None, self.log(name)[-3000:]
                assert time.monotonic() < deadline, self.log(name)[-3000:]
                time.sleep(1)
            yield
        finally:
            end(process)


def end(process: "subprocess.Popen[bytes]") -> None:
    """End a process and its children: asked first, then without asking."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(30)


def ask(address: str, auth: str = "", host: str = "", body: Any = None) -> tuple[int, bytes]:
    """Return status and body of a request."""
    headers = {"Content-Type": "application/json"} | ({"Host": host} if host else {})
    if auth:
        headers["Authorization"] = f"Basic {base64.b64encode(auth.encode()).decode()}"
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(address, data, headers), timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with postgres_server(owner="postgres") as superuser:
        made = make_databases(superuser, PASSWORDS)
        assert made.returncode == 0, made.stderr
        yield Machine(tmp_path_factory.mktemp("stack"), int(make_url(superuser).port or 0))


@pytest.fixture(scope="module")
def prefect(machine: Machine) -> Iterator[str]:
    with machine.running("prefect-server"):
        yield f"http://127.0.0.1:{machine.prefect}"


@pytest.fixture(scope="module")
def mlflow(machine: Machine) -> Iterator[str]:
    with machine.running("mlflow"):
        yield f"http://127.0.0.1:{machine.mlflow}"


def test_prefect_answers_only_to_the_password(prefect):
    assert [ask(f"{prefect}/api/{name}")[0] for name in ("health", "ready")] == [200, 200]
    runs = f"{prefect}/api/flow_runs/count"
    assert ask(runs, body={})[0] == 401
    assert ask(runs, "admin:wrong-word-here", body={})[0] == 401
    assert ask(runs, AUTH, body={}) == (200, b"0")


def test_the_form_of_prefect_is_served_and_asks_for_the_password(prefect):
    status, page = ask(prefect)
    assert status == 200
    assert b"<html" in page
    settings = json.loads(ask(f"{prefect}/ui-settings")[1])
    assert settings["auth"] == "BASIC"
    assert settings["api_url"] == "http://localhost:4200/api"


def test_mlflow_answers_only_to_the_password_and_to_its_names(mlflow):
    assert ask(f"{mlflow}/health")[0] == 200
    search = f"{mlflow}/api/2.0/mlflow/experiments/search?max_results=5"
    assert ask(search)[0] == 401
    assert ask(search, "admin:wrong-word-here")[0] == 401
    assert ask(search, AUTH)[0] == 200
    assert ask(search, AUTH, host="localhost:5000")[0] == 200
    assert ask(search, AUTH, host="evil.example.org")[0] == 403


def test_a_client_in_the_stack_sends_files_through_mlflow(mlflow, machine, tmp_path):
    code = "import mlflow; mlflow.set_experiment('e'); r = mlflow.start_run(); mlflow.log_text('hello', 'note.txt')"
    command = ["sh", str(INFRA / "entrypoint.sh"), "python", "-c", code]
    done = subprocess.run(command, env=machine.environment("worker"), cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    [note] = (machine.folder / "mlflow").rglob("note.txt")
    assert note.read_text() == "hello"


@pytest.fixture(scope="module")
def registered(prefect: str, machine: Machine) -> dict[str, Any]:
    """Return the deployments by flow and name, after the one-shot service has ended well."""
    once = machine.start("deployments")
    assert once.wait(240) == 0, machine.log("deployments")[-3000:]
    deployments = json.loads(ask(f"{prefect}/api/deployments/filter", AUTH, body={})[1])
    flows = {flow["id"]: flow["name"] for flow in json.loads(ask(f"{prefect}/api/flows/filter", AUTH, body={})[1])}
    return {f"{flows[deployment['flow_id']]}/{deployment['name']}": deployment for deployment in deployments}


def test_deployments_are_registered_without_a_secret(registered):
    assert "wasp/demo" in registered
    assert {one["work_pool_name"] for one in registered.values()} == {"wasp"}
    everything = json.dumps(registered)
    assert [secret for secret in SECRETS.values() if len(secret) > 3 and secret in everything] == []


def test_a_run_from_the_form_ends_in_the_worker_with_everything_in_its_place(prefect, mlflow, machine, registered):
    start = f"{prefect}/api/deployments/{registered['wasp/demo']['id']}/create_flow_run"
    with machine.running("worker"):
        status, answer = ask(start, AUTH, body={"parameters": {"config": SMALL}})
        assert status == 201, answer.decode()
        assert ended(f"{prefect}/api/flow_runs/{json.loads(answer)['id']}", machine) == "COMPLETED"
    [summary] = (machine.folder / "wasp" / "runs").glob("*/summary.json")
    assert json.loads(summary.read_text())["n_synthetic"] == 72
    assert list((machine.folder / "wasp").glob("*.db")) == []  # the ledger and MLflow are PostgreSQL's
    search = f"{mlflow}/api/2.0/mlflow/experiments/search?max_results=50"
    assert len(json.loads(ask(search, AUTH)[1])["experiments"]) >= 2
    artifacts = json.loads(ask(f"{prefect}/api/artifacts/filter", AUTH, body={})[1])
    assert "http://localhost:5000/#/experiments/" in json.dumps(artifacts)


def ended(address: str, machine: Machine) -> str:
    """Wait for the end of a run; return the kind of its state."""
    deadline = time.monotonic() + 400
    while True:
        state = json.loads(ask(address, AUTH)[1])["state"]
        if state["type"] in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED"):
            assert state["type"] == "COMPLETED", f"{state['message']}\n{machine.log('worker')[-3000:]}"
            return str(state["type"])
        assert time.monotonic() < deadline, machine.log("worker")[-3000:]
        time.sleep(2)


def test_a_changed_password_counts_from_the_next_start(mlflow, machine, tmp_path):
    other = Machine(tmp_path, machine.postgres)
    search = f"http://127.0.0.1:{other.mlflow}/api/2.0/mlflow/experiments/search?max_results=5"
    with other.running("mlflow", WASP_AUTH="admin:another-long-word"):
        assert ask(search, AUTH)[0] == 401
        assert ask(search, "admin:another-long-word")[0] == 200
