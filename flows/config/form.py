"""Base class of the parameters, and their JSON schema for the Prefect form.

Prefect shows the JSON schema of a flow as a form. Its server refuses parameters that violate the schema before it
creates a run. Rules between fields are `if`/`then` schemas on field names (`Rule`), because the form would draw
`allOf`, `anyOf` and `oneOf` of a group as additional groups.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Self, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, PydanticUndefined

from connectors.interfaces.json_values import Json
from connectors.models.base import registry
from connectors.rows.queries import READING
from connectors.security.secret_patterns import (
    PUBLIC,
    REFERENCE,
    SECRET_NAME,
    SecretMatch,
    find_secrets,
    without_secrets,
)

Schema = Mapping[str, object]
WORDS = {
    "fid": "FID",
    "api": "API",
    "plms": "Language models (PLMs)",
    "mlflow": "MLflow",
    "sql": "SQL",
}
MIN_DELTA = 1e-12
MAX_DELTA = 0.01
"""See `flows.config.privacy.Delta`."""
SERVER_CHECKS = (PUBLIC, REFERENCE, SECRET_NAME, READING, MIN_DELTA, MAX_DELTA)
"""Patterns and limits that the server checks; part of a deployment's version."""
KEY_INSTEAD = (
    "the value is a key (not shown), but Prefect, manifests and reports store the configuration. Write a reference to "
    "the key: env:NAME (environment variable), prefect:BLOCK (Secret block), or none"
)
ADDRESS_INSTEAD = (
    "the address contains a password (not shown), but Prefect, manifests and reports store the "
    "configuration. "
)
INSTEAD = {
    "path": "Put the whole address into an environment variable and write env:NAME",
    "mlflow": "Leave it empty and set the environment variable MLFLOW_TRACKING_URI",
    "endpoint": "Remove the password and add `key: env:NAME`",
    "url": "Remove the password and add `key: env:NAME`",
    "api": "Remove the password and set PREFECT_API_AUTH_STRING",
}
"""Fix for a password in an address, by field name."""


KINDS = "x-kinds"
"""Key of a drawn field's schema with what it replaces: all its kinds, of which the form draws one."""

REQUIRED = "x-required"
"""Key of a group's schema with the fields that are required outside of a form."""

Values = tuple[object, ...] | Json
"""Values of a field: a list of them, or a schema."""


# Compared by identity: a schema among the values has no hash.
@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """A rule between two fields, such as `method.guidance`; the form's schema and `Strict` both read it.

    If `field` has one of `values`, `other` must have one of `allowed`: a tuple, or a schema.
    """

    field: str
    values: Values
    other: str
    allowed: Values

    def holds(self, group: BaseModel) -> bool:
        """Return True if a group of fields follows the rule."""
        return not _fits(_value(group, self.field), self.values) or _fits(
            _value(group, self.other), self.allowed
        )

    def schema(self, model: type[BaseModel]) -> Json:
        """Return the rule as JSON schema; a field whose default breaks the rule is required."""
        name, _, inner = self.other.partition(".")
        default = model.model_fields[name].get_default(call_default_factory=True)
        is_required = not _fits(_value(default, inner), self.allowed)
        # A missing field matches any `properties`: without `required` the rule would also judge a default.
        condition = {
            "properties": _nested(self.field, self.values, True),
            "required": [self.top],
        }
        then = {
            "properties": _nested(self.other, self.allowed, False),
            "required": [name] if is_required else [],
        }
        return {"if": condition, "then": then}

    @property
    def top(self) -> str:
        """Field of the group itself from which the rule starts."""
        return self.field.partition(".")[0]


Rules = dict[Rule, str]
"""Rules of a class with their messages."""
SET: Final = {"not": {"type": "null"}}
UNSET: Final = (None,)
"""Values of a rule: any but null, and null."""


