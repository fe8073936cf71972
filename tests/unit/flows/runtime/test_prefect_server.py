"""A Prefect server that does not respond is named before a flow starts."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from prefect.settings import PREFECT_API_URL, PREFECT_SERVER_DATABASE_CONNECTION_URL, temporary_settings

from connectors.artifacts.prepared_databases import keep_prepared
from connectors.interfaces.errors import ConfigError
from flows.runtime.prefect_server import PREPARED, require_response
from tests.support.servers.ports import free_port


def test_a_server_that_does_not_respond_is_named_with_what_to_do() -> None:
    address = f"http://joe:hunter2@127.0.0.1:{free_port()}/api"
    with temporary_settings({PREFECT_API_URL: address}), pytest.raises(ConfigError) as refused:
        require_response()
    assert "127.0.0.1" in str(refused.value)
    assert "unset PREFECT_API_URL" in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_new_state_folder_gets_a_migrated_database_and_an_old_one_keeps_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    migrated, database = tmp_path / "migrated.db", tmp_path / "home" / "prefect.db"
    with closing(sqlite3.connect(migrated)) as connection, connection:
        connection.execute("CREATE TABLE flow_run (id)")
    keep_prepared(PREPARED, migrated)
    address = f"sqlite+aiosqlite:///{database}"
    with temporary_settings({PREFECT_API_URL: None, PREFECT_SERVER_DATABASE_CONNECTION_URL: address}):
        for number in range(2):
            require_response()
            with closing(sqlite3.connect(database)) as connection, connection:
                connection.execute("INSERT INTO flow_run VALUES (?)", [number])
                assert len(connection.execute("SELECT * FROM flow_run").fetchall()) == number + 1
    assert [path.name for path in database.parent.iterdir()] == ["prefect.db"]
