"""Processes of the `wasp` command that need not import their libraries again: forks of a server that did.

Most of what a short command costs is the import of pandas, MLflow and the accountants (3 s of processor time). The fork
server of `multiprocessing` loads them once for all tests of a process and ends with it.
"""

import atexit
import contextlib
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path

from tests.support.paths import ROOT

SETTLED = ("PYTHON", "OMP_", "GOMP_", "KMP_", "OPENBLAS_", "LD_", "HF_", "MLFLOW_DISABLE")
"""Variables that are read when a process starts or a library is imported; a call that changes one is no fork."""


def call(
    arguments: Sequence[str], environment: Mapping[str, str], timeout: float, folder: Path = ROOT
) -> "subprocess.CompletedProcess[str]":
    """Run `wasp ARGUMENTS` in a folder, in a process of its own; TimeoutExpired after `timeout` seconds."""
    if _settled(environment) != _settled(os.environ):
        command = [sys.executable, "-m", "flows.cli.main", *arguments]
        return subprocess.run(
            command,
            cwd=folder,
            env=dict(environment),
            capture_output=True,
            text=True,
            timeout=timeout,
        )
    with tempfile.TemporaryDirectory() as printed:
        out, err = Path(printed, "out"), Path(printed, "err")
        values = (list(arguments), dict(environment), folder, (out, err))
        process = _server().Process(target=_command, args=values)
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired("wasp", timeout)
        return subprocess.CompletedProcess(
            values[0], process.exitcode, out.read_text(), err.read_text()
        )


def _settled(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(SETTLED)}


@cache
def _server() -> ForkServerContext:
    """Start the server that forks."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.support.processes.command_libraries"])
    with contextlib.chdir(ROOT):
        forkserver.ensure_running()
    return context


def _command(
    arguments: list[str], environment: dict[str, str], folder: Path, printed: tuple[Path, Path]
) -> None:
    """Be the command, in a fork: with its path, environment, folder and files as if it had just started."""
    from tests.support.processes.command_libraries import PATH

    for number, file in enumerate(printed, start=1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    time.tzset()
    sys.path[:], sys.argv = PATH, ["wasp", *arguments]
    from flows.cli.main import main

    try:
        main()
    finally:  # multiprocessing ends a process without them
        threading._shutdown()
        atexit._run_exitfuncs()
