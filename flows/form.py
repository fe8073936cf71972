"""How the parameters become a form in the Prefect UI: order, titles, choices, and rules that its server checks.

Prefect shows the JSON schema of a flow as a form, and its server refuses parameters that break the schema before a run
exists. Rules are written as `if`/`then` on the names of fields, because `allOf`, `anyOf` and `oneOf` on a group of
fields would be drawn as further groups.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from connectors import registry

Schema = dict[str, Any]
WORDS = {"fid": "FID", "api": "API", "plms": "Language models (PLMs)", "mlflow": "MLflow", "sql": "SQL"}
KEY_PLACE = r"^(none|env:[A-Za-z_][A-Za-z0-9_]*|prefect:[a-z0-9][a-z0-9-]*)$"
"""Where a key lies. In the form alone: a refusal elsewhere must not repeat what may be a key."""


class Strict(BaseModel):
    """Base of all parameters: unknown keys are refused, values do not change.

    `rules` holds by field what must be true of its group once the field is there (see `rule`). `hidden`: fields of the
    base that mean nothing here, with the reason; they stand in no form and no file, and are refused where one is given.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    rules: ClassVar[dict[str, Schema]] = {}
    hidden: ClassVar[dict[str, str]] = {}

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
        return found


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
