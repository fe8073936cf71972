"""Compose file, image and entrypoint: valid, closed by default, without secrets, private data with the worker."""

import fnmatch
import json
import re
import stat
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.support.infra_files import (
    INFRA,
    SECRETS,
    MissingVariable,
    beside_python,
    compose,
    plain_environment,
)
from tests.support.paths import ROOT

FILES = [INFRA / "compose.yaml", INFRA / "compose.gpu.yaml"]


def services(**values: str) -> dict:
    return compose(SECRETS | values)["services"]


@pytest.mark.parametrize("name", sorted(set(SECRETS) - {"WASP_AUTH"}))
def test_no_service_starts_with_an_empty_password(name):
    values = {key: value for key, value in SECRETS.items() if key != name}
    with pytest.raises(MissingVariable, match=rf"{name}: run infra/new_env.sh first"):
        compose(values)


def test_what_is_published_is_bound_to_loopback_unless_a_person_says_otherwise():
    published = {name: entry["ports"] for name, entry in services().items() if "ports" in entry}
    assert published == {
        "prefect-server": ["127.0.0.1:4200:4200"],
        "mlflow": ["127.0.0.1:5000:5000"],
    }
    other = services(WASP_BIND="192.0.2.7", PREFECT_PORT="4300", MLFLOW_PORT="5300")
    assert other["prefect-server"]["ports"] == ["192.0.2.7:4300:4200"]
    assert other["mlflow"]["ports"] == ["192.0.2.7:5300:5000"]
    assert "192.0.2.7:*" in other["mlflow"]["environment"]["MLFLOW_SERVER_ALLOWED_HOSTS"].split(",")


def test_only_the_worker_sees_private_rows_and_cannot_change_them():
    mounts = {
        name: entry.get("volumes", []) for name, entry in services(WASP_DATA="/srv/rows").items()
    }
    private = {"type": "bind", "source": "/srv/rows", "target": "/data", "read_only": True}
    assert private in mounts.pop("worker")
    assert "rows" not in json.dumps(mounts)
    assert "state" not in json.dumps(mounts)


def test_keys_of_paid_models_and_the_ledger_reach_the_worker_alone():
    result = services()
    assert [name for name, entry in result.items() if "env_file" in entry] == ["worker"]
    assert [
        name for name, entry in result.items() if "WASP_LEDGER_URL" in entry["environment"]
    ] == ["worker"]
    assert [name for name, entry in result.items() if "pg3" in json.dumps(entry)] == [
        "postgres",
        "worker",
    ]


def test_the_database_is_reached_by_no_other_network():
    values = compose()
    assert values["networks"]["databases"] == {"internal": True}
    assert values["services"]["postgres"]["networks"] == ["databases"]
    assert "ports" not in values["services"]["postgres"]


def test_the_example_names_every_variable_of_the_compose_file():
    used = set(re.findall(r"\$\{(\w+)", "".join(file.read_text() for file in FILES)))
    named = set(
        re.findall(r"^#? ?([A-Z][A-Z_]+)=", (INFRA / ".env.example").read_text(), re.MULTILINE)
    )
    assert used == named


def test_a_fresh_env_file_has_every_secret_and_is_read_by_its_owner_alone(tmp_path):
    for name in ("new_env.sh", ".env.example"):
        (tmp_path / name).write_bytes((INFRA / name).read_bytes())
    subprocess.run(["sh", str(tmp_path / "new_env.sh")], check=True, capture_output=True)
    made = tmp_path / ".env"
    values = dict(
        line.split("=", 1) for line in made.read_text().splitlines() if re.match("[A-Z]", line)
    )
    assert made.stat().st_mode & 0o077 == 0
    assert all(len(values[name]) >= 44 for name in SECRETS)
    assert len({values[name] for name in SECRETS}) == len(SECRETS)
    again = subprocess.run(["sh", str(tmp_path / "new_env.sh")], capture_output=True, text=True)
    assert again.returncode == 1
    assert "exists" in again.stderr
    compose(values)


# --- the Dockerfile: pinned, small in what it copies, no root, no secret
DOCKERFILE = INFRA / "Dockerfile"
TEXT = DOCKERFILE.read_text()


def instructions() -> list[tuple[str, str]]:
    """Return the instructions with their lines joined."""
    joined = re.sub(r"\\\n\s*", "", re.sub(r"^\s*#.*\n", "", TEXT, flags=re.MULTILINE))
    return [
        (line.split(maxsplit=1)[0], line.split(maxsplit=1)[1])
        for line in joined.splitlines()
        if line.strip()
    ]


