"""The forms of flows without votes: every field explained, fields that mean nothing there missing, presets accepted."""

from typing import Any

import pytest
from prefect.utilities.callables import parameter_schema
from prefect.utilities.schema_tools import is_valid_schema, validate

from connectors.interfaces.errors import ConfigError
from deployments.registry import deployments
from flows.catalog import find_flow
from flows.cli import start
from tests.support.paths import ROOT

HIDDEN = {
    "fusegen": {"FuseGenConfig": {"private"}},
    "only_private": {
        "OnlyPrivateConfig": {"public", "plms", "plms_used", "evaluation", "limits", "export"},
        "OnlyPrivateMethod": {"iterations", "samples"},
        "PrivateStudent": {"epochs"},
    },
    "dp_sgd_student": {
        "DpSgdStudentConfig": {"public", "plms", "evaluation", "export", "parties", "class_balance", "filter"},
        "DpStudentMethod": {"iterations", "samples"},
        "DpStudent": {"epochs", "learning_rate", "batch", "adaptation"},
    },
}


def schema(name: str) -> dict[str, Any]:
    return dict(parameter_schema(find_flow(name).flow()).model_dump())


@pytest.mark.parametrize("name", HIDDEN)
def test_every_field_is_explained_and_none_means_nothing(name: str) -> None:
    models = schema(name)["definitions"]
    for model, about in models.items():
        for position, (field, one) in enumerate(about["properties"].items()):
            group = models[one["$ref"].rsplit("/", 1)[-1]] if "$ref" in one else {}
            assert one["title"], (model, field)
            assert len(one.get("description") or group.get("description", "")) > 10, (model, field)
            assert one["position"] == position, (model, field)
    for model, hidden in HIDDEN[name].items():
        assert not hidden & set(models[model]["properties"])


def values_of(name: str) -> dict[str, Any]:
    """Return the values of the flow's form."""
    return next(dict(one.parameters["config"]) for one in deployments() if one.flow.name == name)


@pytest.mark.parametrize("name", HIDDEN)
def test_the_server_refuses_what_is_hidden(name: str) -> None:
    shown, values = schema(name), values_of(name)
    is_valid_schema(shown)
    for field in HIDDEN[name][find_flow(name).config.__name__]:
        assert validate({"config": values | {field: {"path": "rows.csv"}}}, shown, raise_on_error=False)


def test_only_private_takes_no_finite_epsilon_from_a_form() -> None:
    values = values_of("only_private")
    assert values["privacy"]["epsilon"] == "inf"
    refused = validate({"config": values | {"privacy": {"epsilon": 4}}}, schema("only_private"), raise_on_error=False)
    assert refused


def test_a_preview_needs_models_but_no_private_rows(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("WASP_HOME", str(tmp_path / "home"))
    place = ROOT / "deployments/configs"
    shown = start.preview(None, place / "fusegen_here.yaml", ["plms_used=[smollm2]"], 1, "fusegen")
    assert {row["plm"] for row in shown["rows"]} == {"smollm2"}
    with pytest.raises(ConfigError, match="calls no language model"):
        start.preview(None, place / "only_private_here.yaml", [], 1, "only_private")
