"""Waits for servers and processes."""

import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

WAIT_SECONDS = 400.0
"""Limit of a wait for something that takes seconds on an idle machine: a busy machine is no failure."""

Value = TypeVar("Value")


def wait_until(
    look: Callable[[], Value],
    process: subprocess.Popen[Any] | None = None,
    log: Callable[[], object] = str,
    seconds: float = WAIT_SECONDS,
    every: float = 0.05,
) -> Value:
    """Return the first true value of `look()`; fail with the log if `process` ends before, or it takes too long."""
    deadline = time.monotonic() + seconds
    while not (value := look()):
        if process is not None and process.poll() is not None:
            raise AssertionError(f"the process ended: {process.communicate()} {log()}")
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} seconds: {log()}")
        time.sleep(every)
    return value


def responds(url: str) -> bool:
    """Say whether a server answers a question at this address."""
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False


@contextmanager
def serving(
    command: Sequence[str], url: str, log: Path, environment: dict[str, str]
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a server from the time at which it answers at an address until the block ends, with its own processes."""
    session: dict[str, Any] = {"env": environment, "cwd": log.parent, "start_new_session": True}
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, **session)
    try:
        wait_until(lambda: responds(url), process, log.read_text)
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=30)
