"""The stack's programs below supervisord, which restarts a dead one and rotates its log at 10 MB."""

import hashlib
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xmlrpc.client import ServerProxy

import psutil

from connectors.artifacts.atomic_files import write_text_whole
from connectors.interfaces.errors import WaspError
from deployments.stack import postgres

MARK = "WASP_STACK"
"""Variable with the stack's folder. It finds the runs of a worker, which have their own sessions and outlive it."""
PROGRAM = "WASP_STACK_PROGRAM"
"""Variable with the name of a process's program; runs have their worker's."""

_HEAD = """
[supervisord]
directory = %(here)s
logfile = %(here)s/logs/supervisord.log
pidfile = %(here)s/supervisord.pid
[unix_http_server]
file = {socket}
chmod = 0700
[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
"""
_PROGRAM = """
[program:{name}]
command = {command}
autostart = false
autorestart = true
startsecs = 2
startretries = 5
stopasgroup = true
stopwaitsecs = 60
stopsignal = {signal}
redirect_stderr = true
stdout_logfile = %(here)s/logs/{name}.log
stdout_logfile_maxbytes = 10MB
stdout_logfile_backups = 3
"""


class Supervisor:
    """The supervisord of a stack's folder, controlled through its socket."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        digest = hashlib.sha256(str(folder).encode()).hexdigest()[:12]
        # A path below a deep state folder may be too long for a socket.
        self.socket = Path(tempfile.gettempdir()) / f"wasp-{os.getuid()}-{digest}.sock"

    @property
    def _rpc(self) -> Any:
        """Connection of one call; a connection that failed once is of no use."""
        from supervisor.xmlrpc import SupervisorTransport

        transport: Any = SupervisorTransport("", "", f"unix://{self.socket}")
        return ServerProxy("http://stack", transport).supervisor

    def states(self) -> dict[str, tuple[str, int]]:
        """Return the state and process id of each program; empty if no supervisord runs."""
        try:
            return {
                entry["name"]: (entry["statename"], entry["pid"])
                for entry in self._rpc.getAllProcessInfo()
            }
        except (OSError, ConnectionError):
            return {}

    def launch(
        self,
        programs: Mapping[str, Sequence[str]],
        environment: Mapping[str, str],
        accounts: Mapping[str, str],
    ) -> None:
        """Start supervisord with these commands, none of which runs yet; all have these variables.

        `accounts`: the account of a program that must not run as root.
        """
        (self.folder / "logs").mkdir(mode=0o700, exist_ok=True)
        file = self.folder / "supervisord.conf"
        sections = [_HEAD.format(socket=_escaped(self.socket))]
        for name, command in programs.items():
            script = f"export {PROGRAM}={name}; exec {shlex.join(command)}"
            # Children of a server that was killed still use its port. A worker's runs go on; PostgreSQL's end with it.
            if name not in ("worker", postgres.NAME):
                ending = shlex.join([sys.executable, "-m", __name__, str(self.folder), name])
                script = f"{ending}; {script}"
            shell = _escaped(shlex.join(["/bin/sh", "-c", script]))
            # PostgreSQL waits for its clients after TERM.
            signal = "INT" if name == postgres.NAME else "TERM"
            section = _PROGRAM.format(name=name, command=shell, signal=signal)
            if account := accounts.get(name):
                section += f"user = {account}\ndirectory = /\n"
            sections.append(section)
        write_text_whole(file, "".join(sections), private=True)
        marked = {**environment, MARK: str(self.folder), "PYTHONUNBUFFERED": "1"}
        command = [sys.executable, "-m", "supervisor.supervisord", "-c", str(file)]
        done = subprocess.run(command, env=marked, capture_output=True, text=True)  # noqa: S603  (a fixed command)
        if done.returncode:
            raise WaspError(f"supervisord did not start: {(done.stderr or done.stdout)[-800:]}")
        self.wait("supervisord", lambda: bool(self.states()), seconds=20)

    def start(self, name: str) -> str:
        """Start a program unless it runs; return the line to print."""
        state = "already running"
        if not self.has_started(name):
            state = "starting"
            # Without a wait: `wait` reports a program that dies, with the end of its log.
            self._rpc.startProcess(name, False)
        _, process = self.states()[name]
        return f"{name:<10} {state}, process {process}"

    def has_started(self, name: str) -> bool:
        """Return True for a program that runs or is about to."""
        return self.states().get(name, ("",))[0] in ("RUNNING", "STARTING", "BACKOFF")

    def stop(self, name: str) -> None:
        """Stop a program if it runs, and wait for its end."""
        if self.has_started(name):
            self._rpc.stopProcess(name, True)

    def wait(self, name: str, ready: Callable[[], bool], seconds: float = 180) -> None:
        """Wait until a program is ready; WaspError with its log if it dies again and again, or times out."""
        deadline = time.monotonic() + seconds
        while not ready():
            is_dead = self.states().get(name, ("",))[0] in ("FATAL", "EXITED")
            if is_dead or time.monotonic() > deadline:
                problem = f"did not respond within {seconds:.0f} s"
                if is_dead:
                    problem = "ended at its start"
                log = self.folder / "logs" / f"{name}.log"
                text = ""
                if log.exists():
                    text = log.read_text(encoding="utf-8", errors="replace")
                tail = "\n".join(text.splitlines()[-12:])
                raise WaspError(
                    f"{name} {problem}. The end of {log}:\n{tail}\n"
                    "Fix the problem and run make up again, or make down to stop the started services."
                )
            time.sleep(0.2)


def _escaped(value: object) -> str:
    return str(value).replace("%", "%%")


def stack_processes(folder: Path, program: str = "") -> list[psutil.Process]:
    """Return every process of the stack in this folder, or of one of its programs, also without a supervisord."""
    members = []
    for process in psutil.process_iter():
        try:
            environment = process.environ()
            is_ours = environment.get(MARK) == str(folder)
            is_of_program = program in ("", environment.get(PROGRAM))
            if is_ours and is_of_program and process.status() != psutil.STATUS_ZOMBIE:
                members.append(process)
        # The process is of another user, or ended meanwhile.
        except (psutil.Error, OSError):
            continue
    return [process for process in members if process.pid != os.getpid()]


def end(processes: Sequence[psutil.Process], seconds: float) -> None:
    """Terminate processes, and kill those that remain after `seconds`."""
    for process in processes:
        try:
            process.terminate()
        except psutil.NoSuchProcess:
            continue
    for process in psutil.wait_procs(processes, timeout=seconds)[1]:
        process.kill()


if __name__ == "__main__":
    end(stack_processes(Path(sys.argv[1]), sys.argv[2]), seconds=10)
