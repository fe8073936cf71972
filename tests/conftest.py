"""Every test runs offline, in a clean environment, with a state folder of its own."""

import os
import signal
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import connectors  # noqa: F401  (it settles how threads wait, for this process and all that it starts)
from tests.support.paths import DATA
from tests.support.runs.pipeline import Pipeline
from tests.support.servers.prefect import prefect_server, shared_prefect_server, stop_shared_server
from tests.support.suites import mark_of

SERVER_FOLDER = "TESTS_PREFECT_FOLDER"
"""Environment variable: folder of the Prefect server that all test processes share."""
OF_MACHINES = "198.18."
"""Addresses of the network namespaces of tests.support.servers.machines; the range is for networks between devices."""
SLOW_SECONDS = 1800
"""Limit of a slow test that names no other: several waits of `tests.support.waits.WAIT_SECONDS`."""

for name in [name for name in os.environ if name.startswith(("WASP_", "MLFLOW_", "PREFECT_"))]:
    del os.environ[name]
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# A script's background process ignores interrupts, and everything it starts with it: tests that interrupt would wait.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _only_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse every connection that leaves this machine."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: object) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            host = str(address[0])
            is_here = host in {"127.0.0.1", "::1", "localhost"} or host.startswith(OF_MACHINES)
            if not is_here:
                raise AssertionError(f"a test reached for the network: {host}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


def pytest_configure(config: pytest.Config) -> None:
    """Give all processes of this session one folder for their Prefect server."""
    if not hasattr(config, "workerinput"):
        os.environ[SERVER_FOLDER] = tempfile.mkdtemp(prefix="tests-prefect-")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the server when the last process is done."""
    if not hasattr(config, "workerinput"):
        stop_shared_server(Path(os.environ.pop(SERVER_FOLDER)))


@pytest.fixture(scope="session")
def api() -> str:
    """Return the address of the Prefect server that the tests of all processes share."""
    return shared_prefect_server(Path(os.environ[SERVER_FOLDER]))


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Return the address of a Prefect server of the module's own, and its folder."""
    folder = tmp_path_factory.mktemp("own-prefect")
    with prefect_server(folder) as address:
        yield address, folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new state folder that the variable WASP_HOME names."""
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("WASP_HOME", str(folder))
    return folder


@pytest.fixture
def pipeline(api: str, tmp_path: Path) -> Pipeline:
    return Pipeline(tmp_path / "home", api)


@pytest.fixture(scope="session")
def whole_run(
    api: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Pipeline, dict[str, Any]]:
    """One run of WASP and its summary, for all tests that only look at it; others change a copy."""
    pipeline = Pipeline(tmp_path_factory.mktemp("whole") / "home", api)
    return pipeline, pipeline.run()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the suite of each test, whole runs first; skip tests on real data where the folder is missing."""
    for item in items:
        names = {mark.name for mark in item.iter_markers()}
        if "api" in getattr(item, "fixturenames", ()) and "core" not in names:
            names.add("runs")
            item.add_marker(pytest.mark.runs)
        suite = mark_of(item.path, item.nodeid, names)
        if suite:
            item.add_marker(suite)
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_SECONDS))
        if not DATA.is_dir() and item.get_closest_marker("real_data"):
            item.add_marker(
                pytest.mark.skip(reason="the folder of real data is missing (WASP_DATA)")
            )
    items.sort(
        key=lambda item: (
            not {"core", "runs", "browser"} & {mark.name for mark in item.iter_markers()}
        )
    )
