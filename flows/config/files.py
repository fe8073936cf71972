"""Reads a configuration file, applies `--set`, and words every mistake with its field."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.redaction import redact
from connectors.security.secret_patterns import find_secrets, hide_secrets
from flows.config.form import explain_secret
from flows.config.yaml_files import parse_yaml

Config = TypeVar("Config", bound=BaseModel)
BESIDE = ("task", "wasp_config")
"""Fields that name a file which may lie beside the configuration."""


def load_config(model: type[Config], path: Path, changes: Sequence[str] = ()) -> Config:
    """Return the configuration of `path` with `changes` ('a.b=value', YAML values) applied.

    A relative `data_root` starts from the folder of the file; the variable WASP_DATA replaces it.
    Files of `BESIDE` are looked for in the working folder, then beside the configuration.
    Raises ConfigError with the file, the field and what to write.
    """
    values = _read(path)
    for change in changes:
        _set(values, change)
    for finding in find_secrets(values):  # before paths are resolved, which hides what is an address
        raise ConfigError(f"{path}:\n  {explain_secret(finding)}")
    root = values.get("data_root")
    if isinstance(root, str):
        chosen = os.environ.get("WASP_DATA") or str((path.resolve().parent / root).resolve())
        values["data_root"] = chosen
    for field in BESIDE:
        named = values.get(field)
        if isinstance(named, str) and not Path(named).exists() and (path.resolve().parent / named).is_file():
            values[field] = str(path.resolve().parent / named)
    return check_config(model, values, str(path))


def check_config(model: type[Config], values: dict[str, Any], source: str) -> Config:
    """Validate `values`; ConfigError lists every wrong field, with the nearest known name for an unknown one."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        lines = [_explain(model, dict(problem)) for problem in error.errors()]
        raise ConfigError(f"{source}:\n  " + "\n  ".join(lines)) from None


def _read(path: Path) -> dict[str, Any]:
    try:
        values = parse_yaml(path.read_text(encoding="utf-8"), str(path))
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file. Configurations that ship: deployments/configs") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error})") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: is not YAML: {error}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: a configuration is a mapping of names to values, this is not")
    return values


def _set(values: dict[str, Any], change: str) -> None:
    name, equals, text = change.partition("=")
    if not equals or not name:
        raise ConfigError(f"--set {hide_secrets(change)}: write it as name=value, for example privacy.epsilon=2")
    *parents, last = name.split(".")
    place: Any = values
    for parent in parents:
        place = _step_into(place, parent, name)
    try:
        value = parse_yaml(text, f"--set {name}")
    except yaml.YAMLError:
        raise ConfigError(
            f"--set {hide_secrets(change)}: the value is not YAML; put text with special signs in quotes"
        ) from None
    if isinstance(place, list):
        place[_index(place, last, name)] = value
    else:
        place[last] = value


def _step_into(place: Any, parent: str, name: str) -> Any:
    if isinstance(place, list):
        return place[_index(place, parent, name)]
    if place.get(parent) is None:
        place[parent] = {}
    if not isinstance(place[parent], dict | list):
        raise ConfigError(f"--set {name}: '{parent}' is a value, not a group of values")
    return place[parent]


def _index(place: list[Any], text: str, name: str) -> int:
    if not text.isdigit() or int(text) >= len(place):
        raise ConfigError(f"--set {name}: '{text}' is not a position in a list of {len(place)}")
    return int(text)


def _explain(model: type[BaseModel], problem: dict[str, Any]) -> str:
    field = ".".join(str(part) for part in problem["loc"]) or "the configuration"
    if problem["type"] == "extra_forbidden":
        known = _fields_at(model, problem["loc"][:-1])
        near = difflib.get_close_matches(str(problem["loc"][-1]), known, n=1, cutoff=0.5)
        hint = f"did you mean '{near[0]}'?" if near else f"known here: {', '.join(known)}"
        return f"{field}: there is no such key; {hint}"
    if problem["type"] == "missing":
        return f"{field}: is missing"
    value = redact(repr(hide_secrets(problem["input"])))
    if problem["type"] == "model_type":
        return f"{field}: is a group of names and values, not {value}; leave it out for its defaults"
    message = redact(str(problem["msg"]).removeprefix("Value error, "))
    return f"{field}: {message} (given: {value})" if problem["loc"] else message


def _fields_at(model: type[BaseModel], where: tuple[Any, ...]) -> list[str]:
    current: Any = model
    for part in where:
        if isinstance(part, str) and part in getattr(current, "model_fields", {}):
            current = _model_in(current.model_fields[part].annotation)
    return sorted(getattr(current, "model_fields", {}))


def _model_in(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inside = [_model_in(part) for part in get_args(annotation)]
    return next((part for part in inside if part is not None), None)
