"""Command line of the stack: python -m deployments.stack up | down | status."""

import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from connectors.artifacts.atomic_files import locked, write_text_whole
from connectors.interfaces.errors import ConfigError, WaspError
from connectors.tracking.address import AS_TRAINING, redact
from deployments.registry import POOL
from deployments.stack import postgres
from deployments.stack.programs import (
    HOST,
    Settings,
    client_environment,
    programs,
    settings_of,
    stack_environment,
    stored_settings,
)
from deployments.stack.supervisor import Supervisor, end, stack_processes
from flows.engine.server import serve_others
from flows.runtime.state_folder import ledger_address, state_folder

REGISTER_SECONDS = 300
START_HERE = "/v2/deployments?tags=%5B%22start-here%22%5D"
"""List of the deployments with which a person begins."""
ENDED = "The stack was stopped (make down) during this run. Retry reuses finished steps."


def main() -> int:
    """Run a command and print its lines; print a WaspError as one message and return its exit code."""
    commands = {"up": up, "down": down, "status": status}
    if sys.argv[1:] not in [[name] for name in commands]:
        print(__doc__, file=sys.stderr)
        return ConfigError.exit_code
    try:
        for line in commands[sys.argv[1]]():
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
        if supervisor.states():
            settings = stored_settings(folder)
            yield "the stack runs with the settings of its start; to change them, run make down first"
        else:
            settings = settings_of(home)
            # Of a supervisord that was killed.
            end(stack_processes(folder), seconds=10)
            _check_ports(settings)
            (folder / "mlflow_accounts.db").unlink(missing_ok=True)
            if settings.database_kind == "postgresql":
                postgres.create_cluster(folder)
            accounts = {postgres.NAME: postgres.account_name()}
            supervisor.launch(programs(settings), stack_environment(settings), accounts)
            write_text_whole(folder / "settings.json", settings.model_dump_json(), private=True)
            _write_shell_file(settings)
        if settings.auth:
            serve_others(home)
        if settings.database_kind == "postgresql":
            yield supervisor.start(postgres.NAME)
            supervisor.wait(postgres.NAME, lambda: postgres.is_ready(folder))
            postgres.create_databases(folder)
        for server in ("prefect", "mlflow"):
            yield supervisor.start(server)
        supervisor.wait("prefect", lambda: _is_healthy(f"{settings.prefect}/api/health"))
        registered = _run(settings, "deployments.register")
        if registered.returncode:
            raise WaspError(f"The deployments could not be registered: {registered.stdout[-1500:]}")
        yield from registered.stdout.splitlines()
        yield supervisor.start("worker")
        supervisor.wait("mlflow", lambda: _is_healthy(f"{settings.mlflow}/health"))
        # MLflow may have missed runs while it was away.
        if any((home / "runs").glob("*/mlflow.json")):
            pushed = _run(settings, "flows.cli.main", "push", "--all")
            yield f"experiments: {pushed.stdout.strip().splitlines()[-1]}"
        supervisor.wait("worker", lambda: supervisor.states()["worker"][0] == "RUNNING")
        yield from _summary(settings)


def down() -> Iterator[str]:
    """Stop every process of the stack: worker and runs, then the servers."""
    folder = state_folder() / "stack"
    with _lock(folder):
        supervisor = Supervisor(folder)
        is_served = supervisor.has_started("prefect")
        count = len(stack_processes(folder))
        supervisor.stop("worker")
        # Runs of the worker have sessions of their own, which supervisord does not stop.
        end(stack_processes(folder, "worker"), seconds=20)
        if is_served and (crashed := _crash_left_runs(stored_settings(folder))):
            yield f"{crashed} active runs were marked crashed; Retry continues them"
        supervisor.stop("mlflow")
        supervisor.stop("prefect")
        supervisor.stop(postgres.NAME)
        # supervisord, and what it left.
        end(stack_processes(folder), seconds=20)
        for name in ("settings.json", "env"):
            (folder / name).unlink(missing_ok=True)
        if count:
            yield f"stopped {count} processes; all data remains in {folder.parent}"
        else:
            yield "nothing was running"


def status() -> Iterator[str]:
    """Yield the state of each program."""
    states = Supervisor(state_folder() / "stack").states()
    if not states:
        yield "nothing was started here; run make up"
    for name, (state, pid) in states.items():
        shown = f"is {state.lower()} (make up starts it)"
        if state == "RUNNING":
            shown = f"running, process {pid}"
        yield f"{name:<10} {shown}"


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(folder / ".lock", wait=False) as mine:
        if not mine:
            raise ConfigError(f"{folder}: another make up or make down is active. Wait for it")
        yield


def _check_ports(settings: Settings) -> None:
    """Raise ConfigError if another program listens on a port of the stack."""
    for name, port in (("prefect", settings.prefect_port), ("mlflow", settings.mlflow_port)):
        try:
            socket.create_server((HOST, port)).close()
        except OSError as error:
            raise ConfigError(
                f"Port {port} for {name} is not available ({error.strerror}). "
                f"Use another: make up {name.upper()}_PORT={port + 100}"
            ) from None


def _is_healthy(address: str) -> bool:
    try:
        return httpx.get(address, timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def _crash_left_runs(settings: Settings) -> int:
    """Mark active runs of the pool as crashed, and return their number."""
    active = {"state": {"type": {"any_": ["PENDING", "RUNNING", "CANCELLING"]}}}
    query = {"flow_runs": active, "work_pools": {"name": {"any_": [POOL]}}}
    state = {"type": "CRASHED", "name": "Crashed", "message": ENDED}
    auth = settings.account if settings.auth else None
    with httpx.Client(base_url=f"{settings.prefect}/api/", auth=auth) as client:
        runs = client.post("flow_runs/filter", json=query).raise_for_status().json()
        for run in runs:
            client.post(
                f"flow_runs/{run['id']}/set_state", json={"state": state, "force": True}
            ).raise_for_status()
    return len(runs)


def _run(settings: Settings, module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a module as a client of the stack; its two outputs are one."""
    return subprocess.run(  # noqa: S603  (a command of our own)
        [sys.executable, "-m", module, *arguments], env=stack_environment(settings), cwd=settings.folder,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=REGISTER_SECONDS,
    )  # fmt: skip


def _write_shell_file(settings: Settings) -> None:
    lines = ["# Source this file in a shell to use the stack that `make up` started."]
    lines += [
        f"export {name}={shlex.quote(value)}"
        for name, value in client_environment(settings).items()
    ]
    write_text_whole(settings.folder / "env", "\n".join(lines) + "\n", private=True)


def _summary(settings: Settings) -> Iterator[str]:
    access = "no password; this machine only"
    if settings.auth:
        access = f"user {settings.account[0]}, password of WASP_AUTH"
    yield from (
        "",
        f"Prefect    {settings.prefect}{START_HERE}        start and watch runs",
        f"MLflow     {settings.mlflow}/#/experiments?{AS_TRAINING}        compare experiments",
        f"access     {access}",
        f"databases  {settings.database_reason or 'as at the start'}",
        f"ledger     {redact(ledger_address(settings.home))}",
        f"files      {settings.home} (state), {settings.folder / 'logs'} (logs)",
        f"data       {settings.data} (base of relative paths in forms; change it with WASP_DATA)",
        "",
        f"next       source {shlex.quote(str(settings.folder / 'env'))} in a shell, to show its runs (wasp run ...)",
        "           on both servers; stop with: make down",
    )


if __name__ == "__main__":
    sys.exit(main())
