"""Reads a configuration file, applies `--set`, and reports errors by field."""

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, Field, ValidationError

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.json_values import Json
from connectors.interfaces.redaction import redact
from connectors.rows.recipe_outputs import user_data_folder
from connectors.security.secret_patterns import PUBLIC, find_secrets, hide_secrets
from flows.config.environment import environment
from flows.config.extends import FLOW_KEY, SHIPPED, Layer, find_config, line_in, merge, read_layers
from flows.config.form import Strict, explain_secret
from flows.config.models import NAME
from flows.config.removed import explain_removed, without_removed
from flows.config.yaml_files import parse_yaml

Config = TypeVar("Config", bound=BaseModel)
Changes = list[Annotated[str, Field(json_schema_extra={"pattern": PUBLIC})]] | None
"""Parameter of a flow: changes of single values, without keys and passwords, which Prefect would store."""
SETTINGS_FIRST = ("privacy", "method", "execution")
"""Groups that are named first where a key exists in several groups: the others describe rows and models."""
MAX_SUGGESTIONS = 2
CLOSE = 0.75
MAX_SHOWN = 200
"""Characters of a value that a message shows."""
BESIDE = ("task", "config")
"""Fields with the name of a file that may be in the folder of the configuration."""


def load_config(model: type[Config], path: Path, changes: Sequence[str] = ()) -> Config:
    """Return the configuration of `path` with `changes` ('a.b=value') applied.

    A base that the file `extends` supplies what it does not write. Values of `changes` are YAML. A relative `data_root`
    is relative to the folder of the file that writes it; the variable WASP_DATA overrides it.
        Files of `BESIDE` are resolved in the working folder, then in the folder of the configuration.
        Raises ConfigError with the file, the field and the fix.
    """
    path = find_config(path)
    layers = read_layers(path)
    values = merge(layers)
    # `flow_and_file` has read it.
    values.pop(FLOW_KEY, None)
    # Before paths are resolved: a resolved address would no longer look like one, and its password not be found.
    apply_changes(values, changes, str(path))
    root = values.get("data_root")
    if isinstance(root, str):
        values["data_root"] = str(environment().data or _data_root(layers, root))
    for field in BESIDE:
        file = values.get(field)
        if not isinstance(file, str) or Path(file).exists():
            continue
        beside = _folder(layers, field) / file
        if beside.is_file():
            values[field] = str(beside)
    changed = {change.partition("=")[0] for change in changes}

    def line_of(field: str) -> str | None:
        # A value of --set is in no file.
        if field in changed:
            return None
        return line_in(layers, field)

    return check_config(model, values, str(path), line_of)


def with_changes(config: Config, changes: Sequence[str] | None) -> Config:
    """Return a configuration with `changes` ('a.b=value'); ConfigError with the field and the fix."""
    if not changes:
        return config
    values = config.model_dump(mode="json", exclude_unset=True)
    apply_changes(values, changes, "changes")
    return check_config(type(config), values, "changes")


