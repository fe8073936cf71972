"""Starts what is missing, ends everything, says how it stands. Each word yields the lines that a person reads."""

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
from deployments.stack import postgres, processes, questions, services
from deployments.stack.book_place import place_book
from deployments.stack.processes import Service
from deployments.stack.settings import Settings, kept_values, settings_of
from deployments.stack.state import Stack, held
from flows.runtime.state_folder import state_folder

REGISTER_SECONDS = 180


def up() -> Iterator[str]:
    """Start the stack, or what of it is dead, and register the deployments if they are not what they should be."""
    home = state_folder()
    with held(home / "stack"):
        stack = Stack(home)
        settings = _settings(stack)
        kept = kept_values(stack.folder)
        book = place_book(settings, kept)
        database, servers, worker = _services(settings, kept, book)
        for service in (*database, *servers):
            if not stack.alive(service.name):
                # A server that died may have left children that hold its port. Runs of a dead worker are left alone.
                processes.end(processes.marked(stack.folder, service.name), seconds=10)
                processes.check_port(service)
        for service in database:
            postgres.make_cluster(stack.folder, kept["owner"])
            yield from _start(stack, settings, service)
            _wait(stack, service.name, partial(postgres.answers, settings.postgres_port))
            postgres.make_databases(settings.postgres_port, kept)
        for service in servers:
            yield from _start(stack, settings, service)
        _wait(stack, "prefect", partial(questions.http_answers, f"{settings.prefect_url}/api/health"))
        yield from _register(settings, book)
        yield from _start(stack, settings, worker)
        _wait(stack, "mlflow", partial(questions.http_answers, f"{settings.mlflow_url}/health"))
        _wait(stack, "worker", partial(questions.worker_is_online, settings))
        shell = _write_shell_file(settings, book)
        yield from _farewell(stack, settings, shell, book)


def _settings(stack: Stack) -> Settings:
    running = stack.settings if stack.any_alive() else {}
    wanted = os.environ.get("WASP_DATABASE") or running.get("database") or _database(stack)
    if wanted not in ("postgresql", "sqlite"):
        raise ConfigError(f"WASP_DATABASE={wanted}: write postgresql or sqlite")
    if wanted == "postgresql" and not postgres.usable():
        raise ConfigError(f"PostgreSQL holds this stack's runs, but there is {postgres.why_sqlite()}")
    settings = settings_of(os.environ, running, stack.home, wanted)
    now = settings.plain()
    other = [name for name in running if running[name] != now[name]]
    if other:
        words = [name if name == "auth" else f"{name}: {running[name]}, not {now[name]}" for name in other]
        raise ConfigError(f"The stack runs with other settings ({'; '.join(words)}). Type make down first")
    return settings


def _database(stack: Stack) -> str:
    """Return what holds the runs of before; at the first start PostgreSQL if it can be had."""
    if (postgres.cluster_place(stack.folder) / "whole").exists():
        return "postgresql"
    return "sqlite" if (stack.folder / "kept.json").exists() or not postgres.usable() else "postgresql"


def _services(settings: Settings, kept: Mapping[str, str], book: str) -> tuple[list[Service], list[Service], Service]:
    inherited = services.base_environment(settings)
    database = [postgres.postgres_service(settings, inherited)] if settings.database == "postgresql" else []
    servers = [services.prefect_service(settings, kept), services.mlflow_service(settings, kept)]
    return database, servers, services.worker_service(settings, book)


def _start(stack: Stack, settings: Settings, service: Service) -> Iterator[str]:
    now = stack.start(service, settings)
    yield f"{service.name:<10} {'starting' if now else 'runs already'}, process {stack.started[service.name].pid}"


def _wait(stack: Stack, name: str, ready: Callable[[], bool]) -> None:
    processes.wait_until(ready, stack.started[name], name, stack.folder)