def _value(group: object, path: str) -> object:
    """Return the value of a field; None if it, or a group around it, is not set."""
    if path:
        for name in path.split("."):
            group = getattr(group, name, None)
    # The default of a required field.
    if group is PydanticUndefined:
        return None
    return group


def _nested(path: str, values: Values, is_required: bool) -> Json:
    """Return the schema of a field's values under the names of its groups."""
    name, _, inner = path.partition(".")
    if inner:
        group: Json = {"properties": _nested(inner, values, is_required)}
        if is_required:
            group["required"] = [inner.partition(".")[0]]
        return {name: group}
    if isinstance(values, tuple):
        return {name: {"enum": list(values)}}
    return {name: dict(values)}


def _fits(value: Any, values: Values) -> bool:
    if isinstance(values, tuple):
        return value in values
    if value is None:
        return False
    if isinstance(value, str) and re.search(values.get("pattern", ""), value) is None:
        return False
    size = value
    if isinstance(value, str | list):
        size = len(value)
    limits = [values[name] for name in ("minimum", "minLength", "minItems") if name in values]
    return all(size >= limit for limit in limits)


class NoBooleans(BaseModel):
    """Base of models that refuse booleans as numbers; pydantic reads them as 1 and 0."""

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_boolean(cls, value: object, info: ValidationInfo) -> object:
        # A field that also permits a boolean, or anything, keeps it.
        kinds = set(_kinds(cls.model_fields[str(info.field_name)].annotation))
        if kinds & {int, float} and not kinds & {bool, Any} and _has_boolean(value):
            raise ValueError(
                "true and false (in YAML also yes, no, on and off) are not numbers. Write a number"
            )
        return value


def _kinds(annotation: object) -> Iterator[object]:
    """Yield the types in an annotation."""
    inside = get_args(annotation)
    if not inside or get_origin(annotation) is Literal:
        yield annotation
    for part in inside:
        yield from _kinds(part)


def _has_boolean(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_boolean, value.values()))
    if isinstance(value, list):
        return any(map(_has_boolean, value))
    return isinstance(value, bool)


class Strict(NoBooleans):
    """Base of all parameters: frozen, without unknown keys, keys or passwords.

    Secrets are refused at any depth. For a whole configuration (`is_whole`) the Prefect server refuses them too, before
    it stores a run.

    Attributes:
        rules: rules between the fields, with the message for a group that breaks one; `{0.NAME}` is a value.
        hidden: fields of the base class that have no effect here, with the reason; forms and manifests omit them, and
            a value for one is an error.
        first: fields that the form shows, in this order; empty for all. The server checks the others too; a form
            keeps their values, and its JSON editor, files and commands change them. A field of several kinds, such as
            a number or null, is drawn as one of them, and the server accepts no other from a form.
        emptied: required fields without which a form leaves out the whole group (`without_empty`). It sends the
            defaults of the others, so the server must not require them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
    rules: ClassVar[Rules] = {}
    hidden: ClassVar[dict[str, str]] = {}
    first: ClassVar[tuple[str, ...]] = ()
    emptied: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def stored(cls, values: Json) -> Json:
        """Return the values of a manifest with fields that an earlier version left out, if their default changed."""
        return values

    @classmethod
    def identifying(cls, values: Json) -> Json:
        """Return the values that determine the id of a run, without those that earlier versions left out."""
        return values

    is_whole: ClassVar[bool] = False

    @model_validator(mode="before")
    @classmethod
    def _refuse_secrets(cls, values: object) -> object:
        # Before validation, whose messages could quote the value.
        for finding in find_secrets(values):
            raise PydanticCustomError("secret", "{message}", {"message": explain_secret(finding)})
        return values

    @model_validator(mode="before")
    @classmethod
    def _refuse_hidden(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        for name, reason in cls.hidden.items():
            if values.get(name) is not None:
                raise ValueError(f"{name}: {reason}")
        return values

    @model_validator(mode="after")
    def _follow_rules(self) -> Self:
        for rule, message in self.rules.items():
            if not rule.holds(self):
                raise ValueError(message.format(self))
        return self

    @model_serializer(mode="wrap")
    def _without_hidden(self, write: SerializerFunctionWrapHandler) -> Json:
        return {name: value for name, value in write(self).items() if name not in self.hidden}

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the schema with a title and a position per field.

        The position is necessary because databases do not preserve the order of JSON keys.
        """
        reference = handler(core)
        schema = handler.resolve_ref_schema(reference)
        for name in cls.hidden:
            schema.get("properties", {}).pop(name, None)
        if cls.emptied:
            schema[REQUIRED] = schema["required"]
            schema["required"] = [name for name in schema["required"] if name not in cls.emptied]
        rare = _take_rare(schema, cls.first)
        for name in cls.first:
            _draw_one_kind(schema["properties"].get(name, {}))
        # Rare fields have positions too: they come last in an editor that shows all.
        for position, (name, field) in enumerate(
            [*schema.get("properties", {}).items(), *rare.items()]
        ):
            field["position"] = position
            field["title"] = cls.model_fields[name].title or title_of(name)
        for rule in cls.rules:
            checks = schema.setdefault("dependentSchemas", {}).setdefault(rule.top, {})
            # A schema has one `if`: each further rule of this field goes one level deeper.
            while "if" in checks:
                checks = checks.setdefault("dependentSchemas", {}).setdefault(rule.top, {})
            checks |= rule.schema(cls)
        # `if` and `then`, because the form shows neither.
        if cls.is_whole:
            schema |= {"if": True, "then": without_secrets()}
        return reference


