"""Configurations by name, configurations that extend others, and files with several settings.

`wasp run triage` reads triage.yaml, `wasp run demo` a configuration that ships. A configuration may name its flow in
the key `flow`; else the flow is the one that begins the name of its setting or file, or `wasp`.

`extends: NAME` takes every value of another configuration that this one does not write. Groups are merged field by
field; lists are replaced. NAME is a setting of the same file, else a file in the same folder, else one that ships.
FILE#SETTING names a setting below `settings` of a file; `shared` of such a file has further bases, and YAML anchors.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connectors.interfaces.errors import ConfigError, nearest
from connectors.interfaces.json_values import Json
from flows.config.yaml_files import line_of, read_yaml

SHIPPED = Path(__file__).parents[2] / "deployments" / "configs"
EXTENDS = "extends"
SETTINGS = "settings"
SHARED = "shared"
FLOW_KEY = "flow"
DEFAULT_FLOW = "wasp"


@dataclass(frozen=True, slots=True)
class Layer:
    """The values that one configuration writes; `path` names its file, and its setting after `#`."""

    path: Path
    values: Json

    @property
    def file(self) -> Path:
        """File of the configuration."""
        return split_setting(self.path)[0]

    def contains(self, field: str) -> bool:
        """Return True if it writes a field such as 'privacy.epsilon'."""
        node: Any = self.values
        for part in field.split("."):
            if not isinstance(node, dict) or part not in node:
                # Lists replace those of a base: each entry is of the layer that writes the list.
                return isinstance(node, list)
            node = node[part]
        return True


def split_setting(path: Path) -> tuple[Path, str]:
    """Return the file of a path, and its setting; empty without `#`."""
    # The name of a file may contain `#`.
    if path.exists():
        return path, ""
    file, _, setting = str(path).partition("#")
    return Path(file), setting


def find_config(path: Path) -> Path:
    """Return the file of a path or name: itself, NAME.yaml in the working folder, or a shipped NAME.yaml.

    A setting after `#` is kept.
    """
    file, setting = split_setting(path)
    candidates = [file]
    # A name with an ending is a path: a shipped configuration must not take the place of a missing file.
    if not file.suffix:
        candidates += [file.with_name(f"{file.name}.yaml"), SHIPPED / f"{file}.yaml"]
    present = next(filter(Path.is_file, candidates), None)
    if present is None:
        return path
    if not setting:
        return present
    return Path(f"{present}#{setting}")


def is_config(path: Path) -> bool:
    """Return True if the file of a configuration exists."""
    return split_setting(path)[0].is_file()


def read_layers(path: Path, permit: Callable[[Path], None] | None = None) -> list[Layer]:
    """Return a configuration, its base, the base of that, and so on.

    `permit` is called with each path before it is read; its errors are passed on.

    Raises:
        ConfigError: a file or setting is missing or is not a mapping, or the bases form a circle.
    """
    layers: list[Layer] = []
    current = path
    while True:
        if permit is not None:
            permit(current)
        values = _values(current)
        # The layer has the same mapping, whose `extends` is removed below.
        layers.append(Layer(current, values))
        name = values.pop(EXTENDS, None)
        if name is None:
            return layers
        if not isinstance(name, str):
            raise ConfigError(
                f"{current}: extends: must be the name of a configuration, not {name!r}"
            )
        base = _base(current, name)
        # By path and setting: settings of one file may extend each other.
        passed = [layer.path for layer in layers]
        if base in passed:
            circle = " extends ".join(str(layer) for layer in [*passed[passed.index(base) :], base])
            raise ConfigError(
                f"{current}: extends: the bases form a circle ({circle}). Remove one of them"
            )
        current = base


def merge(layers: Sequence[Layer]) -> Json:
    """Return the values of all layers; the first has precedence."""
    merged: Json = {}
    for layer in reversed(layers):
        merged = _merge(merged, layer.values)
    return merged


def line_in(layers: Sequence[Layer], field: str) -> str | None:
    """Return the line of a field such as `plms.0.name`, with its file if a base writes it."""
    layer = next((layer for layer in layers if layer.contains(field)), layers[0])
    _, setting = split_setting(layer.path)
    if setting:
        field = f"{SETTINGS}.{setting}.{field}"
    line = line_of(layer.file, field)
    if line is None:
        return None
    if layer.file == layers[0].file:
        return str(line)
    return f"{line} of {layer.file}"


def _merge(base: Json, values: Json) -> Json:
    merged = dict(base)
    for name, value in values.items():
        if isinstance(value, dict) and isinstance(merged.get(name), dict):
            merged[name] = _merge(merged[name], value)
        else:
            # Copied, because files are cached and `--set` changes values in place.
            merged[name] = deepcopy(value)
    return merged


def _base(path: Path, name: str) -> Path:
    """Return the path of the base that a configuration names."""
    file, setting = split_setting(path)
    if setting and name in _entries(read_yaml(file)):
        return Path(f"{file}#{name}")
    base = find_config(file.parent / name)
    if not is_config(base):
        base = find_config(Path(name))
    if not is_config(base):
        raise ConfigError(
            f"{path}: extends: there is no configuration '{name}', neither beside it nor a shipped one"
        )
    return base


def _values(path: Path) -> Json:
    """Return a copy of the values of a configuration."""
    file, setting = split_setting(path)
    values = read_yaml(file)
    if not isinstance(values, dict):
        raise ConfigError(
            f"{file}: a configuration is a mapping of names to values, but this file is not. Copy a shipped one, or "
            "write one with: wasp init"
        )
    if not _has_settings(values):
        if setting:
            raise ConfigError(f"{path}: this file has no settings. Write {file}")
        return deepcopy(values)
    entries = _entries(values)
    if setting not in entries:
        problem = "contains several settings"
        if setting:
            problem = f"there is no setting '{setting}'"
        raise ConfigError(
            f"{file}: {problem}. Write {file}#NAME with one of: {', '.join(values[SETTINGS])}"
        )
    if not isinstance(entries[setting], dict):
        raise ConfigError(f"{path}: a setting is a mapping of names to values. Write at least one")
    return deepcopy(entries[setting])


def _has_settings(values: Json) -> bool:
    # A method may have a field of this name, therefore no other key may stand beside it.
    return isinstance(values.get(SETTINGS), dict) and set(values) <= {SETTINGS, SHARED}


def _entries(values: Json) -> Json:
    shared = values.get(SHARED)
    if not isinstance(shared, dict):
        return dict(values[SETTINGS])
    return {**shared, **values[SETTINGS]}


def flow_and_file(name: str | None, config: Path | None, flows: Sequence[str]) -> tuple[str, Path]:
    """Return the flow and the configuration file of a command's argument and its option --config.

    Raises:
        ConfigError: `name` is no configuration, nor the flow of --config; or both are missing.
    """
    if config is None and name is None:
        raise ConfigError(
            "NAME: is missing. Write the name of a configuration, such as demo, or --config FILE"
        )
    if config is not None:
        file = find_config(config)
        if name is None:
            return flow_of(file, flows), file
        if name not in flows:
            raise ConfigError(
                f"{name}: there is no such flow.{nearest(name, flows)} Flows: {', '.join(flows)}"
            )
        if is_config(file) and flow_of(file, flows, name) != name:
            run = config if "#" in file.name else file.stem
            raise ConfigError(
                f"{file}: this is a configuration of another flow. Run it with: wasp run {run}"
            )
        return name, file
    file = find_config(Path(str(name)))
    if is_config(file):
        return flow_of(file, flows), file
    if name in flows:
        raise ConfigError(
            f"--config: is missing. Write: wasp run {name} --config FILE, or the name of a configuration"
        )
    raise ConfigError(
        f"{name}: there is no flow, no {name}.yaml in this folder and no shipped configuration of this name. Flows: "
        f"{', '.join(flows)}. Write one with: wasp init {name} --data FILE"
    )


def flow_of(file: Path, flows: Sequence[str], default: str = "") -> str:
    """Return the flow that a file names; else `default`, or the flow that begins its name."""
    flow = merge(read_layers(file)).get(FLOW_KEY)
    if flow is None and default:
        return default
    if flow is None:
        name, setting = split_setting(file)
        for stem in (setting, name.stem):
            # The longest: `dp_sgd_gen_here` is of dp_sgd_gen, even if there were a flow dp_sgd.
            if fitting := [name for name in flows if stem == name or stem.startswith(f"{name}_")]:
                return max(fitting, key=len)
        return DEFAULT_FLOW
    if flow not in flows:
        raise ConfigError(f"{file}: flow: '{flow}' is not a flow. Choose from {', '.join(flows)}")
    return str(flow)
