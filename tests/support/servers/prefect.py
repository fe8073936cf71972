"""A real Prefect server in a process of its own."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from tests.support.servers.ports import free_port
from tests.support.servers.prepared_databases import PREFECT, copy_prepared, keep_prepared
from tests.support.waits import responds, wait_until


@contextmanager
def prefect_server(folder: Path, host: str = "127.0.0.1") -> Iterator[str]:
    """Start a Prefect server with its database in `folder`; the value is its API address."""
    server, address = _start(folder, host)
    try:
        yield address
    finally:
        server.terminate()
        server.wait(timeout=30)


def shared_prefect_server(folder: Path) -> str:
    """Return the API address of the one server of all test processes; the first that needs it starts it."""
    running = folder / "server.json"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not running.exists():
            server, address = _start(folder)
            running.write_text(json.dumps({"pid": server.pid, "address": address}))
    return str(json.loads(running.read_text())["address"])


def stop_shared_server(folder: Path) -> None:
    """Stop the server of all test processes, if one was started, and remove its folder."""
    with suppress(FileNotFoundError, ProcessLookupError):
        pid = json.loads((folder / "server.json").read_text())["pid"]
        os.kill(pid, signal.SIGTERM)
        with suppress(ChildProcessError):  # another process started it
            os.waitpid(pid, 0)
    shutil.rmtree(folder, ignore_errors=True)


def _start(folder: Path, host: str = "127.0.0.1") -> tuple[subprocess.Popen[bytes], str]:
    port, database = free_port(), folder / "prefect.db"
    environment = os.environ | {
        "PREFECT_HOME": str(folder),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_LOGGING_LEVEL": "WARNING",
        "DO_NOT_TRACK": "1",
    }
    is_new = not database.exists() and not copy_prepared(PREFECT, database)
    command = [
        sys.executable,
        "-m",
        "prefect",
        "server",
        "start",
        "--host",
        host,
        "--port",
        str(port),
    ]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        health = f"http://{host}:{port}/api/health"
        wait_until(lambda: responds(health), server, (folder / "server.log").read_text, every=0.3)
        if is_new:
            keep_prepared(PREFECT, database)
    except BaseException:
        server.kill()
        raise
    return server, f"http://{host}:{port}/api"


def read_events(api: str, name: str, resource: str = "") -> list[dict[str, Any]]:
    """Return the latest events of one name that a server has, newest first; `resource`: id of their resource."""
    chosen: dict[str, Any] = {
        "occurred": {"since": (datetime.now(UTC) - timedelta(hours=2)).isoformat()},
        "event": {"name": [name]},
    }
    if resource:
        chosen["resource"] = {"id": [resource]}
    answer = httpx.post(f"{api}/events/filter", json={"filter": chosen, "limit": 50}, timeout=30)
    return list(answer.raise_for_status().json()["events"])