def _take_rare(schema: Json, first: tuple[str, ...]) -> dict[str, Json]:
    """Move the properties that are not in `first` where the server checks them and the form does not draw them."""
    fields = schema.get("properties", {})
    shown = {name: fields[name] for name in first if name in fields}
    rare = {name: field for name, field in fields.items() if name not in shown}
    if not shown or not rare:
        return {}
    # The form draws `properties` alone; the server also checks `dependentSchemas`.
    schema |= {"properties": shown, "propertyNames": {"enum": list(fields)}}
    schema["dependentSchemas"] = {
        name: {"properties": {name: field}} for name, field in rare.items()
    }
    # It would refuse the rare fields, because it looks at the shown ones only; `propertyNames` takes its place.
    del schema["additionalProperties"]
    return rare


def without_drawing(schema: Json, fields: Sequence[str]) -> Json:
    """Return the schema of a flow whose form does not draw these fields of `config`, such as 'private.path'."""
    changed = deepcopy(schema)
    for field in fields:
        group, last = _group_of(changed, field)
        shown = group["properties"]
        rare = shown.pop(last)
        # A group that shows all of its fields has no list of names yet.
        group.setdefault("propertyNames", {"enum": [*shown, last]})
        group.pop("additionalProperties", None)
        group.setdefault("dependentSchemas", {})[last] = {"properties": {last: rare}}
    return changed


def with_required(schema: Json, fields: Sequence[str]) -> Json:
    """Return the schema of a flow that requires these fields of `config`; Prefect's form calls others optional."""
    changed = deepcopy(schema)
    for field in fields:
        group, last = _group_of(changed, field)
        group["required"] = [*group.get("required", ()), last]
        # A rule that requires the field in some cases would repeat the message.
        rule = group.get("else", {})
        if last in rule.get("required", ()):
            rule["required"] = [name for name in rule["required"] if name != last]
    return changed


def _group_of(schema: Json, field: str) -> tuple[Json, str]:
    """Return the group of a field of `config` in the schema of a flow, and the field's name."""
    *groups, last = field.split(".")
    group = schema
    for name in ("config", *groups):
        reference = group["properties"][name]["$ref"]
        group = schema["definitions"][reference.rpartition("/")[2]]
    return group, last


