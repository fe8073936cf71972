"""A real Prefect server in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.servers.ports import free_port
from tests.support.waits import WAIT_SECONDS


@contextmanager
def prefect_server(
    folder: Path, database: str = "", connections: int = 25, settings: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Start a Prefect server with its database in `folder`, or at an address; the value is its API address."""
    port = free_port()
    environment = (
        os.environ
        | (settings or {})
        | {
            "PREFECT_HOME": str(folder),
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "PREFECT_LOGGING_LEVEL": "WARNING",
            "DO_NOT_TRACK": "1",
        }
    )
    if database:
        environment |= {
            "PREFECT_SERVER_DATABASE_CONNECTION_URL": database,
            "PREFECT_SERVER_DATABASE_TIMEOUT": "60",
            "PREFECT_SERVER_DATABASE_CONNECTION_TIMEOUT": "60",
            "PREFECT_SERVER_DATABASE_SQLALCHEMY_POOL_TIMEOUT": "120",
            "PREFECT_SERVER_DATABASE_SQLALCHEMY_POOL_SIZE": str(connections),
        }
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        _wait(f"http://127.0.0.1:{port}/api/health", server, folder / "server.log")
        yield f"http://127.0.0.1:{port}/api"
    finally:
        server.terminate()
        server.wait(timeout=30)


def _wait(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise RuntimeError(f"the server ended: {log.read_text()[-2000:]}")
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            time.sleep(0.3)
    raise RuntimeError(f"no answer from {url}")
