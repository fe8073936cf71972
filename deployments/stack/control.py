"""The commands up, down and status; each yields the lines to print."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from connectors.artifacts.atomic_files import locked, write_text_whole
from connectors.interfaces.errors import ConfigError, WaspError
from connectors.tracking.address import redact
from deployments.registry import POOL
from deployments.stack import postgres, services
from deployments.stack.settings import Settings, settings_of, stack_secrets
from deployments.stack.supervisor import STARTED, Service, Supervisor, end, stack_processes
from flows.runtime.state_folder import ledger_address_file, state_folder

REGISTER_SECONDS = 300
ENDED = "The stack was stopped (make down) during this run. Retry reuses finished steps."


def up() -> Iterator[str]:
    """Start missing services, and update the registered deployments."""
    home = state_folder()
    folder = home / "stack"
    with _lock(folder):
        supervisor = Supervisor(folder)
        settings = _settings(home, supervisor)
        secrets = stack_secrets(folder)
        ledger = choose_ledger_address(settings, secrets)
        database = [postgres.postgres_service(settings)] if settings.database == "postgresql" else []
        servers = [services.prefect_service(settings, secrets), services.mlflow_service(settings, secrets)]
        programs = [*database, *servers, services.worker_service(settings, ledger)]
        if not supervisor.states():
            end(stack_processes(folder), seconds=10)  # of a supervisord that was killed
            for service in programs:
                check_port(service)
            supervisor.launch(programs, services.base_environment(settings))
            write_text_whole(folder / "settings.json", json.dumps(asdict(settings), indent=2), private=True)
        for service in database:
            postgres.make_cluster(folder, secrets["owner"])
            yield supervisor.start(service.name)
            ready = partial(postgres.is_ready, settings.postgres_port, secrets["owner"], folder)
            supervisor.wait(service.name, ready)
            postgres.make_databases(settings.postgres_port, secrets)
        for service in servers:
            yield supervisor.start(service.name)
        supervisor.wait("prefect", partial(_is_healthy, f"{settings.url('prefect')}/api/health"))
        yield from _register(settings, ledger)
        yield supervisor.start("worker")
        supervisor.wait("mlflow", partial(_is_healthy, f"{settings.url('mlflow')}/health"))
        yield from _send_to_mlflow(settings, ledger)
        supervisor.wait("worker", partial(_worker_is_online, settings))
        yield from _summary(settings, _write_shell_file(settings, ledger), ledger)


def down() -> Iterator[str]:
    """Stop every process of the stack: worker and runs, servers, then the database."""
    folder = state_folder() / "stack"
    with _lock(folder):
        supervisor = Supervisor(folder)
        states, count = supervisor.states(), len(stack_processes(folder))
        supervisor.stop("worker")
        servers = {pid for _, pid in states.values()} | {_pid(folder)}
        runs = [p for p in stack_processes(folder) if not servers & {p.pid, *(parent.pid for parent in p.parents())}]
        end(runs if states else [], seconds=20)
        if states.get("prefect", ("",))[0] in STARTED and (crashed := _crash_left_runs(_stored(folder))):
            yield f"{crashed} active runs were marked crashed; Retry continues them"
        for name in ("mlflow", "prefect", "postgres"):
            supervisor.stop(name)
        supervisor.shut_down()
        end(stack_processes(folder), seconds=20)
        for name in ("settings.json", "env"):
            (folder / name).unlink(missing_ok=True)
        yield f"stopped {count} processes; all data remains in {folder.parent}" if count else "nothing was running"


def status() -> Iterator[str]:
    """Yield the state of each service."""
    states = Supervisor(state_folder() / "stack").states()
    if not states:
        yield "nothing was started here; run make up"
    for name, (state, pid) in states.items():
        running = f"running, process {pid}"
        yield f"{name:<10} {running if state == 'RUNNING' else f'is {state.lower()} (make up starts it)'}"


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(folder / ".lock", wait=False))
        except BlockingIOError:
            raise ConfigError(f"{folder}: another make up or make down is active. Wait for it") from None
        yield


def _pid(folder: Path) -> int:
    file = folder / "supervisord.pid"
    return int(file.read_text()) if file.exists() else 0


def _stored(folder: Path) -> dict[str, Any]:
    file = folder / "settings.json"
    values: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return values


def _settings(home: Path, supervisor: Supervisor) -> Settings:
    running = _stored(home / "stack") if supervisor.states() else {}
    database = os.environ.get("WASP_DATABASE") or running.get("database") or _database(home / "stack")
    if database not in ("postgresql", "sqlite"):
        raise ConfigError(f"WASP_DATABASE={database}: not supported. Write postgresql or sqlite")
    if database == "postgresql" and not postgres.is_usable():
        raise ConfigError(f"This stack uses PostgreSQL, but {postgres.explain_missing()}")
    return settings_of(os.environ, running, home, database)


def _database(folder: Path) -> str:
    """Return the database of earlier starts, else PostgreSQL if it is available."""
    if (postgres.cluster_path(folder) / "whole").exists() or ledger_address_file(folder.parent).exists():
        return "postgresql"
    return "sqlite" if (folder / "kept.json").exists() or not postgres.is_usable() else "postgresql"


def choose_ledger_address(settings: Settings, passwords: Mapping[str, str]) -> str:
    """Return the address of the privacy ledger; empty for the folder's ledger.db.

    A ledger with entries is never moved: a second, empty one would lose the spent budget. A new ledger is created in
    PostgreSQL, and its address is stored for every command that uses this state folder.
    """
    from flows.runtime.stores import open_ledger

    if os.environ.get("WASP_LEDGER_URL"):
        return os.environ["WASP_LEDGER_URL"]
    home, file = Path(settings.home), ledger_address_file(Path(settings.home))
    if settings.database != "postgresql":
        if file.exists():
            raise ConfigError(
                f"The privacy ledger is in PostgreSQL (address in {file}). Start with WASP_DATABASE=postgresql"
            )
        return ""
    if not file.exists() and (home / "ledger.db").exists() and open_ledger(home).datasets():
        return ""
    address = postgres.url("psycopg2", "ledger", passwords["ledger"], settings.postgres_port)
    write_text_whole(file, address + "\n", private=True)
    return address


def check_port(service: Service) -> None:
    """Raise ConfigError if another program listens on the service's port."""
    family = socket.AF_INET6 if ":" in service.bind else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((service.bind, service.port))
        except OSError as error:
            raise ConfigError(
                f"Port {service.port} for {service.name} is not available on {service.bind} ({error.strerror}). "
                f"Use another: make up {service.port_variable}={service.port + 100}"
            ) from None


