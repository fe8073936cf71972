"""The temporary Prefect server of a command: keys of the terminal do not reach it, and it ends with its parent."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.paths import ROOT
from tests.support.servers.prepared_databases import prepare_home
from tests.support.waits import wait_until

PARENT = """
import sys, time
from flows.runtime.state_folder import prepare_environment
prepare_environment()
from flows.runtime.temporary_server import start_ahead
for _ in range(int(sys.argv[1])):
    start_ahead()
from flows.runtime.prefect_server import require_server
require_server()
try:
    # Inside, for a signal may come as soon as the line is read.
    print("started", flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    time.sleep(600)
"""


@pytest.fixture(params=[0, 2], ids=["started by Prefect", "started ahead, once"])
def parent(tmp_path: Path, request: pytest.FixtureRequest) -> "Iterator[subprocess.Popen[str]]":
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    prepare_home(home)
    stored = {
        name: value for name, value in os.environ.items() if not name.startswith("PREFECT_API")
    }
    environment = stored | {"WASP_HOME": str(home), "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(request.param)],
        env=environment,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        for line in process.stdout:
            if line == "started\n":
                break
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def server_of(process: "subprocess.Popen[str]") -> psutil.Process:
    (server,) = psutil.Process(process.pid).children()
    assert "temporary_server" in " ".join(server.cmdline())
    return server


def test_the_server_ends_after_kill_9_of_its_parent(parent: "subprocess.Popen[str]") -> None:
    server = server_of(parent)
    parent.kill()
    parent.wait()
    wait_until(
        lambda: not server.is_running() or server.status() == psutil.STATUS_ZOMBIE, seconds=30
    )


def test_a_signal_to_the_group_of_the_command_does_not_reach_the_server(
    parent: "subprocess.Popen[str]",
) -> None:
    server = server_of(parent)
    os.killpg(parent.pid, signal.SIGINT)
    assert parent.stdout.readline() == "interrupted\n"
    assert server.is_running()
    assert os.getpgid(server.pid) != os.getpgid(parent.pid)