def check_config(
    model: type[Config],
    values: Json,
    source: str,
    line_of: Callable[[str], int | str | None] = lambda _: None,
) -> Config:
    """Return the validated configuration; ConfigError lists every invalid field.

    `line_of` returns the line of a field ("privacy.epsilon") in the source, None if it has none.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        lines = []
        for problem in error.errors():
            text = _explain(model, dict(problem))
            if line := line_of(_field(problem["loc"])):
                text += f", line {line}"
            lines.append(text)
        raise ConfigError(f"{source}:\n  " + "\n  ".join(lines)) from None


def read_stored(model: type[Config], manifest: Mapping[str, Any]) -> Config:
    """Return the configuration in the manifest of a run, of this version or an earlier one."""
    values = without_removed(manifest["flow"], manifest["config"])
    if issubclass(model, Strict):
        values = model.stored(values)
    return check_config(model, values, f"manifest of {manifest['run_id']}")


def _data_root(layers: Sequence[Layer], root: str) -> Path:
    """Return the base folder of a configuration: relative to the file that writes it.

    Shipped configurations name a folder next to the checkout. If there is none, they use the user's folder, which
    `wasp data` fills.
    """
    file_folder = _folder(layers, "data_root")
    folder = (file_folder / root).resolve()
    if file_folder.is_relative_to(SHIPPED.resolve()) and not folder.exists():
        return user_data_folder()
    return folder


def _folder(layers: Sequence[Layer], field: str) -> Path:
    """Return the folder of the file that writes a field."""
    layer = next((layer for layer in layers if field in layer.values), layers[0])
    return layer.file.resolve().parent


def apply_changes(values: Json, changes: Sequence[str], source: str) -> None:
    """Apply changes ('a.b=value') to values; ConfigError for a value that is a secret."""
    for change in changes:
        _set(values, change)
    for finding in find_secrets(values):
        raise ConfigError(f"{source}:\n  {explain_secret(finding)}")


def _set(values: Json, change: str) -> None:
    name, equals, text = change.partition("=")
    if not equals or not name:
        raise ConfigError(
            f"--set {hide_secrets(change)}: write it as name=value, for example privacy.epsilon=2"
        )
    *parents, last = name.split(".")
    node: Any = values
    for parent in parents:
        node = _step_into(node, parent, name)
    try:
        value = parse_yaml(text, f"--set {name}")
    except yaml.YAMLError:
        raise ConfigError(
            f"--set {hide_secrets(change)}: the value is not YAML. Quote text with special characters"
        ) from None
    if isinstance(node, list):
        node[_index(node, last, name)] = value
    else:
        node[last] = value


def _step_into(node: Any, parent: str, name: str) -> Any:
    if isinstance(node, list):
        return node[_index(node, parent, name)]
    # A group may be missing, or null in the file.
    if node.get(parent) is None:
        node[parent] = {}
    if not isinstance(node[parent], dict | list):
        raise ConfigError(f"--set {name}: '{parent}' is a value, not a group of values")
    return node[parent]


def _index(items: list[object], text: str, name: str) -> int:
    if not text.isdigit() or int(text) >= len(items):
        raise ConfigError(f"--set {name}: '{text}' is not a position in a list of {len(items)}")
    return int(text)


def _field(location: Sequence[str | int]) -> str:
    return ".".join(str(part) for part in location)


def _explain(model: type[BaseModel], problem: Json) -> str:
    field = _field(problem["loc"]) or "the configuration"
    path = _field([part for part in problem["loc"] if isinstance(part, str)])
    removed = explain_removed(getattr(model, "flow_name", None), path, problem["input"])
    if removed is not None:
        return removed
    if problem["type"] == "extra_forbidden":
        return f"{field}: unknown key; {_hint(model, problem['loc'])}"
    if problem["type"] == "missing":
        return f"{field}: is missing. Add it"
    value = _shown(problem["input"])
    if problem["type"] == "model_type":
        return f"{field}: must be a group of names and values, not {value}. Remove it to use its defaults"
    message = _plain(problem)
    # Rules between fields name the fields themselves.
    if not problem["loc"]:
        return message
    # The message of a group names the value in it.
    if isinstance(problem["input"], dict | list):
        return f"{field}: {message}"
    return f"{field}: {message} (value: {value})"


def _hint(model: type[BaseModel], location: Sequence[str | int]) -> str:
    """Return the keys that an unknown one may mean: a similar one of its group, else of another group."""
    key = str(location[-1])
    names = _fields_at(model, location[:-1])
    paths = sorted(_paths(model), key=lambda path: path.partition(".")[0] not in SETTINGS_FIRST)
    endings = [path.rpartition(".")[2] for path in paths]
    similar = difflib.get_close_matches(key, endings, n=1, cutoff=CLOSE)
    elsewhere = [path for path, ending in zip(paths, endings, strict=True) if ending in similar]
    # A near miss in its own group, then the same key elsewhere, then a vague similarity in its own group.
    meant = (
        difflib.get_close_matches(key, names, n=1, cutoff=CLOSE)
        or elsewhere[:MAX_SUGGESTIONS]
        or difflib.get_close_matches(key, names, n=1, cutoff=0.5)
    )
    if not meant:
        return f"valid keys: {', '.join(names)}"
    return f"did you mean {' or '.join(map(repr, meant))}?"


def _paths(model: type[BaseModel], group: str = "") -> Iterator[str]:
    """Yield the dotted names of all fields of a configuration that are no list entries."""
    for name, field in model.model_fields.items():
        inside = _model_in(field.annotation)
        yield f"{group}{name}"
        is_list = get_origin(field.annotation) is list  # its entries have numbers
        if inside is not None and not is_list:
            yield from _paths(inside, f"{group}{name}.")


def _plain(problem: Json) -> str:
    """Return the message of a problem, with what to write where pydantic names a rule only."""
    limits = problem.get("ctx", {})
    if problem["type"] in ("too_short", "string_too_short") and isinstance(problem["input"], str):
        return "is empty. Write a text"
    if problem["type"] in ("too_long", "string_too_long") and isinstance(problem["input"], str):
        return (
            f"has {len(problem['input'])} characters, more than {limits['max_length']}. Shorten it"
        )
    if problem["type"] == "too_short":
        return f"needs at least {limits['min_length']} entries, has {limits['actual_length']}. Add entries"
    if problem["type"] == "string_pattern_mismatch" and limits["pattern"] == NAME:
        return "is no valid name. Write letters, digits, '.', '_' and '-', a letter or digit first, at most 63"
    return redact(str(problem["msg"]).removeprefix("Value error, "))


def _shown(value: object) -> str:
    """Return a value for a message, without secrets and at most `MAX_SHOWN` characters long."""
    text = redact(repr(hide_secrets(value)))
    if len(text) > MAX_SHOWN:
        text = f"{text[:MAX_SHOWN]}..."
    return text


def _fields_at(model: type[BaseModel], location: Sequence[str | int]) -> list[str]:
    current: Any = model
    for part in location:
        if isinstance(part, str) and part in getattr(current, "model_fields", {}):
            current = _model_in(current.model_fields[part].annotation)
    return sorted(getattr(current, "model_fields", {}))


def _model_in(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inside = [_model_in(part) for part in get_args(annotation)]
    return next((part for part in inside if part is not None), None)