def _is_healthy(address: str) -> bool:
    try:
        return httpx.get(address, timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def _post(settings: Mapping[str, Any], path: str, body: Any) -> Any:
    made = Settings(**settings)
    answer = httpx.post(f"{made.url('prefect')}/api/{path}", json=body, auth=made.account if made.auth else None)
    return answer.raise_for_status().json()


def _worker_is_online(settings: Settings) -> bool:
    try:
        workers = _post(asdict(settings), f"work_pools/{POOL}/workers/filter", {})
    except httpx.HTTPError:
        return False
    return any(worker["name"] == "local" and worker["status"] == "ONLINE" for worker in workers)


def _crash_left_runs(settings: Mapping[str, Any]) -> int:
    """Mark active runs of the pool as crashed, and return their number."""
    states = {"state": {"type": {"any_": ["PENDING", "RUNNING", "CANCELLING"]}}}
    runs = _post(settings, "flow_runs/filter", {"flow_runs": states, "work_pools": {"name": {"any_": [POOL]}}})
    state = {"type": "CRASHED", "name": "Crashed", "message": ENDED}
    for run in runs:
        _post(settings, f"flow_runs/{run['id']}/set_state", {"state": state, "force": True})
    return len(runs)


def _register(settings: Settings, ledger: str) -> Iterator[str]:
    done = _run(settings, ledger, "deployments.register")
    log = settings.folder / "logs" / "register.log"
    log.write_text(done.stdout + done.stderr, encoding="utf-8")
    if done.returncode:
        raise WaspError(f"The deployments could not be registered. The end of {log}:\n{done.stderr[-1500:]}")
    yield from done.stdout.splitlines()


def _send_to_mlflow(settings: Settings, ledger: str) -> Iterator[str]:
    """Send what MLflow missed of runs while it was away; it has the new stack's runs already."""
    if any((settings.folder.parent / "runs").glob("*/mlflow.json")):
        done = _run(settings, ledger, "flows.cli.main", "push", "--all")
        yield f"experiments: {(done.stdout or done.stderr).strip().splitlines()[-1]}"


def _run(settings: Settings, ledger: str, module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a module as a client of the stack."""
    environment = services.base_environment(settings) | services.client_environment(settings, ledger)
    return subprocess.run(  # noqa: S603  (a command of our own)
        [sys.executable, "-m", module, *arguments],
        env=environment, cwd=settings.folder, capture_output=True, text=True, timeout=REGISTER_SECONDS,
    )  # fmt: skip


def _write_shell_file(settings: Settings, ledger: str) -> Path:
    lines = ["# Source this file in a shell to use the stack that `make up` started."]
    environment = services.client_environment(settings, ledger)
    lines += [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    file = settings.folder / "env"
    write_text_whole(file, "\n".join(lines) + "\n", private=True)
    return file


def _summary(settings: Settings, shell: Path, address: str) -> Iterator[str]:
    in_postgres = address and "WASP_LEDGER_URL" not in os.environ
    ledger = "PostgreSQL" if in_postgres else address or f"{settings.home}/ledger.db"
    access = f"user {settings.account[0]}, password of WASP_AUTH" if settings.auth else "no password; this machine only"
    database = f"PostgreSQL, files in {postgres.cluster_path(settings.folder)}"
    if settings.database != "postgresql":
        database = "SQLite, as configured" if postgres.is_usable() else f"SQLite, because {postgres.explain_missing()}"
    yield from (
        "",
        f"Prefect    {settings.url('prefect', shown=True)}        start and watch runs",
        f"MLflow     {settings.url('mlflow', shown=True)}        compare experiments",
        f"access     {access}",
        f"database   {database}",
        f"ledger     {redact(ledger) if '://' in ledger else ledger}",
        f"files      {settings.home} (state), {settings.folder / 'logs'} (logs)",
        f"data       {settings.data} (base of relative paths in forms; change it with WASP_DATA)",
        "",
        f"next       source {shlex.quote(str(shell))} in a shell, to show its runs (wasp run ...) on both servers",
        "           stop with: make down",
    )
