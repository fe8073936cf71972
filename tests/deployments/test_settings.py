"""Settings of the stack, and those that are refused before anything starts."""

import json
import re
import socket
import subprocess

import pytest

from connectors.interfaces.errors import ConfigError
from deployments.stack import postgres
from deployments.stack.programs import (
    OWN_DATABASES,
    Settings,
    programs,
    settings_of,
    stack_environment,
    stack_secrets,
    stored_settings,
)
from deployments.stack.supervisor import stack_processes
from tests.support.servers.stack import RunningStack, clean_environment

AUTH = "keeper:a long enough password"


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch) -> None:
    for name in ("WASP_AUTH", "PREFECT_PORT", "MLFLOW_PORT", *OWN_DATABASES):
        monkeypatch.delenv(name, raising=False)
    # Not what this machine has installed.
    monkeypatch.setenv("WASP_DATABASE", "sqlite")


def settings(tmp_path, monkeypatch, **environment: str) -> Settings:
    for name, value in {"WASP_DATA": str(tmp_path), **environment}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "home" / "stack").mkdir(parents=True, exist_ok=True)
    return settings_of(tmp_path / "home")


def test_the_defaults_are_the_usual_ports_on_loopback(tmp_path, monkeypatch) -> None:
    result = settings(tmp_path, monkeypatch, PREFECT_PORT="")
    assert (result.prefect, result.mlflow) == ("http://127.0.0.1:4200", "http://127.0.0.1:5000")
    assert result.auth == ""


def test_a_stack_that_an_earlier_version_started_is_known(tmp_path) -> None:
    old = {
        "home": "/h",
        "data": "/d",
        "database": "postgresql",
        "bind": "127.0.0.1",
        "prefect_port": 4300,
        "auth": AUTH,
    }
    (tmp_path / "settings.json").write_text(json.dumps(old))
    assert stored_settings(tmp_path) == Settings(
        home="/h", WASP_DATA="/d", PREFECT_PORT=4300, WASP_AUTH=AUTH
    )
    assert "long enough" not in repr(stored_settings(tmp_path))


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"WASP_AUTH": "keeper"}, "user:password"),
        ({"WASP_AUTH": ":secret-secret-secret"}, "user:password"),
        ({"WASP_AUTH": "keeper:short"}, "at least 12 characters"),
        ({"WASP_AUTH": "keeper:password1234"}, "Choose another password"),
        ({"PREFECT_PORT": "http"}, "PREFECT_PORT: .*integer.*'http'"),
        ({"MLFLOW_PORT": "70000"}, "MLFLOW_PORT: .*65535.*70000"),
        ({"MLFLOW_PORT": "4200"}, "must be different ports"),
        ({"WASP_DATABASE": "mysql"}, "WASP_DATABASE: .*postgresql.*'mysql'"),
    ],
)
def test_a_wrong_setting_is_one_clear_error(tmp_path, monkeypatch, environment, words) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        settings(tmp_path, monkeypatch, **environment)
    assert "secret-secret" not in str(refused.value)


def test_no_password_is_on_a_command_line(tmp_path, monkeypatch) -> None:
    result = settings(tmp_path, monkeypatch, WASP_AUTH=AUTH)
    hidden = stack_environment(result)
    assert hidden["PREFECT_SERVER_API_AUTH_STRING"] == AUTH
    commands = " ".join(part for command in programs(result).values() for part in command)
    assert not [
        secret
        for secret in (result.account[1], *stack_secrets(result.folder).values())
        if secret in commands
    ]
    assert (result.folder / "kept.json").stat().st_mode & 0o077 == 0


def test_variables_of_the_shell_do_not_lead_the_stack_elsewhere(tmp_path, monkeypatch) -> None:
    for name in (
        "PREFECT_API_URL",
        "PREFECT_API_AUTH_STRING",
        "PREFECT_PROFILE",
        "MLFLOW_TRACKING_URI",
    ):
        monkeypatch.setenv(name, "https://elsewhere.example/api")
    monkeypatch.setenv("MLFLOW_BACKEND_STORE_URI", "postgresql://mlflow@db/mlflow")
    environment = stack_environment(settings(tmp_path, monkeypatch))
    assert "elsewhere.example" not in json.dumps(environment)
    assert environment["MLFLOW_BACKEND_STORE_URI"] == "postgresql://mlflow@db/mlflow", (
        "a database of one's own"
    )
    assert environment["PREFECT_SERVER_DATABASE_CONNECTION_URL"].endswith("home/prefect/prefect.db")
    assert (
        environment["DO_NOT_TRACK"]
        == environment["MLFLOW_DISABLE_TELEMETRY"].replace("true", "1")
        == "1"
    )
    assert environment["PREFECT_SERVER_ANALYTICS_ENABLED"] == "false"


