"""Background processes in new sessions, identified by an environment variable."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from connectors.interfaces.errors import ConfigError, WaspError
from deployments.stack.logs import log_path, log_tail, rotate

MARK = "WASP_STACK"
"""Variable with the stack's folder, inherited by every process of a stack.

Process groups and parents do not find the runs of a worker, because they have their own sessions and outlive it.
"""
MARK_NAME = "WASP_STACK_SERVICE"
"""Variable with the name of a process's service."""


@dataclass(frozen=True, slots=True)
class Service:
    """A program of the stack: its command, and its port with the port's variable."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)
    port: int = 0
    port_variable: str = ""
    bind: str = "127.0.0.1"
    as_user: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Started:
    """A started process: its pid, and its start time, because pids are reused."""

    pid: int
    created: float

    def process(self) -> psutil.Process | None:
        """Return the process if it is still running."""
        try:
            process = psutil.Process(self.pid)
            is_same = abs(process.create_time() - self.created) < 1 and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return None
        return process if is_same else None


def start(service: Service, folder: Path) -> Started:
    """Start a service in the background; its output goes to logs/NAME.log."""
    rotate(folder)
    log = log_path(folder, service.name)
    environment = {**service.environment, MARK: str(folder), MARK_NAME: service.name, "PYTHONUNBUFFERED": "1"}
    with log.open("ab") as output, _interruptible():
        process = subprocess.Popen(  # noqa: S603  (a fixed command)
            list(service.command),
            env=environment,
            cwd="/" if service.as_user else folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **service.as_user,
        )
    return Started(process.pid, psutil.Process(process.pid).create_time())


@contextmanager
def _interruptible() -> Iterator[None]:
    """Restore SIGINT for child processes; background jobs of a shell ignore it."""
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if not ignored or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def check_port(service: Service) -> None:
    """Raise ConfigError if another program listens on the service's port."""
    if not service.port:
        return
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


def stack_processes(folder: Path, service: str = "") -> list[psutil.Process]:
    """Return every process of the stack in this folder, or of one of its services."""
    members = []
    for process in psutil.process_iter():
        try:
            environment = process.environ()
            is_ours = environment.get(MARK) == str(folder) and service in ("", environment.get(MARK_NAME))
            if is_ours and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                members.append(process)
        except (psutil.Error, OSError):  # of another user, or ended meanwhile
            continue
    return members


def end(processes: Sequence[psutil.Process], seconds: float, number: int = signal.SIGTERM) -> None:
    """Send a signal to processes, and kill those that remain after `seconds`."""
    _send(processes, number)
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    _send(alive, signal.SIGKILL)
    _, left = psutil.wait_procs(alive, timeout=5)
    if left:
        raise WaspError(f"Processes {', '.join(str(process.pid) for process in left)} do not stop. Stop them manually")


def _send(processes: Sequence[psutil.Process], number: int) -> None:
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.NoSuchProcess:
            continue


def wait_until(ready: Any, started: Started, name: str, folder: Path, seconds: float = 180) -> None:
    """Wait until a service is ready; WaspError with its log if it dies or times out."""
    deadline = time.monotonic() + seconds
    while not ready():
        is_dead = started.process() is None
        if is_dead or time.monotonic() > deadline:
            problem = "ended at its start" if is_dead else f"did not respond within {seconds:.0f} s"
            raise WaspError(
                f"{name} {problem}. The end of {log_path(folder, name)}:\n{log_tail(folder, name)}\n"
                "Fix the problem and run make up again, or make down to stop the started services."
            )
        time.sleep(0.2)
