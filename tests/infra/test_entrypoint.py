"""entrypoint.sh: WASP_AUTH becomes what each program expects, or the container does not start."""

import json
import stat
import subprocess
from pathlib import Path

import pytest

from tests.support.infra_files import INFRA, beside_python, plain_environment

SHOW = """#!/usr/bin/env python3
import json, os, sys
print(json.dumps({"arguments": sys.argv[1:], "environment": dict(os.environ)}))
"""
AUTH = {"WASP_AUTH": "nurse:colon:in-password"}


@pytest.fixture
def start(tmp_path):
    """Return a way to start the entrypoint with programs that only show what they were given."""
    for name in ("prefect", "mlflow"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(SHOW)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)

    def call(*arguments, **variables):
        environment = plain_environment(**variables)
        environment["PATH"] = f"{tmp_path / 'bin'}:{environment['PATH']}"
        command = ["sh", str(INFRA / "entrypoint.sh"), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    return call


def shown(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_client_gets_the_access_data_of_both_servers(start):
    found = shown(start("prefect", "worker", "start", **AUTH))["environment"]
    assert found["PREFECT_API_AUTH_STRING"] == "nurse:colon:in-password"
    assert found["MLFLOW_TRACKING_USERNAME"] == "nurse"
    assert found["MLFLOW_TRACKING_PASSWORD"] == "colon:in-password"
    assert "PREFECT_SERVER_API_AUTH_STRING" not in found


def test_the_prefect_server_asks_for_the_password(start):
    found = shown(start("prefect", "server", "start", **AUTH))
    assert found["environment"]["PREFECT_SERVER_API_AUTH_STRING"] == "nurse:colon:in-password"
    assert found["arguments"] == ["server", "start"]


def test_the_mlflow_server_asks_for_the_password_of_this_start(start):
    first, second = (shown(start("mlflow", "server", "--port", "5000", **AUTH)) for _ in range(2))
    assert first["arguments"] == ["server", "--port", "5000", "--app-name", "basic-auth"]
    assert first["environment"]["MLFLOW_AUTH_ADMIN_USERNAME"] == "nurse"
    assert first["environment"]["MLFLOW_AUTH_ADMIN_PASSWORD"] == "colon:in-password"
    secrets = {found["environment"]["MLFLOW_FLASK_SERVER_SECRET_KEY"] for found in (first, second)}
    assert [len(secret) for secret in secrets] == [64, 64]
    places = {found["environment"]["MLFLOW_AUTH_CONFIG_PATH"] for found in (first, second)}
    assert len(places) == 2
    for place in places:
        assert f"database_uri = sqlite:///{place.removesuffix('.ini')}.db" in Path(place).read_text()


def test_without_the_variable_nobody_is_asked(start):
    for arguments in (("prefect", "server", "start"), ("mlflow", "server")):
        found = shown(start(*arguments, WASP_AUTH="", WASP_BIND="127.0.0.1"))
        assert found["arguments"] == list(arguments[1:])
        assert not [name for name in found["environment"] if name.endswith(("AUTH_STRING", "PASSWORD", "USERNAME"))]


def test_empty_variables_of_compose_count_as_unset(start):
    found = shown(start("prefect", "server", PREFECT_SERVER_ENCRYPTION_KEY="", MLFLOW_SERVER_CORS_ALLOWED_ORIGINS=""))
    assert not {"PREFECT_SERVER_ENCRYPTION_KEY", "MLFLOW_SERVER_CORS_ALLOWED_ORIGINS"} & set(found["environment"])


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"WASP_BIND": "0.0.0.0"}, "set WASP_AUTH=user:password as well"),
        ({"WASP_BIND": "192.0.2.7"}, "set WASP_AUTH=user:password as well"),
        ({"WASP_AUTH": "only-one-long-word"}, "write it as user:password"),
        ({"WASP_AUTH": ":password-alone-123"}, "write it as user:password"),
        ({"WASP_AUTH": "user:"}, "write it as user:password"),
        ({"WASP_AUTH": "user:elevenchars"}, "at least 12 characters"),
        ({"WASP_AUTH": "user:password1234"}, "choose another password"),
    ],
)
def test_an_open_door_or_a_bad_password_stops_the_container(start, variables, message):
    refused = start("prefect", "server", "start", **variables)
    assert refused.returncode == 64
    assert message in refused.stderr
    secret = variables.get("WASP_AUTH", "").partition(":")[2]
    assert not secret or secret not in refused.stderr
    assert refused.stdout == ""


def test_the_shell_scripts_pass_shellcheck():
    scripts = sorted(INFRA.rglob("*.sh"))
    assert len(scripts) == 4
    done = subprocess.run([beside_python("shellcheck"), *map(str, scripts)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
