"""Runs the command in a terminal of its own: a pseudo-terminal whose keys reach the whole foreground group."""

import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Self

from tests.support.paths import ROOT

CTRL_C = b"\x03"
TAKE_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Makes standard input the controlling terminal of a session: otherwise Ctrl-C sends no signal."""
_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


class Terminal:
    """A command in a terminal of 24 lines and 120 columns; `shown` is what it wrote so far, without colours.

    A key such as Ctrl-C reaches the process group in the foreground, as in a shell: the command and its children.
    """

    def __init__(self, *arguments: str, environment: dict[str, str], folder: Path = ROOT) -> None:
        self._keys, child_side = pty.openpty()
        size = {"COLUMNS": "120", "LINES": "24", "TERM": "xterm"}
        command = [sys.executable, "-m", "flows.cli.main", *arguments]
        self.process = subprocess.Popen(
            [sys.executable, "-c", TAKE_TERMINAL, *command],
            cwd=folder,
            env=environment | size,
            stdin=child_side,
            stdout=child_side,
            stderr=child_side,
            start_new_session=True,
        )
        os.close(child_side)
        self._written = bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)
        self._reader.join(5)
        os.close(self._keys)

    def _read(self) -> None:
        while True:
            try:
                part = os.read(self._keys, 65536)
            except OSError:  # Linux: the last process has closed the terminal
                return
            if not part:
                return
            self._written += part

    @property
    def shown(self) -> str:
        """Return what the command wrote so far, without control sequences."""
        return _CONTROLS.sub("", self._written.decode("utf-8", "replace"))

    def wait_for(self, pattern: str, seconds: float = 240) -> None:
        """Wait until the command has written a match of a pattern."""
        until = time.monotonic() + seconds
        while not re.search(pattern, self.shown):
            assert self.process.poll() is None, f"it ended before {pattern!r}\n{self.shown[-6000:]}"
            assert time.monotonic() < until, f"no {pattern!r}\n{self.shown[-6000:]}"
            time.sleep(0.02)

    def press(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._keys, keys)

    def end(self, seconds: float = 240) -> tuple[int, float]:
        """Wait for the end; return exit code and the seconds that it took."""
        begun = time.monotonic()
        code = self.process.wait(seconds)
        waited = time.monotonic() - begun
        self._reader.join(5)
        return code, waited
