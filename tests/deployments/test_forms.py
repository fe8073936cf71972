"""Every form: what it draws is enough to run on data of one's own, before anything is spent."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from prefect.utilities.schema_tools import ValidationError, validate

from connectors.interfaces.errors import ConfigError
from deployments.registry import Deployment, deployments
from flows.catalog import METHODS, find_flow
from flows.cli import dataset
from flows.config.files import check_config
from flows.engine.prepare import prepare
from flows.engine.server import STARTED

FORMS = [item for item in deployments() if item.flow.name in METHODS]
CLASSES = {"early": "the train was early", "late": "the train was late"}
ROWS = 400


def drawn_fields(schema: dict[str, Any], group: dict[str, Any], path: str = "") -> Iterator[str]:
    """Yield the fields that the form draws: `properties`, through all groups."""
    for name, field in group.get("properties", {}).items():
        if "$ref" in field:
            inner = schema["definitions"][field["$ref"].rsplit("/", 1)[-1]]
            yield from drawn_fields(schema, inner, f"{path}{name}.")
        else:
            yield path + name


@pytest.fixture
def own(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Values for every field that a form draws: a registered dataset, task, test rows and model of one's own.

    The checks are those of a run that a server starts.
    """
    rows = [
        {"note": f"{sentence}, said passenger {number}", "topic": name}
        for number in range(ROWS // len(CLASSES))
        for name, sentence in CLASSES.items()
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "notes.csv", index=False)
    held_out = [{"body": row["note"] + " again", "kind": row["topic"]} for row in rows[:80]]
    pd.DataFrame(held_out).to_csv(tmp_path / "held_out.csv", index=False)
    labels = [{"name": name, "description": sentence} for name, sentence in CLASSES.items()]
    task = {"name": "trains", "item": "note of a passenger", "labels": labels}
    (tmp_path / "trains.yaml").write_text(yaml.safe_dump(task))
    dataset.add(
        "trains",
        path=str(tmp_path / "notes.csv"),
        text="note",
        label="topic",
        class_=list(CLASSES),
        declared_rows=ROWS,
    )
    monkeypatch.setenv(STARTED, "a run")
    return {
        "private.dataset": "trains",
        "privacy.epsilon": 3,
        "method.samples": 240,
        "method.declared_rows": ROWS,
        "method.training.declared_rows": ROWS,
        "execution.seed": 1,
        "plms_used": ["ngram:helpdesk"],
        "task": str(tmp_path / "trains.yaml"),
        "test.path": str(tmp_path / "held_out.csv"),
        "test.text": "body",
        "test.label": "kind",
        "public.path": str(tmp_path / "held_out.csv"),
        "public.text": "body",
        "public.label": "kind",
    }


FIXED = {
    "fusegen": {"privacy.on_lost_artifacts"},
    "only_private": {
        "privacy.on_lost_artifacts",
        "privacy.epsilon",
        "method.training",
        "method.passes",
    },
    "dp_sgd_student": {
        f"method.training.{name}" for name in ("batch_rows", "steps", "learning_rate", "clipping")
    },
}
"""Drawn fields whose value of the deployment fits any data."""
MODELS = {"dp_sgd_gen": ["hf:embedded"]}
"""The model of a method that trains it."""


def filled(config: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a form after a person has filled fields."""
    result: dict[str, Any] = {
        name: dict(value) if isinstance(value, dict) else value for name, value in config.items()
    }
    for path, value in values.items():
        *groups, last = path.split(".")
        inner = result
        for name in groups:
            inner[name] = dict(inner.get(name, {}))
            inner = inner[name]
        inner[last] = value
    return result


@pytest.mark.parametrize("item", FORMS, ids=lambda item: item.entry["name"])
def test_a_form_whose_drawn_fields_alone_are_filled_passes_all_checks(
    item: Deployment, own: dict[str, Any], home: Path
) -> None:
    schema = item.schema
    drawn = set(drawn_fields(schema, schema)) - {"changes"}
    fields = {name.removeprefix("config.") for name in drawn}
    values = {**own, "plms_used": MODELS.get(item.flow.name, own["plms_used"])}
    fields -= FIXED.get(item.flow.name, set())
    assert fields <= set(values), "a form draws a field for which this test has no value"
    config = filled(item.parameters["config"], {name: values[name] for name in fields})
    validate({"config": config}, schema, raise_on_error=True)
    checked = check_config(find_flow(item.flow.name).config, config, "the form")
    if item.entry["name"] == "paper":
        # Its rows are of a benchmark, which has to be fetched first.
        with pytest.raises(ConfigError, match="wasp data imdb"):
            prepare(item.flow.name, checked, home)
        return
    prepared = prepare(item.flow.name, checked, home)
    made = prepared.tools.config
    if "private.dataset" in fields:
        assert prepared.tools.run_name.dataset == "trains"
        assert prepared.plan.charges
    if "task" in fields:
        assert prepared.card.name == "trains"
    if "plms_used" in fields:
        assert [f"{plm.connector}:{plm.model}" for plm in made.plms] == values["plms_used"]


@pytest.mark.parametrize("item", FORMS, ids=lambda item: item.entry["name"])
def test_a_form_draws_what_its_deployment_leaves_empty(item: Deployment) -> None:
    drawn = set(drawn_fields(item.schema, item.schema))
    blank = {f"config.{field}" for field in item.entry.get("blank", ())}
    # The owner of a registered dataset has set its location and its number of rows.
    assert blank <= {"config.private.path", "config.private.declared_rows"}
    if "config.private.dataset" in drawn:
        assert {"config.task", "config.test.path", "config.test.text"} <= drawn
    assert not blank or "config.private.dataset" in drawn


@pytest.mark.parametrize("item", FORMS, ids=lambda item: item.entry["name"])
def test_changes_are_drawn_as_a_list_and_may_be_left_out(item: Deployment) -> None:
    changes = item.schema["properties"]["changes"]
    assert changes["type"] == "array"
    assert "default" not in changes
    narrowed = {**item.schema, "properties": {"changes": changes}, "required": []}
    for value in (None, [], ["privacy.epsilon=2"]):
        assert validate({"changes": value}, narrowed) == [], value
    # Prefect stores them: a key or a password must not get there.
    with pytest.raises(ValidationError):
        validate({"changes": ["private.path=postgresql://me:secret@host/db"]}, narrowed, True)


def test_what_nobody_fills_is_left_out_and_the_dataset_is_required(own: dict[str, Any]) -> None:
    (item,) = (item for item in FORMS if item.entry["name"] == "own-data")
    # Prefect sends the defaults of fields that nobody touched.
    untouched = {"test.text": "text", "test.label": "label"}
    needed = {name: own[name] for name in ("private.dataset", "task")} | untouched
    config = filled(item.parameters["config"], needed)
    validate({"config": config, "changes": None}, item.schema, raise_on_error=True)
    made = check_config(find_flow("wasp").config, config, "the form")
    assert made.test is None
    assert [plm.name for plm in made.plms] == ["smollm2"]
    empty = filled(item.parameters["config"], {"task": own["task"]})
    with pytest.raises(ValidationError, match="config.private.*'dataset' is a required property"):
        validate({"config": empty}, item.schema, raise_on_error=True)
    # Prefect's form calls optional what the schema of a group does not require.
    group = item.schema["definitions"]["PrivateRows"]
    assert "dataset" in group["required"]
    whole = item.schema["definitions"]["WaspConfig"]
    assert {"private", "privacy", "method"} <= set(whole["required"])
    for name, field in (("privacy", "epsilon"), ("method", "samples")):
        group = item.schema["definitions"][whole["properties"][name]["$ref"].rpartition("/")[2]]
        assert field in group["required"]
    (error,) = validate({"config": empty}, item.schema)
    assert error.message == "'dataset' is a required property"
