"""Reads a configuration file, applies `--set`, and reports errors by field."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.redaction import redact
from connectors.security.secret_patterns import find_secrets, hide_secrets
from flows.config.form import Strict, explain_secret
from flows.config.yaml_files import parse_yaml

Config = TypeVar("Config", bound=BaseModel)
BESIDE = ("task", "wasp_config")
"""Fields with the name of a file that may be in the folder of the configuration."""


def load_config(model: type[Config], path: Path, changes: Sequence[str] = ()) -> Config:
    """Return the configuration of `path` with `changes` ('a.b=value') applied.

    Values of `changes` are YAML. A relative `data_root` is relative to the folder of the file; the variable WASP_DATA
    overrides it.
        Files of `BESIDE` are resolved in the working folder, then in the folder of the configuration.
        Raises ConfigError with the file, the field and the fix.
    """
    values = _read(path)
    for change in changes:
        _set(values, change)
    for finding in find_secrets(values):  # before paths are resolved, which would hide addresses
        raise ConfigError(f"{path}:\n  {explain_secret(finding)}")
    root = values.get("data_root")
    if isinstance(root, str):
        values["data_root"] = os.environ.get("WASP_DATA") or str((path.resolve().parent / root).resolve())
    for field in BESIDE:
        file = values.get(field)
        if isinstance(file, str) and not Path(file).exists() and (path.resolve().parent / file).is_file():
            values[field] = str(path.resolve().parent / file)
    return check_config(model, values, str(path))


def check_config(model: type[Config], values: dict[str, Any], source: str) -> Config:
    """Return the validated configuration; ConfigError lists every invalid field."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        lines = [_explain(model, dict(problem)) for problem in error.errors()]
        raise ConfigError(f"{source}:\n  " + "\n  ".join(lines)) from None


def read_stored(model: type[Config], manifest: Mapping[str, Any]) -> Config:
    """Return the configuration in the manifest of a run, of this version or an earlier one."""
    values = manifest["config"]
    values = model.stored(values) if issubclass(model, Strict) else values
    return check_config(model, values, f"manifest of {manifest['run_id']}")


def _read(path: Path) -> dict[str, Any]:
    try:
        values = parse_yaml(path.read_text(encoding="utf-8"), str(path))
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file. Shipped configurations are in deployments/configs") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error})") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: is not YAML: {error}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: a configuration is a mapping of names to values, but this file is not")
    return values


def _set(values: dict[str, Any], change: str) -> None:
    name, equals, text = change.partition("=")
    if not equals or not name:
        raise ConfigError(f"--set {hide_secrets(change)}: write it as name=value, for example privacy.epsilon=2")
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
    if node.get(parent) is None:
        node[parent] = {}
    if not isinstance(node[parent], dict | list):
        raise ConfigError(f"--set {name}: '{parent}' is a value, not a group of values")
    return node[parent]


def _index(items: list[Any], text: str, name: str) -> int:
    if not text.isdigit() or int(text) >= len(items):
        raise ConfigError(f"--set {name}: '{text}' is not a position in a list of {len(items)}")
    return int(text)


def _explain(model: type[BaseModel], problem: dict[str, Any]) -> str:
    field = ".".join(str(part) for part in problem["loc"]) or "the configuration"
    if problem["type"] == "extra_forbidden":
        names = _fields_at(model, problem["loc"][:-1])
        near = difflib.get_close_matches(str(problem["loc"][-1]), names, n=1, cutoff=0.5)
        hint = f"did you mean '{near[0]}'?" if near else f"valid keys: {', '.join(names)}"
        return f"{field}: unknown key; {hint}"
    if problem["type"] == "missing":
        return f"{field}: is missing"
    value = redact(repr(hide_secrets(problem["input"])))
    if problem["type"] == "model_type":
        return f"{field}: must be a group of names and values, not {value}. Remove it to use its defaults"
    message = redact(str(problem["msg"]).removeprefix("Value error, "))
    return f"{field}: {message} (value: {value})" if problem["loc"] else message


def _fields_at(model: type[BaseModel], location: tuple[Any, ...]) -> list[str]:
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