@pytest.mark.parametrize(
    ("linter", "files"), [("hadolint", [DOCKERFILE]), ("shellcheck", sorted(INFRA.rglob("*.sh")))]
)
def test_linters_find_nothing(linter, files):
    assert files
    done = subprocess.run([beside_python(linter), *map(str, files)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_extras_of_the_image_exist():
    [extras] = [
        rest.partition("=")[2]
        for word, rest in instructions()
        if word == "ARG" and rest.startswith("WASP_EXTRAS")
    ]
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert set(extras.split(",")) <= set(declared)


def test_nothing_secret_is_built_in():
    settings = " ".join(rest for word, rest in instructions() if word in ("ENV", "ARG"))
    assert not re.search(r"PASSWORD|SECRET|TOKEN|_KEY|AUTH", settings)


KEPT_OUT = (
    *(".wasp/private/key", "infra/.env", "infra/worker.env", "infra/private/rows.csv"),
    *("mlruns/1/x", ".git/config", "notes.csv"),
)
NEEDED = (
    *(
        "flows/methods/wasp/flow.py",
        "deployments/configs/demo.yaml",
        "infra/entrypoint.sh",
        "requirements.lock",
    ),
    "connectors/data/support_desk/private.parquet",
)


@pytest.mark.parametrize("location", [*KEPT_OUT, *NEEDED])
def test_what_the_image_needs_enters_it_and_state_data_and_secrets_never(location):
    assert enters(location) == (location in NEEDED)
    assert location not in NEEDED or (ROOT / location).exists()


def enters(location: str) -> bool:
    """Say whether Docker would send this file: the last rule that fits decides."""
    sent = True
    for line in (INFRA / "Dockerfile.dockerignore").read_text().splitlines():
        rule = line.strip()
        if not rule or rule.startswith("#"):
            continue
        keep, pattern = rule.startswith("!"), rule.lstrip("!")
        parts = location.split("/")
        heads = ["/".join(parts[: end + 1]) for end in range(len(parts))]
        fits = any(
            fnmatch.fnmatch(
                f"/{head}" if pattern.startswith("**/") else head, pattern.replace("**", "*")
            )
            for head in heads
        )
        sent = keep if fits else sent
    return sent


# --- entrypoint.sh: WASP_AUTH becomes what each program expects, or the container does not start
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


def test_prefects_client_gets_the_access_data_of_both_servers_and_its_server_requests_them(start):
    result = shown(start("prefect", "worker", "start", **AUTH))["environment"]
    assert result["PREFECT_API_AUTH_STRING"] == "nurse:colon:in-password"
    assert result["MLFLOW_TRACKING_USERNAME"] == "nurse"
    assert result["MLFLOW_TRACKING_PASSWORD"] == "colon:in-password"
    assert "PREFECT_SERVER_API_AUTH_STRING" not in result
    server = shown(start("prefect", "server", "start", **AUTH))
    assert server["environment"]["PREFECT_SERVER_API_AUTH_STRING"] == "nurse:colon:in-password"
    assert server["arguments"] == ["server", "start"]


def test_the_key_of_the_ledger_comes_from_a_secret_and_never_replaces_one(start, tmp_path):
    secret, key = tmp_path / "secret", tmp_path / "home" / "private" / "ledger.key"
    for content in (b"a" * 32, b"b" * 32):
        secret.write_bytes(content)
        shown(
            start(
                "prefect",
                "worker",
                "start",
                WASP_HOME=str(tmp_path / "home"),
                LEDGER_KEY_FILE=str(secret),
            )
        )
    assert (key.read_bytes(), key.stat().st_mode & 0o777) == (b"a" * 32, 0o600)
    assert key.parent.stat().st_mode & 0o777 == (tmp_path / "home").stat().st_mode & 0o777 == 0o700


def test_the_mlflow_server_requests_the_password_of_this_start(start):
    first, second = (shown(start("mlflow", "server", "--port", "5000", **AUTH)) for _ in range(2))
    assert first["arguments"] == ["server", "--port", "5000", "--app-name", "basic-auth"]
    assert first["environment"]["MLFLOW_AUTH_ADMIN_USERNAME"] == "nurse"
    assert first["environment"]["MLFLOW_AUTH_ADMIN_PASSWORD"] == "colon:in-password"
    secrets = {
        result["environment"]["MLFLOW_FLASK_SERVER_SECRET_KEY"] for result in (first, second)
    }
    assert [len(secret) for secret in secrets] == [64, 64]
    places = {result["environment"]["MLFLOW_AUTH_CONFIG_PATH"] for result in (first, second)}
    assert len(places) == 2
    for location in places:
        assert (
            f"database_uri = sqlite:///{location.removesuffix('.ini')}.db"
            in Path(location).read_text()
        )


def test_without_the_variable_nobody_is_prompted_and_empty_ones_count_as_unset(start):
    empty = {"PREFECT_SERVER_ENCRYPTION_KEY": "", "MLFLOW_SERVER_CORS_ALLOWED_ORIGINS": ""}
    for arguments in (("prefect", "server", "start"), ("mlflow", "server")):
        result = shown(start(*arguments, WASP_AUTH="", WASP_BIND="127.0.0.1", **empty))
        assert result["arguments"] == list(arguments[1:])
        assert not [
            name
            for name in result["environment"]
            if name.endswith(("AUTH_STRING", "PASSWORD", "USERNAME"))
        ]
        assert not empty.keys() & result["environment"].keys()


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
