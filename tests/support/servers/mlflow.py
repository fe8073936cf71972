"""Fixtures of MLflow: a store with its tables made, and a real server."""

import os
import shutil
import signal
import subprocess
import sys

import pytest

from tests.support.servers.ports import free_port
from tests.support.tracking import client_of
from tests.support.waits import responds, wait_until


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory):
    """A store with its tables made: making them takes longer than any test here."""
    path = tmp_path_factory.mktemp("store") / "empty.db"
    client_of(f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def store(empty_store, tmp_path):
    shutil.copy(empty_store, tmp_path / "mlflow.db")
    return f"sqlite:///{tmp_path / 'mlflow.db'}"


@pytest.fixture(scope="module")
def server(empty_store, tmp_path_factory):
    """A real `mlflow server` on a free port of this machine."""
    home, port = tmp_path_factory.mktemp("server"), free_port()
    shutil.copy(empty_store, home / "mlflow.db")
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += [
        "--backend-store-uri",
        f"sqlite:///{home / 'mlflow.db'}",
        "--artifacts-destination",
        str(home / "files"),
    ]
    quiet = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "1"}
    with (
        (home / "log").open("w") as log,
        subprocess.Popen(command, stdout=log, stderr=log, env=quiet, start_new_session=True) as process,
    ):
        uri = f"http://127.0.0.1:{port}"
        try:
            wait_until(lambda: responds(f"{uri}/health"), process, (home / "log").read_text)
            yield uri
        finally:
            os.killpg(process.pid, signal.SIGKILL)
