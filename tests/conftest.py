"""Every test runs offline, in a clean environment, with a state folder of its own."""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import connectors  # noqa: F401  (it settles how threads wait, for this process and all that it starts)
from tests.support.paths import DATA, ROOT
from tests.support.runs.pipeline import Pipeline
from tests.support.servers.prefect import prefect_server

SLOW_SECONDS = 1800
"""Limit of a slow test that names no other: several waits of `tests.support.waits.WAIT_SECONDS`."""

for name in [name for name in os.environ if name.startswith(("WASP_", "MLFLOW_", "PREFECT_"))]:
    del os.environ[name]
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A script's background process ignores interrupts, and everything it starts with it: tests that interrupt would wait.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _only_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse every connection that leaves this machine."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: object) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            host = str(address[0])  # type: ignore[index]
            if host not in {"127.0.0.1", "::1", "localhost"}:
                raise AssertionError(f"a test reached for the network: {host}")
        connect(self, address)  # type: ignore[arg-type]

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture(scope="session")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start one Prefect server for all tests of a process that run the command."""
    with prefect_server(tmp_path_factory.mktemp("prefect")) as address:
        yield address


@pytest.fixture
def pipeline(api: str, tmp_path: Path) -> Pipeline:
    return Pipeline(tmp_path / "home", api)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what carries whole runs out; skip tests on real data where the folder is missing."""
    for item in items:
        if _carries_runs_out(item) and not item.get_closest_marker("core"):
            item.add_marker(pytest.mark.runs)
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_SECONDS))
        if not DATA.is_dir() and item.get_closest_marker("real_data"):
            item.add_marker(pytest.mark.skip(reason="the folder of real data is missing (WASP_DATA)"))


def _carries_runs_out(item: pytest.Item) -> bool:
    """Tell whether a test needs a Prefect server or starts commands that do."""
    return (
        item.path.is_relative_to(ROOT / "tests" / "e2e")
        or item.path.is_relative_to(ROOT / "tests" / "chaos")
        or ("api" in getattr(item, "fixturenames", ()))
    )
