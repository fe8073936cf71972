"""Command line of the stack: python -m deployments.stack up | down | status."""

from __future__ import annotations

import argparse
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import httpx

from connectors.artifacts.atomic_files import locked, write_text_whole
from connectors.interfaces.errors import ConfigError, WaspError
from connectors.tracking.address import reachable, redact
from deployments.registry import POOL
from deployments.stack.programs import client_environment, programs, stack_environment
from deployments.stack.settings import Settings, settings_of, stack_secrets
from deployments.stack.supervisor import STARTED, Supervisor, end, stack_processes
from flows.engine.server import serve_others
from flows.runtime.state_folder import ledger_address, state_folder

REGISTER_SECONDS = 300
ENDED = "The stack was stopped (make down) during this run. Retry reuses finished steps."


def main(arguments: list[str] | None = None) -> int:
    """Run a command and print its lines; print a WaspError as one message and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m deployments.stack", description=__doc__)
    commands = {"up": up, "down": down, "status": status}
    parser.add_argument("command", choices=commands)
    try:
        for line in commands[parser.parse_args(arguments).command]():
            print(line, flush=True)
    except WaspError as error:
        print(f"wasp stack: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def up() -> Iterator[str]:
    """Start missing programs, and update the registered deployments."""
    home = state_folder()
    folder = home / "stack"
    with _lock(folder):
        supervisor = Supervisor(folder)
        settings = settings_of(os.environ, home, stored_settings(folder) if supervisor.states() else None)
        check_ledger(home)
        if not supervisor.states():
            end(stack_processes(folder), seconds=10)  # of a supervisord that was killed
            check_ports(settings)
            (folder / "mlflow_accounts.db").unlink(missing_ok=True)
            supervisor.launch(programs(settings), stack_environment(settings, stack_secrets(folder)))
            write_text_whole(folder / "settings.json", settings.model_dump_json(), private=True)
            _write_shell_file(settings)
        if settings.auth:
            serve_others(home)
        for server in ("prefect", "mlflow"):
            yield supervisor.start(server)
        supervisor.wait("prefect", partial(_is_healthy, f"{settings.url('prefect')}/api/health"))
        registered = _run(settings, "deployments.register")
        if registered.returncode:
            raise WaspError(f"The deployments could not be registered: {registered.stdout[-1500:]}")
        yield from registered.stdout.splitlines()
        yield supervisor.start("worker")
        supervisor.wait("mlflow", partial(_is_healthy, f"{settings.url('mlflow')}/health"))
        if any((home / "runs").glob("*/mlflow.json")):  # MLflow may have missed runs while it was away
            pushed = _run(settings, "flows.cli.main", "push", "--all")
            yield f"experiments: {pushed.stdout.strip().splitlines()[-1]}"
        supervisor.wait("worker", partial(_worker_is_online, settings))
        yield from _summary(settings)


def down() -> Iterator[str]:
    """Stop every process of the stack: worker and runs, then the servers."""
    folder = state_folder() / "stack"
    with _lock(folder):
        supervisor = Supervisor(folder)
        states, count = supervisor.states(), len(stack_processes(folder))
        supervisor.stop("worker")
        end(stack_processes(folder, "worker"), seconds=20)  # its runs
        if states.get("prefect", ("",))[0] in STARTED and (crashed := _crash_left_runs(stored_settings(folder))):
            yield f"{crashed} active runs were marked crashed; Retry continues them"
        supervisor.stop("mlflow", "prefect")
        end(stack_processes(folder), seconds=20)  # supervisord, and what it left
        for name in ("settings.json", "env"):
            (folder / name).unlink(missing_ok=True)
        yield f"stopped {count} processes; all data remains in {folder.parent}" if count else "nothing was running"


def status() -> Iterator[str]:
    """Yield the state of each program."""
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


def stored_settings(folder: Path) -> Settings:
    """Return the settings of the running stack."""
    return Settings.model_validate_json((folder / "settings.json").read_text(encoding="utf-8"), by_name=True)


def check_ledger(home: Path) -> None:
    """Raise ConfigError if the database of the privacy ledger does not respond."""
    address = ledger_address(home)
    if not reachable(address):
        raise ConfigError(
            f"The privacy ledger {redact(address)} does not respond. Start its PostgreSQL, or correct WASP_LEDGER_URL"
        )


def check_ports(settings: Settings) -> None:
    """Raise ConfigError if another program listens on a port of the stack."""
    family = socket.AF_INET6 if ":" in settings.bind else socket.AF_INET
    for name, port in (("prefect", settings.prefect_port), ("mlflow", settings.mlflow_port)):
        try:
            socket.create_server((settings.bind, port), family=family).close()
        except OSError as error:
            raise ConfigError(
                f"Port {port} for {name} is not available on {settings.bind} ({error.strerror}). "
                f"Use another: make up {name.upper()}_PORT={port + 100}"
            ) from None


def _is_healthy(address: str) -> bool:
    try:
        return httpx.get(address, timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def _prefect(settings: Settings) -> httpx.Client:
    return httpx.Client(base_url=f"{settings.url('prefect')}/api/", auth=settings.account if settings.auth else None)


def _worker_is_online(settings: Settings) -> bool:
    with _prefect(settings) as client:
        answer = client.post(f"work_pools/{POOL}/workers/filter", json={})
    workers = answer.json() if answer.is_success else []
    return any(worker["name"] == "local" and worker["status"] == "ONLINE" for worker in workers)


def _crash_left_runs(settings: Settings) -> int:
    """Mark active runs of the pool as crashed, and return their number."""
    active = {"state": {"type": {"any_": ["PENDING", "RUNNING", "CANCELLING"]}}}
    state = {"type": "CRASHED", "name": "Crashed", "message": ENDED}
    with _prefect(settings) as client:
        pool = {"name": {"any_": [POOL]}}
        runs = client.post("flow_runs/filter", json={"flow_runs": active, "work_pools": pool}).raise_for_status().json()
        for run in runs:
            client.post(f"flow_runs/{run['id']}/set_state", json={"state": state, "force": True}).raise_for_status()
    return len(runs)


def _run(settings: Settings, module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a module as a client of the stack; its two outputs are one."""
    return subprocess.run(  # noqa: S603  (a command of our own)
        [sys.executable, "-m", module, *arguments],
        env=stack_environment(settings, stack_secrets(settings.folder)), cwd=settings.folder,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=REGISTER_SECONDS,
    )  # fmt: skip


def _write_shell_file(settings: Settings) -> None:
    lines = ["# Source this file in a shell to use the stack that `make up` started."]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in client_environment(settings).items()]
    write_text_whole(settings.folder / "env", "\n".join(lines) + "\n", private=True)


def _summary(settings: Settings) -> Iterator[str]:
    access = f"user {settings.account[0]}, password of WASP_AUTH" if settings.auth else "no password; this machine only"
    yield from (
        "",
        f"Prefect    {settings.url('prefect', shown=True)}        start and watch runs",
        f"MLflow     {settings.url('mlflow', shown=True)}        compare experiments",
        f"access     {access}",
        f"ledger     {redact(ledger_address(settings.home))}",
        f"files      {settings.home} (state), {settings.folder / 'logs'} (logs)",
        f"data       {settings.data} (base of relative paths in forms; change it with WASP_DATA)",
        "",
        f"next       source {shlex.quote(str(settings.folder / 'env'))} in a shell, to show its runs (wasp run ...)",
        "           on both servers; stop with: make down",
    )


if __name__ == "__main__":
    sys.exit(main())
