"""The form of the Prefect UI: every field is explained and limited, and what cannot run is refused by the server."""

import re
from functools import cache
from typing import Any, get_args

import pytest
from prefect.utilities.callables import parameter_schema
from prefect.utilities.schema_tools import ValidationError, is_valid_schema, validate

from connectors.interfaces.errors import ConfigError
from deployments.registry import deployments
from flows.catalog import METHODS, find_flow, flow_names
from flows.cli.init_files import editor_schema
from flows.config.files import check_config
from flows.config.form import KINDS, Strict
from flows.methods.wasp.config import WaspConfig
from tests.support.runs.pipeline import SMALL, values

HIDDEN = {
    "fusegen": {"FuseGenConfig": {"private"}},
    "only_private": {
        "OnlyPrivateConfig": {"public", "plms", "plms_used", "evaluation", "limits", "export"},
        "OnlyPrivateMethod": {"iterations", "samples"},
        "PrivateStudent": {"epochs"},
    },
    "dp_sgd_student": {
        "DpSgdStudentConfig": {"public", "plms", "evaluation", "export", "parties"},
        "DpStudentMethod": {"iterations", "samples"},
        "DpStudent": {"epochs", "learning_rate", "batch", "adaptation"},
    },
}
"""Fields that mean nothing in flows without votes."""


@cache
def schema(flow: str) -> dict[str, Any]:
    return dict(parameter_schema(find_flow(flow).flow()).model_dump())


SCHEMA = schema("wasp")
MODELS = SCHEMA["definitions"]


