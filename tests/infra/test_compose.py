"""compose.yaml: valid for Docker, closed by default, private data with the worker alone."""

import json
import re
import subprocess

import pytest

from tests.support.infra_files import INFRA, SECRETS, MissingVariable, beside_python, compose

FILES = [INFRA / "compose.yaml", INFRA / "compose.gpu.yaml"]


def services(**values: str) -> dict:
    return compose(SECRETS | values)["services"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_files_follow_the_compose_specification(file):
    command = [beside_python("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", sorted(set(SECRETS) - {"WASP_AUTH"}))
def test_no_service_starts_with_an_empty_password(name):
    values = {key: value for key, value in SECRETS.items() if key != name}
    with pytest.raises(MissingVariable, match=rf"{name}: run infra/new_env.sh first"):
        compose(values)


def test_what_is_published_is_bound_to_loopback_unless_a_person_says_otherwise():
    published = {name: one["ports"] for name, one in services().items() if "ports" in one}
    assert published == {"prefect-server": ["127.0.0.1:4200:4200"], "mlflow": ["127.0.0.1:5000:5000"]}
    other = services(WASP_BIND="192.0.2.7", PREFECT_PORT="4300", MLFLOW_PORT="5300")
    assert other["prefect-server"]["ports"] == ["192.0.2.7:4300:4200"]
    assert other["mlflow"]["ports"] == ["192.0.2.7:5300:5000"]
    assert "192.0.2.7:*" in other["mlflow"]["environment"]["MLFLOW_SERVER_ALLOWED_HOSTS"].split(",")


def test_only_the_worker_sees_private_rows_and_cannot_change_them():
    mounts = {name: one.get("volumes", []) for name, one in services(WASP_DATA="/srv/rows").items()}
    private = {"type": "bind", "source": "/srv/rows", "target": "/data", "read_only": True}
    assert private in mounts.pop("worker")
    assert "rows" not in json.dumps(mounts)
    assert "state" not in json.dumps(mounts)


def test_keys_of_paid_models_and_the_ledger_reach_the_worker_alone():
    found = services()
    assert [name for name, one in found.items() if "env_file" in one] == ["worker"]
    assert [name for name, one in found.items() if "WASP_LEDGER_URL" in one["environment"]] == ["worker"]
    assert [name for name, one in found.items() if "pg3" in json.dumps(one)] == ["postgres", "worker"]


def test_the_database_is_reached_by_no_other_network():
    values = compose()
    assert values["networks"]["databases"] == {"internal": True}
    assert values["services"]["postgres"]["networks"] == ["databases"]
    assert "ports" not in values["services"]["postgres"]


def test_the_example_names_every_variable_of_the_compose_file():
    used = set(re.findall(r"\$\{(\w+)", "".join(file.read_text() for file in FILES)))
    named = set(re.findall(r"^#? ?([A-Z][A-Z_]+)=", (INFRA / ".env.example").read_text(), re.MULTILINE))
    assert used == named


def test_a_fresh_env_file_has_every_secret_and_is_read_by_its_owner_alone(tmp_path):
    for name in ("new_env.sh", ".env.example"):
        (tmp_path / name).write_bytes((INFRA / name).read_bytes())
    subprocess.run(["sh", str(tmp_path / "new_env.sh")], check=True, capture_output=True)
    made = tmp_path / ".env"
    values = dict(line.split("=", 1) for line in made.read_text().splitlines() if re.match("[A-Z]", line))
    assert made.stat().st_mode & 0o077 == 0
    assert all(len(values[name]) >= 44 for name in SECRETS)
    assert len({values[name] for name in SECRETS}) == len(SECRETS)
    again = subprocess.run(["sh", str(tmp_path / "new_env.sh")], capture_output=True, text=True)
    assert again.returncode == 1
    assert "exists" in again.stderr
    compose(values)
