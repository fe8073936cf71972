"""The commands up, down and status; each yields the lines to print."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from psutil import Process

from connectors.artifacts.atomic_files import write_text_whole
from connectors.interfaces.errors import ConfigError, WaspError
from deployments.stack import postgres, processes, server_requests, services
from deployments.stack.ledger_address import choose_ledger_address
from deployments.stack.logs import log_path
from deployments.stack.processes import Service
from deployments.stack.settings import Settings, settings_of, stack_secrets
from deployments.stack.state import Stack, lock_stack
from flows.runtime.state_folder import state_folder

REGISTER_SECONDS = 180


def up() -> Iterator[str]:
    """Start missing and dead services, and update the registered deployments."""
    home = state_folder()
    with lock_stack(home / "stack"):
        stack = Stack(home)
        settings = _settings(stack)
        secrets = stack_secrets(stack.folder)
        ledger = choose_ledger_address(settings, secrets)
        database, servers, worker = _services(settings, secrets, ledger)
        for service in (*database, *servers):
            if not stack.alive(service.name):
                # Children of a dead server may still use its port. Runs of a dead worker continue.
                processes.end(processes.stack_processes(stack.folder, service.name), seconds=10)
                processes.check_port(service)
        for service in database:
            postgres.make_cluster(stack.folder, secrets["owner"])
            yield from _start(stack, settings, service)
            _wait(stack, service.name, partial(postgres.accepts_connections, settings.postgres_port))
            postgres.make_databases(settings.postgres_port, secrets)
        for service in servers:
            yield from _start(stack, settings, service)
        _wait(stack, "prefect", partial(server_requests.is_healthy, f"{settings.prefect_url}/api/health"))
        yield from _register(settings, ledger)
        yield from _start(stack, settings, worker)
        yield from _start(stack, settings, services.logs_service(settings))
        _wait(stack, "mlflow", partial(server_requests.is_healthy, f"{settings.mlflow_url}/health"))
        _wait(stack, "worker", partial(server_requests.worker_is_online, settings))
        shell = _write_shell_file(settings, ledger)
        yield from _summary(stack, settings, shell, ledger)


def _settings(stack: Stack) -> Settings:
    running = stack.settings if stack.any_alive() else {}
    database = os.environ.get("WASP_DATABASE") or running.get("database") or _database(stack)
    if database not in ("postgresql", "sqlite"):
        raise ConfigError(f"WASP_DATABASE={database}: not supported. Write postgresql or sqlite")
    if database == "postgresql" and not postgres.is_usable():
        raise ConfigError(f"This stack uses PostgreSQL, but {postgres.explain_missing()}")
    settings = settings_of(os.environ, running, stack.home, database)
    requested = settings.plain()
    different = [name for name in running if running[name] != requested[name]]
    if different:
        changes = [name if name == "auth" else f"{name}: {running[name]}, not {requested[name]}" for name in different]
        raise ConfigError(f"The stack runs with other settings ({'; '.join(changes)}). Run make down first")
    return settings


def _database(stack: Stack) -> str:
    """Return the database of earlier starts, else PostgreSQL if it is available."""
    if (postgres.cluster_path(stack.folder) / "whole").exists():
        return "postgresql"
    return "sqlite" if (stack.folder / "kept.json").exists() or not postgres.is_usable() else "postgresql"


def _services(
    settings: Settings, secrets: Mapping[str, str], ledger: str
) -> tuple[list[Service], list[Service], Service]:
    inherited = services.base_environment(settings)
    database = [postgres.postgres_service(settings, inherited)] if settings.database == "postgresql" else []
    servers = [services.prefect_service(settings, secrets), services.mlflow_service(settings, secrets)]
    return database, servers, services.worker_service(settings, ledger)


def _start(stack: Stack, settings: Settings, service: Service) -> Iterator[str]:
    is_new = stack.start(service, settings)
    yield f"{service.name:<10} {'starting' if is_new else 'already running'}, process {stack.started[service.name].pid}"


def _wait(stack: Stack, name: str, ready: Callable[[], bool]) -> None:
    processes.wait_until(ready, stack.started[name], name, stack.folder)


def _register(settings: Settings, ledger: str) -> Iterator[str]:
    environment = services.base_environment(settings) | services.client_environment(settings, ledger)
    command = [sys.executable, "-m", "deployments.register"]
    log = log_path(settings.folder, "register")
    done = subprocess.run(  # noqa: S603  (a command of our own)
        command, env=environment, cwd=settings.folder, capture_output=True, text=True, timeout=REGISTER_SECONDS
    )
    log.write_text(done.stdout + done.stderr, encoding="utf-8")
    if done.returncode:
        raise WaspError(f"The deployments could not be registered. The end of {log}:\n{done.stderr[-1500:]}")
    yield from done.stdout.splitlines()


def _write_shell_file(settings: Settings, ledger: str) -> Path:
    lines = ["# Source this file in a shell to use the stack that `make up` started."]
    for name, value in services.client_environment(settings, ledger).items():
        lines.append(f"export {name}={shlex.quote(value)}")
    file = settings.folder / "env"
    write_text_whole(file, "\n".join(lines) + "\n", private=True)
    return file


def _summary(stack: Stack, settings: Settings, shell: Path, address: str) -> Iterator[str]:
    in_postgres = address and "WASP_LEDGER_URL" not in os.environ
    ledger = "PostgreSQL" if in_postgres else address or str(stack.home / "ledger.db")
    yield ""
    yield f"Prefect    {settings.prefect_page}        start and watch runs"
    yield f"MLflow     {settings.mlflow_page}        compare experiments"
    access = f"user {settings.user}, password of WASP_AUTH" if settings.auth else "no password; this machine only"
    yield f"access     {access}"
    sqlite = "SQLite, as configured" if postgres.is_usable() else f"SQLite, because {postgres.explain_missing()}"
    yield f"database   {'PostgreSQL' if settings.database == 'postgresql' else sqlite}"
    yield f"ledger     {_redacted(ledger)}"
    yield f"files      {stack.home} (state), {stack.folder / 'logs'} (logs)"
    yield f"data       {settings.data} (base of relative paths in forms; change it with WASP_DATA)"
    yield ""
    yield f"next       source {shlex.quote(str(shell))} in a shell, to show its runs (wasp run ...) on both servers"
    yield "           stop with: make down"


def _redacted(address: str) -> str:
    from connectors.tracking.address import redact

    return redact(address) if "://" in address else address


def down() -> Iterator[str]:
    """Stop every process of the stack: runs, worker, servers, then the database."""
    home = state_folder()
    with lock_stack(home / "stack"):
        stack = Stack(home)
        count = len(processes.stack_processes(stack.folder))
        servers = {process.pid for name in ("prefect", "mlflow", "postgres") for process in _tree(stack, name)}
        worker = {process.pid for process in _tree(stack, "worker")[:1]}
        processes.end(_others(stack, servers | worker), seconds=20)
        processes.end(_others(stack, servers), seconds=20)
        if stack.alive("prefect"):
            crashed = server_requests.crash_left_runs(Settings.of(stack.settings))
            if crashed:
                yield f"{crashed} active runs were marked crashed; Retry continues them"
        processes.end(_others(stack, {process.pid for process in _tree(stack, "postgres")}), seconds=20)
        # SIGINT is PostgreSQL's fast shutdown, which leaves the files consistent.
        processes.end(_tree(stack, "postgres")[:1], seconds=60, number=signal.SIGINT)
        stack.forget()
        yield f"stopped {count} processes; all data remains in {home}" if count else "nothing was running"


def _tree(stack: Stack, name: str) -> list[Process]:
    """Return a service's process, followed by all its descendants."""
    process = stack.started[name].process() if name in stack.started else None
    return [process, *process.children(recursive=True)] if process else []


def _others(stack: Stack, excluded: set[int]) -> list[Process]:
    return [process for process in processes.stack_processes(stack.folder) if process.pid not in excluded]


def status() -> Iterator[str]:
    """Yield the state of each service."""
    stack = Stack(state_folder())
    if not stack.started:
        yield "nothing was started here; run make up"
    for name, process in stack.started.items():
        state = "running" if stack.alive(name) else "is dead (make up restarts it)"
        yield f"{name:<10} {state}, process {process.pid}"
