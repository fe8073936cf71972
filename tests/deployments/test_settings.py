"""What may be set about the stack, and what is refused before anything starts."""

import socket
from dataclasses import asdict

import pytest

from connectors.interfaces.errors import ConfigError
from deployments.stack import services
from deployments.stack.postgres import postgres_service
from deployments.stack.settings import Settings, settings_of, stack_secrets
from deployments.stack.supervisor import stack_processes
from flows.engine.server import FILE
from tests.support.servers.stack import RunningStack, clean_environment

AUTH = "keeper:a long enough password"


def settings(tmp_path, environment, running=None) -> Settings:
    return settings_of({"WASP_DATA": str(tmp_path), **environment}, running or {}, tmp_path / "home", "sqlite")


def test_the_defaults_are_the_usual_ports_on_loopback(tmp_path) -> None:
    found = settings(tmp_path, {})
    assert (found.bind, found.prefect_port, found.mlflow_port) == ("127.0.0.1", 4200, 5000)
    assert found.auth == ""


def test_what_is_not_asked_for_stays_as_it_runs(tmp_path) -> None:
    running = asdict(settings(tmp_path, {"PREFECT_PORT": "4300", "WASP_AUTH": AUTH}))
    again = settings(tmp_path, {}, running)
    assert asdict(again) == running
    with pytest.raises(
        ConfigError, match=r"other settings \(prefect_port: 4300, not 4999; auth\). Run make down first"
    ):
        settings(tmp_path, {"WASP_AUTH": "", "PREFECT_PORT": "4999"}, running)


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"WASP_BIND": "0.0.0.0"}, "without a password. Set WASP_AUTH"),
        ({"WASP_BIND": "::"}, "without a password"),
        ({"WASP_BIND": "stack.example.org"}, "without a password"),
        ({"WASP_AUTH": "keeper"}, "user:password"),
        ({"WASP_AUTH": ":secret-secret-secret"}, "user:password"),
        ({"WASP_AUTH": "keeper:short"}, "at least 12 characters"),
        ({"WASP_AUTH": "keeper:password1234"}, "Choose another password"),
        ({"PREFECT_PORT": "http"}, "PREFECT_PORT=http: not a port"),
        ({"MLFLOW_PORT": "70000"}, "MLFLOW_PORT=70000"),
        ({"MLFLOW_PORT": "4200"}, "must be different ports"),
    ],
)
def test_a_wrong_setting_is_one_clear_error(tmp_path, environment, words) -> None:
    with pytest.raises(ConfigError, match=words):
        settings(tmp_path, environment)


def test_an_open_address_is_allowed_with_a_password(tmp_path) -> None:
    found = settings(tmp_path, {"WASP_BIND": "0.0.0.0", "WASP_AUTH": AUTH})
    assert found.bind == "0.0.0.0"
    assert found.url("prefect") == "http://127.0.0.1:4200"
    shown = settings(tmp_path, {"WASP_BIND": "0.0.0.0", "WASP_AUTH": AUTH, "WASP_PUBLIC_HOST": "stack.example.org"})
    assert shown.url("prefect", shown=True) == "http://stack.example.org:4200"
    mlflow = services.mlflow_service(shown, stack_secrets(shown.folder)).environment
    assert "stack.example.org:*" in mlflow["MLFLOW_SERVER_ALLOWED_HOSTS"]


def test_a_stack_with_a_password_accepts_registered_datasets_only(tmp_path) -> None:
    alone, others = (
        Settings(str(tmp_path), str(tmp_path), "sqlite"),
        Settings(str(tmp_path), str(tmp_path), "sqlite", auth=AUTH),
    )
    services.worker_service(alone, "")
    assert not (tmp_path / FILE).exists()
    services.worker_service(others, "")
    assert (tmp_path / FILE).exists()


def test_no_password_stands_on_a_command_line_or_in_a_shown_service(tmp_path) -> None:
    found = Settings(str(tmp_path), str(tmp_path), "postgresql", auth=AUTH)
    kept = stack_secrets(found.folder)
    all_services = [
        postgres_service(found),
        services.prefect_service(found, kept),
        services.mlflow_service(found, kept),
        services.worker_service(found, f"postgresql+psycopg2://ledger:{kept['ledger']}@127.0.0.1:5439/ledger"),
    ]
    for service in all_services:
        for secret in (found.account[1], *kept.values()):
            assert secret not in " ".join(service.command)
            assert secret not in repr(service)
    assert (found.folder / "kept.json").stat().st_mode & 0o077 == 0


def test_variables_of_the_shell_do_not_lead_the_stack_elsewhere(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "https://elsewhere.example/api")
    monkeypatch.setenv("PREFECT_PROFILE", "cloud")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://elsewhere.example")
    found = Settings(str(tmp_path), str(tmp_path), "sqlite")
    base = services.base_environment(found)
    for service in (services.mlflow_service(found, stack_secrets(found.folder)), services.worker_service(found, "")):
        environment = base | dict(service.environment)
        assert "elsewhere.example" not in str(environment)
        assert "PREFECT_PROFILE" not in environment
        assert environment["DO_NOT_TRACK"] == environment["MLFLOW_DISABLE_TELEMETRY"].replace("true", "1") == "1"
        assert environment["PREFECT_SERVER_ANALYTICS_ENABLED"] == "false"


def test_a_taken_port_is_refused_before_anything_starts(tmp_path) -> None:
    home = tmp_path / "home"
    running = RunningStack(home, "", "", clean_environment(home, WASP_DATABASE="sqlite"))
    with socket.socket() as other:
        other.bind(("127.0.0.1", int(running.environment["MLFLOW_PORT"])))
        other.listen()
        done = running.word("up")
    assert done.returncode == 2
    port = running.environment["MLFLOW_PORT"]
    assert done.stderr.startswith(f"wasp stack: Port {port} for mlflow is not available on 127.0.0.1")
    assert "make up MLFLOW_PORT=" in done.stderr
    assert done.stderr.count("\n") == 1
    assert stack_processes(home / "stack") == []


def test_down_where_nothing_runs_is_no_error(tmp_path) -> None:
    home = tmp_path / "home"
    running = RunningStack(home, "", "", clean_environment(home))
    assert running.word("down").stdout == "nothing was running\n"
    assert "run make up" in running.word("status").stdout
