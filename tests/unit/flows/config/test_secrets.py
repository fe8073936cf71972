"""Keys and passwords in a configuration: refused before Prefect stores them, found where they are stored already."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.utilities.callables import parameter_schema
from prefect.utilities.schema_tools.validation import validate

from connectors.interfaces.errors import ConfigError
from connectors.security.secret_patterns import find_secrets
from flows.catalog import flows
from flows.config.files import load_config
from flows.methods.wasp.config import WaspConfig
from tests.support.runs.pipeline import Pipeline, values, written
from tests.support.runs.served_flow import call_api

SECRET = "q7planted0123456789"
KEY = f"sk-{SECRET}"
PLM = {"name": "clerk", "connector": "openai", "model": "m"}
ODBC = f"mssql+pyodbc:///?odbc_connect=DRIVER%3DX%3BPWD%3D{SECRET}"
PLACES: list[tuple[str, dict[str, Any]]] = [
    ("plms.0.key", {"plms": [PLM | {"key": KEY}]}),
    ("plms.0.key", {"plms": [PLM | {"key": SECRET}]}),
    ("plms.0.model", {"plms": [PLM | {"model": KEY}]}),
    ("plms.0.endpoint", {"plms": [PLM | {"endpoint": f"http://joe:{SECRET}@host/v1"}]}),
    ("plms.0.endpoint", {"plms": [PLM | {"endpoint": f"https://{SECRET}@host/v1"}]}),
    ("plms.0.endpoint", {"plms": [PLM | {"endpoint": f"https://host/v1?api_key={SECRET}"}]}),
    ("plms.0.options.key", {"plms": [PLM | {"options": {"key": SECRET}}]}),
    ("plms.0.options.API-Key", {"plms": [PLM | {"options": {"API-Key": SECRET}}]}),
    ("plms.0.options.endpoints.0.key", {"plms": [PLM | {"options": {"endpoints": [{"key": SECRET}]}}]}),
    ("plms.0.options.endpoints.0.url", {"plms": [PLM | {"options": {"endpoints": [{"url": f"http://u:{SECRET}@h"}]}}]}),
    ("plms.0.options.endpoints.0", {"plms": [PLM | {"options": {"endpoints": [f"http://u:{SECRET}@h"]}}]}),
    (
        "plms.0.options.extra.headers.authorization",
        {"plms": [PLM | {"options": {"extra": {"headers": {"authorization": f"Bearer {SECRET}"}}}}]},
    ),
    ("embedder.options.token", {"embedder": {"options": {"token": SECRET}}}),
    ("private.path", {"private": {"path": f"postgresql://joe:{SECRET}@db/ward", "query": "select 1"}}),
    ("private.path", {"private": {"path": ODBC, "query": "select 1"}}),
    ("test.path", {"test": {"path": f"https://bucket/rows.csv?X-Amz-Signature={SECRET}"}}),
    ("public.path", {"public": {"path": f"s3://joe:{SECRET}@bucket/rows.csv"}}),
    ("tracking.mlflow", {"tracking": {"mlflow": f"http://joe:{SECRET}@mlflow:5000"}}),
    ("data_root", {"data_root": f"s3://joe:{SECRET}@bucket"}),
    ("execution.cluster", {"execution": {"task_runner": "dask", "cluster": f"tls://joe:{SECRET}@host:8786"}}),
    ("student.model", {"student": {"model": f"https://joe:{SECRET}@hub/model"}}),
]  # fmt: skip
ALLOWED: list[dict[str, Any]] = [
    {"plms": [PLM | {"key": "env:OPENAI_API_KEY", "endpoint": "http://localhost:8000/v1"}]},
    {"plms": [PLM | {"options": {"key": "prefect:our-key", "max_tokens": 20, "endpoints": ["http://10.0.0.1:80/v1"]}}]},
    {"private": {"path": "postgresql://nurse@db:5432/ward?sslmode=require", "query": "select password from a"}},
    {"private": {"classes": {"password": ["P1"], "key": ["K1"]}}},
    {"test": {"path": "hf://datasets/somebody/rows@main/test.parquet"}},
    {"tracking": {"mlflow": "http://mlflow:5000", "experiment": "task-force risk-assessment-of-everything"}},
]  # fmt: skip


@pytest.mark.parametrize(("location", "changes"), PLACES)
def test_a_secret_is_refused_with_its_field_and_without_repeating_it(
    tmp_path: Path, location: str, changes: dict[str, Any]
) -> None:
    file = written(tmp_path / "run.yaml", values(**changes))
    with pytest.raises(ConfigError) as refused:
        load_config(WaspConfig, file)
    said = str(refused.value)
    assert said.startswith(f"{file}:\n  {location}: ")
    assert "store the configuration" in said
    assert SECRET not in said


def test_a_secret_given_on_the_command_line_is_refused_without_repeating_it(tmp_path: Path) -> None:
    file = written(tmp_path / "run.yaml", values())
    for change in (
        f"plms.0.key={KEY}",
        f"tracking.mlflow=[http://u:{SECRET}@h",
        f"{KEY}",
        f"method.samples={KEY}",
    ):
        with pytest.raises(ConfigError) as refused:
            load_config(WaspConfig, file, [change])
        assert SECRET not in str(refused.value)


@pytest.mark.parametrize("changes", ALLOWED)
def test_references_and_addresses_without_passwords_are_accepted(changes: dict[str, Any]) -> None:
    assert list(find_secrets(values(**changes))) == []
    WaspConfig.model_validate(values(**changes))


@pytest.mark.parametrize("entry", flows(), ids=lambda entry: entry.name)
def test_the_form_of_every_flow_refuses_the_same_secrets_as_the_command(entry: Any) -> None:
    schema = parameter_schema(entry.flow()).model_dump()

    def refused(config: dict[str, Any]) -> set[str]:
        errors = validate({"config": config}, schema)
        return {
            ".".join(map(str, error.absolute_path))
            for error in errors
            if error.validator == "pattern"
        }

    for location, changes in PLACES:
        assert f"config.{location}" in refused(values(**changes)), location
    nested = {
        "rows": [{"set": {"plms.0.key": SECRET}}],
        "columns": [{"set": {"a": [[f"http://u:{SECRET}@h"]]}}],
    }
    assert refused(nested) >= {"config.rows.0.set.plms.0.key", "config.columns.0.set.a.0.0"}
    for changes in ALLOWED:
        assert refused(values(**changes)) == set()


def stored(api: str, folder: Path) -> list[str]:
    """Return where the planted secret is stored: answers of the API, files of the server."""
    paths = ("flow_runs", "deployments", "task_runs", "logs")
    answers = {path: json.dumps(call_api(api, f"/{path}/filter", {"limit": 200})) for path in paths}
    files = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert any(name.startswith("prefect.db") for name in files)
    return [name for name, text in answers.items() if SECRET in text] + [
        name for name, content in files.items() if SECRET.encode() in content
    ]


@pytest.mark.runs
@pytest.mark.parametrize(
    "changes",
    [
        {"plms": [PLM | {"key": KEY}]},
        {"plms": [PLM | {"endpoint": f"http://joe:{SECRET}@host/v1"}]},
    ],
    ids=["key", "endpoint"],
)
def test_no_command_lets_prefect_store_a_secret(
    own_server: tuple[str, Path], tmp_path: Path, changes: dict[str, Any]
) -> None:
    api, folder = own_server
    pipeline = Pipeline(tmp_path / "home", api)
    config = str(pipeline.config(**changes))
    matrix = tmp_path / "matrix.yaml"
    (tmp_path / "clean.yaml").write_text(yaml.safe_dump(values()))
    plm = changes["plms"][0]
    row = {
        "name": "a",
        "config": "clean.yaml",
        "set": {f"plms.0.{name}": plm[name] for name in plm},
    }
    matrix.write_text(yaml.safe_dump({"title": "secrets", "rows": [row]}))
    commands = [(name, "wasp", "-c", config) for name in ("run", "plan")]
    commands += [
        ("preview", "-c", config),
        ("doctor", "-c", config),
        ("compare", "-c", str(matrix)),
    ]
    for command in commands:
        done = pipeline.call(*command, code=2)
        assert "store the configuration" in done.stderr, command
        assert SECRET not in done.stdout + done.stderr
    assert stored(api, folder) == []
    assert [
        path
        for path in pipeline.home.rglob("*")
        if path.is_file() and SECRET.encode() in path.read_bytes()
    ] == []
