"""Fixtures of MLflow: a store with its tables made, and a real server."""

import os
import shutil
import sys

import pytest

from tests.support.servers.ports import free_port
from tests.support.tracking import client_of
from tests.support.waits import serving


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
    command = [
        sys.executable,
        "-m",
        "mlflow",
        "server",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--workers",
        "1",
    ]
    command += ["--backend-store-uri", f"sqlite:///{home / 'mlflow.db'}"]
    command += ["--artifacts-destination", str(home / "files")]
    quiet = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "1"}
    uri = f"http://127.0.0.1:{port}"
    with serving(command, f"{uri}/health", home / "log", quiet):
        yield uri
