"""The cluster of `make up` with real programs of PostgreSQL: created once, closed to others, whole after kill -9."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from connectors.interfaces.errors import LedgerError, WaspError
from connectors.ledger import database
from connectors.ledger.database import LedgerStore
from deployments.stack import postgres
from tests.support.servers.postgres import MISSING, PROGRAMS
from tests.support.waits import wait_until

pytestmark = pytest.mark.skipif(not PROGRAMS, reason=MISSING)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Return the folder of a stack; the cluster of root is elsewhere, and is removed as well."""
    location = tmp_path / "stack, of a person"
    location.mkdir(mode=0o700)
    yield location
    shutil.rmtree(postgres.cluster_path(location), ignore_errors=True)


@contextmanager
def running(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start the server as supervisord does."""
    account = postgres.account_name() or None
    server = subprocess.Popen(
        postgres.command(folder), user=account, cwd="/", stderr=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: postgres.is_ready(folder), server)
        yield server
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(30)


def execute(folder: Path, statement: str) -> list[tuple[object, ...]]:
    address = postgres.url("psycopg2", "prefect", folder)
    engine = create_engine(address, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        result = connection.execute(text(statement))
        return [tuple(row) for row in result] if result.returns_rows else []


def test_a_cluster_survives_a_kill_and_listens_on_its_socket_only(folder: Path) -> None:
    assert postgres.explain_missing(folder) == ""
    # Left by a `make up` that was killed.
    cluster = postgres.cluster_path(folder)
    cluster.with_name(f"{cluster.name}.new").mkdir()
    postgres.create_cluster(folder)
    assert postgres.has_cluster(folder)
    assert cluster.stat().st_mode & 0o077 == 0
    assert not cluster.with_name(f"{cluster.name}.new").exists()
    with running(folder) as server:
        postgres.create_databases(folder)
        postgres.create_databases(folder)
        execute(folder, "CREATE EXTENSION pg_trgm")
        execute(folder, "CREATE TABLE runs (name text)")
        execute(folder, "INSERT INTO runs VALUES ('nightly')")
        assert execute(folder, "SHOW listen_addresses") == [("",)]
        os.kill(server.pid, signal.SIGKILL)
        server.wait(30)
    # A second start of the stack creates nothing.
    postgres.create_cluster(folder)
    with running(folder):
        assert execute(folder, "SELECT name FROM runs") == [("nightly",)]


def test_a_failed_creation_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "find_program", lambda name, folder: Path("/bin/false"))
    with pytest.raises(WaspError, match="initdb could not create it.*\n.*WASP_DATABASE=sqlite"):
        postgres.create_cluster(folder)
    assert not postgres.has_cluster(folder)


def test_what_is_missing_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = folder / ("deep" * 30)
    if not postgres.account_name():
        assert "too long for its socket" in postgres.explain_missing(deep)
    monkeypatch.setattr(postgres, "_has_extension", lambda initdb: False)
    assert "pg_trgm" in postgres.explain_missing(folder)
    monkeypatch.setattr(postgres, "find_program", lambda name, folder: None)
    assert "not installed (apt-get install" in postgres.explain_missing(folder)


# --- a privacy ledger on a server that restarts
def read(store: LedgerStore) -> None:
    with store.read() as connection:
        connection.execute(text("SELECT 1"))


def test_a_ledger_waits_for_a_server_that_it_has_reached(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    postgres.create_cluster(folder)
    store = LedgerStore(postgres.url("psycopg2", "prefect", folder))
    begin = time.monotonic()
    with pytest.raises(LedgerError, match="is not available"):
        read(store)
    assert time.monotonic() - begin < 10, "a server that was never reached"
    with running(folder):
        postgres.create_databases(folder)
        read(store)
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(read, store)
        # Longer than the wait after which another process is said to have locked the ledger.
        time.sleep(4)
        assert not waiting.done()
        with running(folder):
            waiting.result(30)
    assert caplog.text.count("does not answer. Waiting at most 60 seconds") == 1
    assert "has locked" not in caplog.text
    monkeypatch.setattr(database, "AWAY_SECONDS", 1)
    with pytest.raises(LedgerError, match="Nothing was spent"):
        read(store)