def fields_of(group: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a group: those that the form draws, then those that only the server checks."""
    drawn, checks = group.get("properties", {}), group.get("dependentSchemas", {})
    return drawn | {
        name: check["properties"][name] for name, check in checks.items() if "properties" in check
    }


def field(model: str, name: str) -> dict[str, Any]:
    return fields_of(MODELS[model])[name]


@pytest.mark.parametrize("flow", flow_names())
def test_every_group_and_field_is_explained_and_none_means_nothing(flow: str) -> None:
    models = schema(flow)["definitions"]
    for model, group in models.items():
        assert len(group["description"]) > 10, model
        drawn = list(group.get("properties", {}))
        for name, about in fields_of(group).items():
            of_group = models[about["$ref"].rsplit("/", 1)[-1]] if "$ref" in about else {}
            assert about["title"], (model, name)
            assert len(about.get("description") or of_group.get("description", "")) > 10, (
                model,
                name,
            )
            assert name not in drawn or about["position"] == drawn.index(name), (model, name)
    for model, hidden in HIDDEN.get(flow, {}).items():
        assert not hidden & set(models[model]["properties"])
    parameters = schema(flow)["properties"]
    assert [name for name, about in parameters.items() if not about["description"]] == []
    assert flow not in METHODS or "pattern" in str(parameters["changes"]), (
        "the server refuses a key"
    )


def values_of(flow: str) -> dict[str, Any]:
    """Return the values of the flow's form."""
    return next(
        dict(entry.parameters["config"]) for entry in deployments() if entry.flow.name == flow
    )


@pytest.mark.parametrize("flow", HIDDEN)
def test_the_server_refuses_what_is_hidden(flow: str) -> None:
    is_valid_schema(schema(flow))
    for name in HIDDEN[flow][find_flow(flow).config.__name__]:
        changed = values_of(flow) | {name: {"path": "rows.csv"}}
        assert validate({"config": changed}, schema(flow), raise_on_error=False)


def test_only_private_takes_no_finite_epsilon_from_a_form() -> None:
    values = values_of("only_private")
    assert values["privacy"]["epsilon"] == "inf"
    changed = values | {"privacy": {"epsilon": 4}}
    assert validate({"config": changed}, schema("only_private"), raise_on_error=False)


def test_the_form_draws_few_fields_and_the_first_is_the_private_data() -> None:
    whole = MODELS["WaspConfig"]["properties"]
    assert list(whole)[:3] == ["private", "privacy", "method"]
    assert next(iter(MODELS["PrivateRows"]["properties"])) == "dataset"
    drawn = ("PrivateRows", "Privacy", "WaspMethod", "Execution", "Rows", "WaspConfig")
    assert sum(len(MODELS[model]["properties"]) for model in drawn) <= 14


def test_a_field_is_drawn_as_one_kind_and_editors_know_all_of_them() -> None:
    drawn = MODELS["PrivateRows"]["properties"]
    assert drawn["dataset"]["type"] == "string"
    assert list(drawn) == ["dataset"]
    assert not {"anyOf", "default"} & set(drawn["dataset"])
    assert MODELS["WaspConfig"]["properties"]["test"]["$ref"] == "#/definitions/Rows"
    editor = editor_schema(WaspConfig)["$defs"]
    dataset = editor["PrivateRows"]["properties"]["dataset"]
    assert [kind["type"] for kind in dataset["anyOf"]] == ["string", "null"]
    assert dataset["default"] is None
    assert editor["Privacy"]["properties"]["epsilon"]["anyOf"] == [
        {"type": "number", "exclusiveMinimum": 0},
        {"type": "string", "const": "inf"},
    ]
    assert KINDS not in str(editor)


def test_a_number_out_of_bounds_is_refused_with_its_limit() -> None:
    for epsilon in (-3, 0):
        with pytest.raises(
            ValidationError, match="epsilon.*less than or equal to the minimum of 0"
        ):
            check_as_server(values(privacy={"epsilon": epsilon}))


def test_a_form_with_empty_boxes_is_as_one_that_leaves_them_out() -> None:
    private = SMALL["private"] | {"dataset": "", "declared_rows": None}
    # Prefect sends the defaults of fields that nobody touched.
    test = {"text": "text", "label": "label"}
    for path in ({}, {"path": ""}):
        filled = SMALL | {"private": private, "plms_used": [], "test": test | path}
        check_as_server(filled)
        made = check_config(WaspConfig, filled, "the form")
        assert made == check_config(WaspConfig, values(test=None), "the test")
    with pytest.raises(ConfigError, match="test.path"):
        check_config(WaspConfig, SMALL | {"test": {"text": "body"}}, "the form")
    assert "path" in editor_schema(WaspConfig)["$defs"]["Rows"]["required"]


def test_choices_of_optional_fields_are_limited_too() -> None:
    assert {"type": "number", "minimum": 0, "maximum": 5} in field("Plm", "temperature")["anyOf"]
    assert set(field("Plm", "connector")["enum"]) >= {
        "ngram",
        "openai",
        "anthropic",
        "hf",
        "recorded",
    }
    assert "banking10" in field("WaspConfig", "task")["description"]
    assert "Never for private data" in field("PrivateRows", "rows_are_public")["description"]


def check_as_server(config: dict[str, Any]) -> None:
    """Check a configuration as the server does before it starts a run."""
    validate({"config": config}, SCHEMA, raise_on_error=True)


PLM = {"name": "clerk", "connector": "ngram", "model": "helpdesk"}
PAID = {"name": "gpt", "connector": "openai", "model": "m", "key": "env:OPENAI_API_KEY"}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"privacy": {"epsilon": 0}}, "config.privacy.epsilon"),
        ({"privacy": {"delta": 0.5}}, "config.privacy.delta"),
        ({"privacy": {"delta": 1e-300}}, "config.privacy.delta"),
        ({"privacy": {"epsilon": True}}, "config.privacy.epsilon"),
        ({"method": {"votes": 33}}, "config.method.votes"),
        ({"student": {"kind": "oracle"}}, "config.student.kind"),
        ({"privacy": {"epsilom": 4}}, "config.privacy"),
        ({"plms": []}, "config.plms"),
        ({"private": {"rows": None, "of": 500}}, "config.private.rows"),
        ({"private": {"path": ""}}, "config.private"),
        ({"private": {"path": "", "dataset": "notes.csv of the clinic"}}, "config.private"),
        ({"private": {"path": "sqlite:///rows.db"}}, "query"),
        (
            {"private": {"path": "postgresql+psycopg2://db/rows", "query": None}},
            "config.private.query",
        ),
        (
            {"private": {"path": "sqlite:///rows.db", "query": "drop table notes"}},
            "config.private.query",
        ),
        (
            {"private": {"path": "sqlite:///rows.db", "query": "select 1; drop table notes"}},
            "config.private.query",
        ),
        ({"test": {"query": "delete from notes returning *"}}, "config.test.query"),
        ({"evaluation": {"fid_reference": "public"}, "public": None}, "config.public"),
        ({"plms": [PLM | {"connector": "telepathy"}]}, "config.plms[0].connector"),
        ({"plms": [PLM | {"connector": "openai", "model": ""}]}, "config.plms[0].model"),
        ({"plms": [PLM | {"key": "sk-proj-0123456789"}]}, "config.plms[0].key"),
        (
            {"private": {"dataset": "clinic", "path": "", "name": None, "seed": -1}},
            "config.private.seed",
        ),
        ({"embedder": {"connector": "eyes"}}, "config.embedder.connector"),
        (
            {"privacy": {"protects": "person", "rows_per_person": 0}, "private": {"person": "p"}},
            "config.privacy.rows_per_person",
        ),
    ],
)
def test_the_server_refuses_what_cannot_run_and_names_the_field(
    changes: dict[str, Any], field: str
) -> None:
    with pytest.raises(ValidationError, match=re.escape(field)):
        check_as_server(values(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"private": {"rows": 100, "of": 500}},
        {"private": {"path": "sqlite:///rows.db", "query": "select text, label from notes"}},
        {"private": {"dataset": "clinic", "path": "", "name": None}},
        {
            "private": {"dataset": "clinic", "path": "", "name": None},
            "privacy": {"protects": "person"},
        },
        {"evaluation": {"fid_reference": "public"}, "public": {"path": "rows.csv"}},
        {"privacy": {"protects": "person"}, "private": {"person": "patient"}},
        {"plms": [PLM | {"key": None, "price": None, "temperature": 0.7}]},
        {"plms": [PAID], "limits": {"max_dollars": None}},
        {
            "plms": [PLM, PAID | {"price": {"input": 0, "output": 0}}],
            "limits": {"max_dollars": 0.5},
        },
        {"plms": [PAID | {"model": "gpt-4o-mini"}], "limits": {"max_dollars": 0.5}},
    ],
)
def test_what_can_run_is_accepted_by_the_server_and_by_the_command(changes: dict[str, Any]) -> None:
    check_as_server(values(**changes))
    check_config(WaspConfig, values(**changes), "the test")


