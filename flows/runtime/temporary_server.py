"""Prefect's temporary server: a process that no key of a terminal reaches, and that ends with its parent.

Prefect starts its temporary server in the process group of the command. Ctrl-C then ends the server first, and the
command repeats its calls to it for minutes; after `kill -9` of the command the server stays. Here the server has a
session of its own, and a pipe from its parent: the system closes the pipe however the parent ends.

The child process runs this file alone. It imports nothing of the project.
"""

import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

SHUTDOWN_SECONDS = 1
"""Time for open connections when the server stops; all of them are of the ended parent."""
LATEST_END_SECONDS = 10.0
"""Time after which a server without a parent ends in any case."""
COLLECTED_AFTER = 10_000, 20, 50
"""Thresholds of the garbage collector for commands and this server. Imports create no garbage: scanning their objects
with the defaults (700, 10, 10) takes an eighth of a short run and a fifth of the server's start."""


class _Server:
    """The server of this process: True once it started, and its process until Prefect takes it."""

    is_started = False
    port = 0
    process: "subprocess.Popen[bytes] | None" = None


def start_ahead() -> None:
    """Start the server's process without importing Prefect, which the command imports meanwhile."""
    # A notebook or script that runs several flows has one server for all of them.
    if _Server.is_started:
        return
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as listener:
        # If another process takes the port in between, the server ends with code 3, and Prefect starts another one.
        listener.bind(("127.0.0.1", 0))
        _Server.port = listener.getsockname()[1]
    _Server.process = _start(_Server.port, {})


def start_with_parent(server: Any) -> "subprocess.Popen[bytes]":
    """Start the process of a `SubprocessASGIServer`; replaces its method `_run_uvicorn_command`."""
    from prefect.settings import get_current_settings

    ahead = _Server.process
    if ahead is not None:
        _Server.process = None
        server.port = _Server.port
        return ahead
    return _start(server.port, get_current_settings().to_environment_variables(exclude_unset=True))


def _start(port: int, settings: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    _Server.is_started = True
    own = {
        "PREFECT_UI_ENABLED": "0",
        "PREFECT__SERVER_EPHEMERAL": "1",
        "PREFECT__SERVER_FINAL": "1",
    }
    log = None if _shows_log() else subprocess.DEVNULL
    # -P: a folder `prefect` in the working folder must not hide the package.
    return subprocess.Popen(  # noqa: S603  (our own file)
        [sys.executable, "-P", str(Path(__file__)), str(port)],
        env={**os.environ, **own, **settings},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=log,
        # Ctrl-C of a terminal goes to the process group of the command.
        start_new_session=True,
    )


def _shows_log() -> bool:
    from flows.runtime.library_output import is_hidden

    return not is_hidden()


def _serve(port: int) -> None:
    gc.set_threshold(*COLLECTED_AFTER)
    import uvicorn

    threading.Thread(target=_end_with_parent, daemon=True).start()
    uvicorn.run(
        "prefect.server.api.server:create_app",
        factory=True,
        host="127.0.0.1",
        port=port,
        log_level="error",
        lifespan="on",
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )


def _end_with_parent() -> None:
    """Wait until the parent's end of the pipe is closed; nobody writes to it."""
    while os.read(0, 1):
        pass
    # The server closes its database on SIGTERM; an open connection may keep it from ending.
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(LATEST_END_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