@pytest.mark.parametrize(
    ("requested", "installed", "earlier", "kind", "said"),
    [
        ("", True, "", "postgresql", "PostgreSQL, in .*postgres"),
        ("", False, "", "sqlite", "SQLite, for one run at once, because nothing is installed"),
        ("", True, "kept.json", "sqlite", "for one run at once, as before"),
        ("", True, "postgres/PG_VERSION", "postgresql", "PostgreSQL, in "),
        ("sqlite", True, "postgres/PG_VERSION", "sqlite", "as WASP_DATABASE says"),
        ("postgresql", True, "kept.json", "postgresql", "PostgreSQL, in "),
    ],
)
def test_postgresql_is_used_where_it_is_installed_and_a_stack_keeps_its_database(
    tmp_path, monkeypatch, requested, installed, earlier, kind, said
) -> None:
    missing = "" if installed else "nothing is installed"
    monkeypatch.setattr(postgres, "explain_missing", lambda folder: missing)
    monkeypatch.setattr(postgres, "cluster_path", lambda folder: folder / "postgres")
    folder = tmp_path / "home" / "stack"
    if earlier:
        (folder / earlier).parent.mkdir(parents=True)
        (folder / earlier).write_text(json.dumps({"encryption_key": "k", "mlflow_secret": "s"}))
    result = settings(tmp_path, monkeypatch, WASP_DATABASE=requested)
    assert result.database_kind == kind
    assert re.search(said, result.database_reason)
    addresses = [stack_environment(result)[name] for name in OWN_DATABASES]
    assert all(address.startswith(kind) for address in addresses)
    assert (postgres.NAME in programs(result)) == (kind == "postgresql")


def test_databases_of_ones_own_replace_those_of_the_stack(tmp_path, monkeypatch) -> None:
    own = {name: f"postgresql://me@db/{name.lower()}" for name in OWN_DATABASES}
    result = settings(tmp_path, monkeypatch, WASP_DATABASE="", **own)
    environment = stack_environment(result)
    assert {name: environment[name] for name in OWN_DATABASES} == own
    assert postgres.NAME not in programs(result)
    assert "those of PREFECT_SERVER_DATABASE_CONNECTION_URL" in result.database_reason


@pytest.mark.parametrize("requested", ["", "postgresql"])
def test_a_cluster_whose_server_is_gone_is_an_error_and_no_empty_database(
    tmp_path, monkeypatch, requested
) -> None:
    monkeypatch.setattr(postgres, "explain_missing", lambda folder: "nothing is installed")
    monkeypatch.setattr(postgres, "cluster_path", lambda folder: folder / "postgres")
    (tmp_path / "home" / "stack" / "postgres").mkdir(parents=True)
    (tmp_path / "home" / "stack" / "postgres" / "PG_VERSION").write_text("15")
    with pytest.raises(ConfigError, match="nothing is installed.*WASP_DATABASE=sqlite"):
        settings(tmp_path, monkeypatch, WASP_DATABASE=requested)


@pytest.fixture
def stopped(tmp_path) -> RunningStack:
    """A stack that was not started."""
    home = tmp_path / "home"
    return RunningStack(home, "", "", clean_environment(home))


def refuse(stopped: RunningStack, **changes: str) -> str:
    done: subprocess.CompletedProcess[str] = stopped.word("up", **changes)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert stack_processes(stopped.home / "stack") == []
    return done.stderr


def test_a_taken_port_is_refused_before_anything_starts(stopped) -> None:
    port = stopped.environment["MLFLOW_PORT"]
    with socket.socket() as other:
        other.bind(("127.0.0.1", int(port)))
        other.listen()
        words = refuse(stopped)
    assert words.startswith(f"wasp stack: Port {port} for mlflow is not available")
    assert "make up MLFLOW_PORT=" in words


def test_down_where_nothing_runs_is_no_error(stopped) -> None:
    assert stopped.word("down").stdout == "nothing was running\n"
    assert "run make up" in stopped.word("status").stdout