def draw_changes(schema: Json) -> Json:
    """Return the schema of a flow whose form draws `changes` as a list; the form would draw a button for null, too."""
    changed = deepcopy(schema)
    if changes := changed["properties"].get("changes"):
        _draw_one_kind(changes)
    return changed


def _draw_one_kind(field: Json) -> None:
    """Draw a field of several kinds, such as a number or null, as its first kind.

    The form would draw a button for each kind. Left empty, a field is not sent. Files and `changes` take all kinds.
    """
    kinds = field.get("anyOf", [])
    drawn = [kind for kind in kinds if "const" not in kind and kind != {"type": "null"}]
    if len(drawn) != 1:
        return
    replaced = {"anyOf": field.pop("anyOf")}
    if field.get("default", "") is None:
        # No value of the kind that is drawn.
        replaced["default"] = field.pop("default")
    # Prefect ignores the key; `with_rare` reads it.
    field |= {**drawn[0], KINDS: replaced}


def with_rare(schema: Json) -> Json:
    """Return a schema whose groups list all fields with all their kinds, for editors and reference pages.

    The reverse of `_take_rare` and `_draw_one_kind`.
    """
    whole = {
        name: with_rare(value) if isinstance(value, dict) else value
        for name, value in schema.items()
    }
    if REQUIRED in whole:
        whole["required"] = whole.pop(REQUIRED)
    if KINDS in whole:
        replaced = whole.pop(KINDS)
        drawn = {key for kind in replaced["anyOf"] for key in kind}
        whole = {key: value for key, value in whole.items() if key not in drawn} | replaced
    names = whole.get("propertyNames", {}).get("enum")
    if names is None or "properties" not in whole:
        return whole
    moved = {
        name: whole["dependentSchemas"][name]["properties"][name]
        for name in names
        if name not in whole["properties"]
    }
    del whole["propertyNames"]
    return whole | {"properties": {**whole["properties"], **moved}, "additionalProperties": False}


def without_empty(values: Json, groups: Mapping[str, type[Strict]]) -> Json:
    """Return the values of a form without groups that were left empty: only defaults beside their `emptied` fields."""

    def is_empty(name: str, group: object) -> bool:
        if name not in groups or not isinstance(group, dict) or not group:
            return False
        fields = groups[name].model_fields
        for field, value in group.items():
            if field in groups[name].emptied and value in (None, ""):
                continue
            if field not in fields or fields[field].is_required() or value != fields[field].default:
                return False
        return True

    return {name: group for name, group in values.items() if not is_empty(name, group)}


def explain_secret(finding: SecretMatch) -> str:
    """Return the location of a secret and the value to use in its place."""
    if finding.is_key:
        return f"{finding}: {KEY_INSTEAD}"
    name = ""
    if finding.path:
        name = finding.path[-1].rpartition(".")[2]
    instead = INSTEAD.get(name, "Remove the password")
    return f"{finding}: {ADDRESS_INSTEAD}{instead}"


def title_of(name: str) -> str:
    """Return the form title of a field name."""
    words = " ".join(WORDS.get(word, word) for word in name.split("_"))
    return words[:1].upper() + words[1:]


def connectors(field: Json) -> None:
    """Offer the connectors installed on the machine that registers the deployment."""
    field["enum"] = sorted(registry.connectors())


def tasks(field: Json) -> None:
    """List the shipped tasks in the description, in one line of the form; a file path is valid too."""
    shipped = sorted(path.stem for path in Path(__file__).with_name("task_files").glob("*.yaml"))
    # Printed prompts of a paper are for researchers, queues for one demo; the form has two screens.
    usual = [name for name in shipped if not name.endswith(("_as_printed", "_queues"))]
    field["description"] += f": {', '.join(usual)}."


def without_null(field: Json) -> None:
    """Show the fields of an optional group; the server then names an invalid one."""
    (group,) = (choice for choice in field.pop("anyOf") if choice != {"type": "null"})
    field |= group
