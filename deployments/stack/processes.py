"""Background processes: started in sessions of their own, found again whatever became of their parents, ended whole."""

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

MARK = "WASP_STACK"
"""Variable that every process of a stack inherits; its value is the stack's folder. Runs that a worker starts have
sessions of their own and outlive it, so neither process groups nor parents would find them."""
MARK_NAME = "WASP_STACK_SERVICE"
"""Variable with the name of the service that a process belongs to."""
LARGEST_LOG = 10_000_000
OLD_LOGS = 3


@dataclass(frozen=True, slots=True)
class Service:
    """One program of the stack: how it is started, and on which variable's port it listens (none: it does not)."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)
    port: int = 0
    port_variable: str = ""
    bind: str = "127.0.0.1"
    as_user: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Started:
    """A process that was started: its number, and when, because numbers are used again."""

    pid: int
    created: float

    def process(self) -> psutil.Process | None:
        """Return the process if it still runs."""
        try:
            found = psutil.Process(self.pid)
            same = abs(found.create_time() - self.created) < 1 and found.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return None
        return found if same else None


def start(service: Service, folder: Path) -> Started:
    """Start a service in the background; what it says goes to logs/NAME.log of the stack's folder."""
    log = log_place(folder, service.name)
    _rotate(log)
    environment = {**service.environment, MARK: str(folder), MARK_NAME: service.name, "PYTHONUNBUFFERED": "1"}
    with log.open("ab") as output, _interruptible():
        process = subprocess.Popen(  # noqa: S603  (a command of our own)
            list(service.command),
            env=environment,
            cwd="/" if service.as_user else folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **service.as_user,
        )
    # Nobody waits for a background process: without this it would stay as a zombie of a long-lived parent.
    return Started(process.pid, psutil.Process(process.pid).create_time())


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let processes that are started hear an interrupt: a shell's background jobs ignore it and hand that on."""
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if not ignored or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def log_place(folder: Path, name: str) -> Path:
    """Return where a service writes what it says."""
    (folder / "logs").mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / "logs" / f"{name}.log"


def last_words(folder: Path, name: str, lines: int = 12) -> str:
    """Return the end of a service's log."""
    text = log_place(folder, name).read_text(encoding="utf-8", errors="replace")
    return "\n".join(text.splitlines()[-lines:])


def _rotate(log: Path) -> None:
    if not log.exists() or log.stat().st_size < LARGEST_LOG:
        return
    for number in range(OLD_LOGS, 0, -1):
        older = log.with_suffix(f".log.{number}")
        newer = log.with_suffix(f".log.{number - 1}") if number > 1 else log
        if newer.exists():
            newer.replace(older)


def check_port(service: Service) -> None:
    """Refuse a port that another program listens on."""
    if not service.port:
        return
    family = socket.AF_INET6 if ":" in service.bind else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((service.bind, service.port))
        except OSError as error:
            raise ConfigError(
                f"Port {service.port} for {service.name} cannot be had on {service.bind} ({error.strerror}). "
                f"Take another: make up {service.port_variable}={service.port + 100}"
            ) from None


def marked(folder: Path, service: str = "") -> list[psutil.Process]:
    """Return every process of the stack of this folder, or of one service of it, whoever started it."""
    found = []
    for process in psutil.process_iter():
        try:
            environment = process.environ()
            ours = environment.get(MARK) == str(folder) and service in ("", environment.get(MARK_NAME))
            if ours and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, OSError):  # another user's, or gone meanwhile
            continue
    return found


def end(processes: Sequence[psutil.Process], seconds: float, number: int = signal.SIGTERM) -> None:
    """Ask processes to end and wait for them; those that are still there after `seconds` are killed."""
    _send(processes, number)
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    _send(alive, signal.SIGKILL)
    _, left = psutil.wait_procs(alive, timeout=5)
    if left:
        raise WaspError(f"Processes {', '.join(str(one.pid) for one in left)} cannot be ended; end them by hand")


def _send(processes: Sequence[psutil.Process], number: int) -> None:
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.NoSuchProcess:
            continue


def wait_until(ready: Any, started: Started, name: str, folder: Path, seconds: float = 180) -> None:
    """Wait until a service answers; WaspError with the end of its log if it dies or stays silent."""
    deadline = time.monotonic() + seconds
    while not ready():
        dead = started.process() is None
        if dead or time.monotonic() > deadline:
            what = "ended at its start" if dead else f"did not answer within {seconds:.0f} s"
            raise WaspError(
                f"{name} {what}. The end of {log_place(folder, name)}:\n{last_words(folder, name)}\n"
                "Mend it and type make up again; make down ends what was started."
            )
        time.sleep(0.2)