def _register(settings: Settings, book: str) -> Iterator[str]:
    environment = services.base_environment(settings) | services.client_environment(settings, book)
    command = [sys.executable, "-m", "deployments.register"]
    log = processes.log_place(settings.folder, "register")
    done = subprocess.run(  # noqa: S603  (a command of our own)
        command, env=environment, cwd=settings.folder, capture_output=True, text=True, timeout=REGISTER_SECONDS
    )
    log.write_text(done.stdout + done.stderr, encoding="utf-8")
    if done.returncode:
        raise WaspError(f"The deployments could not be registered; {log} ends:\n{done.stderr[-1500:]}")
    yield from done.stdout.splitlines()


def _write_shell_file(settings: Settings, book: str) -> Path:
    lines = ["# Lets the commands of a shell work with the stack that `make up` started: source this file."]
    for name, value in services.client_environment(settings, book).items():
        lines.append(f"export {name}={shlex.quote(value)}")
    place = settings.folder / "env"
    write_text_whole(place, "\n".join(lines) + "\n", private=True)
    return place


def _farewell(stack: Stack, settings: Settings, shell: Path, book: str) -> Iterator[str]:
    ledger = "PostgreSQL" if book and "WASP_LEDGER_URL" not in os.environ else book or str(stack.home / "ledger.db")
    yield ""
    yield f"Prefect    {settings.prefect_page}        start and watch runs"
    yield f"MLflow     {settings.mlflow_page}        compare experiments"
    access = f"user {settings.user}, password of WASP_AUTH" if settings.auth else "no password; this machine alone"
    yield f"access     {access}"
    chosen = "SQLite, as it was chosen" if postgres.usable() else postgres.why_sqlite()
    kind = "PostgreSQL" if settings.database == "postgresql" else chosen
    yield f"database   {kind}; budget book: {_redacted(ledger)}"
    yield f"files      {stack.home} (state), {stack.folder / 'logs'} (logs)"
    yield f"data       {settings.data} (relative paths of a form start there; change it with WASP_DATA)"
    yield ""
    yield f"next       in a shell: source {shlex.quote(str(shell))}; then wasp run ... is seen by both servers"
    yield "           end it with: make down"


def _redacted(address: str) -> str:
    from connectors.tracking.address import redact

    return redact(address) if "://" in address else address


def down() -> Iterator[str]:
    """End every process of the stack: first the runs, then their worker, then the servers, at last the database."""
    home = state_folder()
    with held(home / "stack"):
        stack = Stack(home)
        ended = len(processes.marked(stack.folder))
        servers = {one.pid for name in ("prefect", "mlflow", "postgres") for one in _tree(stack, name)}
        worker = {one.pid for one in _tree(stack, "worker")[:1]}
        processes.end(_others(stack, servers | worker), seconds=20)
        processes.end(_others(stack, servers), seconds=20)
        if stack.alive("prefect"):
            left = questions.crash_left_runs(Settings.of(stack.settings))
            if left:
                yield f"{left} runs were at work: they are marked crashed, Retry continues them"
        processes.end(_others(stack, {one.pid for one in _tree(stack, "postgres")}), seconds=20)
        # SIGINT is PostgreSQL's word for: end now, and leave the files in order.
        processes.end(_tree(stack, "postgres")[:1], seconds=60, number=signal.SIGINT)
        stack.forget()
        yield f"ended {ended} processes; {home} keeps everything" if ended else "nothing was running"


def _tree(stack: Stack, name: str) -> list[Process]:
    """Return a service's process and all that it has started, itself first."""
    process = stack.started[name].process() if name in stack.started else None
    return [process, *process.children(recursive=True)] if process else []


def _others(stack: Stack, kept: set[int]) -> list[Process]:
    return [one for one in processes.marked(stack.folder) if one.pid not in kept]


def status() -> Iterator[str]:
    """Say of each service whether it runs."""
    stack = Stack(state_folder())
    if not stack.started:
        yield "nothing was started here; type make up"
    for name, one in stack.started.items():
        yield f"{name:<10} {'runs' if stack.alive(name) else 'is dead (make up starts it again)'}, process {one.pid}"
