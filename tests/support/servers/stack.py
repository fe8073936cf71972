"""The whole stack of `make up` for a test: free ports, its own state folder, nothing left afterwards."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from deployments.stack.supervisor import stack_processes
from tests.support.paths import ROOT
from tests.support.servers.ports import free_port


@dataclass
class RunningStack:
    """Where a stack answers; `client` are the variables that a shell gets from its env file."""

    home: Path
    prefect: str
    mlflow: str
    environment: dict[str, str]
    client: dict[str, str] = field(default_factory=dict)

    @property
    def api(self) -> str:
        return f"{self.prefect}/api"

    def word(self, word: str, **changes: str) -> "subprocess.CompletedProcess[str]":
        """Carry out `make up`, `make down` or `make status`."""
        command = [sys.executable, "-m", "deployments.stack", word]
        return subprocess.run(
            command, cwd=ROOT, env=self.environment | changes, capture_output=True, text=True, timeout=400
        )

    def command(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a program of this environment (`prefect`, `flows.cli.main`) as a shell would after `source env`."""
        command = [sys.executable, "-m", *arguments]
        return subprocess.run(command, cwd=ROOT, env=self.shell, capture_output=True, text=True, timeout=400)

    @property
    def shell(self) -> dict[str, str]:
        """The environment of a shell that has read the env file."""
        return self.environment | self.client

    def members(self) -> list[psutil.Process]:
        """Every process of the stack that runs now."""
        return stack_processes(self.home / "stack")


def clean_environment(home: Path, **changes: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("WASP_", "MLFLOW_", "PREFECT_"))}
    ports = {name: str(free_port()) for name in ("PREFECT_PORT", "MLFLOW_PORT")}
    inherited = {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    return kept | inherited | ports | {"WASP_HOME": str(home)} | changes


def read_exports(place: Path) -> dict[str, str]:
    """Return the variables that a shell has after reading the env file."""
    text = subprocess.run(
        ["bash", "-c", f'set -a; source "{place}"; env -0'], env={}, capture_output=True, text=True, check=True
    ).stdout
    return dict(line.split("=", 1) for line in text.split("\0") if line.startswith(("WASP_", "PREFECT_", "MLFLOW_")))


@contextmanager
def stack(home: Path, **env: str) -> Iterator[RunningStack]:
    """Start everything on free ports; `env` are variables of `make up`: WASP_AUTH, WASP_DATA..."""
    environment = clean_environment(home, **env)
    urls = [f"http://127.0.0.1:{environment[name]}" for name in ("PREFECT_PORT", "MLFLOW_PORT")]
    running = RunningStack(home, urls[0], urls[1], environment)
    try:
        done = running.word("up")
        assert done.returncode == 0, done.stdout + done.stderr
        running.client = read_exports(home / "stack" / "env")
        yield running
    finally:
        ended = running.word("down")
        left = [process.cmdline() for process in running.members()]
        assert ended.returncode == 0, ended.stderr
        assert left == []
