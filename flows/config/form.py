"""How the parameters become a form in the Prefect UI: order, titles, choices, and rules that its server checks.

Prefect shows the JSON schema of a flow as a form, and its server refuses parameters that break the schema before a run
exists. Rules are written as `if`/`then` on the names of fields, because `allOf`, `anyOf` and `oneOf` on a group of
fields would be drawn as further groups.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, ValidationInfo, field_validator, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from connectors.models.base import registry
from connectors.rows.queries import READING
from connectors.security.secret_patterns import PUBLIC, REFERENCE, SECRET_NAME, Finding, find_secrets, without_secrets

Schema = dict[str, Any]
WORDS = {"fid": "FID", "api": "API", "plms": "Language models (PLMs)", "mlflow": "MLflow", "sql": "SQL"}
LEAST_DELTA, MOST_DELTA = 1e-12, 0.01
"""See `flows.config.privacy.Delta`."""
SERVER_CHECKS = (PUBLIC, REFERENCE, SECRET_NAME, READING, LEAST_DELTA, MOST_DELTA)
"""Patterns and limits by which the server refuses parameters; deployments are registered again when they change."""
KEY_INSTEAD = (
    "a key is written here itself (not repeated), and a configuration is stored by Prefect, in manifests and in "
    "reports. Write where the key is stored: env:NAME (environment variable), prefect:BLOCK (Secret block), or none"
)
ADDRESS_INSTEAD = (
    "the address holds a password (not repeated), and a configuration is stored by Prefect, in manifests and in "
    "reports. "
)
INSTEAD = {
    "path": "Put the whole address into an environment variable and write env:NAME",
    "mlflow": "Leave it empty and set the environment variable MLFLOW_TRACKING_URI",
    "endpoint": "Leave the password out and write `key: env:NAME` beside it",
    "url": "Leave the password out and write `key: env:NAME` beside it",
    "api": "Leave the password out and set PREFECT_API_AUTH_STRING",
}
"""What to do with a password in an address, by the name of its field."""


class NoBooleans(BaseModel):
    """Base of forms in which true and false are no numbers: pydantic would read them as 1 and 0."""

    @field_validator("*", mode="before")
    @classmethod
    def _is_no_boolean(cls, value: Any, info: ValidationInfo) -> Any:
        kinds = set(_kinds(cls.model_fields[str(info.field_name)].annotation))
        if kinds & {int, float} and not kinds & {bool, Any} and _has_boolean(value):
            raise ValueError("true and false (in YAML also yes, no, on and off) are no numbers; write the number")
        return value


def _kinds(annotation: Any) -> Iterator[Any]:
    """Yield the types that an annotation is made of."""
    inside = get_args(annotation)
    if not inside or get_origin(annotation) is Literal:
        yield annotation
    for part in inside:
        yield from _kinds(part)


def _has_boolean(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_boolean, value.values()))
    return any(map(_has_boolean, value)) if isinstance(value, list) else isinstance(value, bool)


class Strict(NoBooleans):
    """Base of all parameters: unknown keys are refused, values do not change.

    Keys and passwords are refused at any depth, here and, where the class is a whole configuration (`is_whole`), by the
    Prefect server, before it stores a run. `rules` holds by field what must be true of its group once the field is
    there (see `rule`). `hidden`: fields of the base that mean nothing here, with the reason; they stand in no form and
    no file, and are refused where one is given.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
    rules: ClassVar[dict[str, Schema]] = {}
    hidden: ClassVar[dict[str, str]] = {}
    is_whole: ClassVar[bool] = False

    @model_validator(mode="before")
    @classmethod
    def _contains_no_secret(cls, values: Any) -> Any:
        for finding in find_secrets(values):
            raise PydanticCustomError("secret", "{message}", {"message": explain_secret(finding)})
        return values

    @model_validator(mode="before")
    @classmethod
    def _nothing_hidden(cls, values: Any) -> Any:
        given = [name for name in cls.hidden if isinstance(values, dict) and values.get(name) is not None]
        if given:
            raise ValueError(f"{given[0]}: {cls.hidden[given[0]]}")
        return values

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the schema with a title and a position for every field: databases do not keep the order of JSON."""
        found = handler(core)
        schema = handler.resolve_ref_schema(found)
        for name in cls.hidden:
            schema.get("properties", {}).pop(name, None)
        for position, (name, field) in enumerate(schema.get("properties", {}).items()):
            field["position"] = position
            field["title"] = cls.model_fields[name].title or title_of(name)
        if cls.rules:
            schema["dependentSchemas"] = cls.rules
        if cls.is_whole:
            schema |= {"if": True, "then": without_secrets()}  # neither is drawn in the form
        return found


def explain_secret(finding: Finding) -> str:
    """Return where a secret is written and what to write instead."""
    if finding.is_key:
        return f"{finding}: {KEY_INSTEAD}"
    instead = INSTEAD.get(re.split(r"[.]", finding.path[-1])[-1] if finding.path else "", "Leave the password out")
    return f"{finding}: {ADDRESS_INSTEAD}{instead}"


def title_of(name: str) -> str:
    """Return the words of a field's name, as they stand in the form."""
    words = " ".join(WORDS.get(word, word) for word in name.split("_"))
    return words[:1].upper() + words[1:]


def rule(field: str, given: Schema, then: dict[str, Schema]) -> dict[str, Schema]:
    """Say that where `field` is as `given`, the fields of `then` must be there and be as it says."""
    when = {"properties": {field: given}, "required": [field]}
    return {field: {"if": when, "then": {"properties": then, "required": list(then)}}}


def connectors(field: Schema) -> None:
    """Offer the connectors that are installed where the deployment is registered."""
    field["enum"] = sorted(registry.connectors())


def tasks(field: Schema) -> None:
    """Name the tasks that ship; the path of a file is allowed as well, so they are no closed choice."""
    shipped = sorted(path.stem for path in Path(__file__).with_name("task_files").glob("*.yaml"))
    field["description"] += f" Those that ship: {', '.join(shipped)}."


def without_null(field: Schema) -> None:
    """Let the form show the fields of an optional group, and its server name the one that is wrong."""
    (group,) = (choice for choice in field.pop("anyOf") if choice != {"type": "null"})
    field |= group