def test_the_server_refuses_the_empty_private_group_that_the_command_accepts() -> None:
    config = {"task": "support_desk", "plms": [PLM]}
    check_as_server(config)
    WaspConfig.model_validate(config | {"private": None})
    with pytest.raises(ValidationError, match="None is not of type 'object'"):
        check_as_server(config | {"private": None})


def groups_in(annotation: Any) -> set[type[Strict]]:
    """Return the groups of fields that a type names."""
    if isinstance(annotation, type) and issubclass(annotation, Strict):
        return {annotation}
    return set[type[Strict]]().union(*map(groups_in, get_args(annotation)))


def all_groups(config: type[Strict]) -> set[type[Strict]]:
    """Return a configuration and the groups of fields in it."""
    inner = {
        group for field in config.model_fields.values() for group in groups_in(field.annotation)
    }
    return {config}.union(*map(all_groups, inner))


@pytest.mark.parametrize("flow", flow_names())
def test_rules_name_fields_that_exist(flow: str) -> None:
    for group in all_groups(find_flow(flow).config):
        for path in (path for rule in group.rules for path in (rule.field, rule.other)):
            inner = group
            for name in path.split("."):
                assert name in inner.model_fields, f"{group.__name__}: {path}"
                inner = next(iter(groups_in(inner.model_fields[name].annotation)), inner)
