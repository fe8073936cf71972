"""Configurations by name: `wasp run triage` reads triage.yaml, `wasp run demo` a configuration that ships.

A configuration may name its flow in the key `flow`; else the flow is the one that begins the name of its setting or
file, or `wasp`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from connectors.interfaces.errors import ConfigError, nearest
from flows.config.extends import find_config, is_config, merge, read_layers, split_setting

DEFAULT_FLOW = "wasp"
FLOW_KEY = "flow"


def flow_and_file(name: str, config: Path | None, flows: Sequence[str]) -> tuple[str, Path]:
    """Return the flow and the configuration file of a command's argument and its option --config.

    Raises:
        ConfigError: `name` is no flow and no configuration, or --config is missing.
    """
    if config is not None:
        if name not in flows:
            raise ConfigError(f"{name}: there is no such flow.{nearest(name, flows)} Flows: {', '.join(flows)}")
        file = find_config(config)
        if is_config(file) and flow_of(file, flows, name) != name:
            run = config if "#" in file.name else file.stem
            raise ConfigError(f"{file}: this is a configuration of another flow. Run it with: wasp run {run}")
        return name, file
    file = find_config(Path(name))
    if is_config(file):
        return flow_of(file, flows), file
    if name in flows:
        raise ConfigError(f"--config: is missing. Write: wasp run {name} --config FILE, or the name of a configuration")
    raise ConfigError(
        f"{name}: there is no flow, no {name}.yaml in this folder and no shipped configuration of this name. Flows: "
        f"{', '.join(flows)}. Write one with: wasp init {name} --data FILE"
    )


def file_of(name: str | None, config: Path | None, command: str) -> Path:
    """Return the configuration file of a command whose argument may be a name, or whose --config a file or name.

    Raises:
        ConfigError: both are given, neither is, or there is no such configuration.
    """
    if name is not None and config is not None:
        raise ConfigError(f"Configuration '{name}' and --config {config}: give one of them")
    if name is None:
        if config is None:
            raise ConfigError(f"NAME: is missing. Write: wasp {command} NAME, such as demo, or --config FILE")
        return find_config(config)
    file = find_config(Path(name))
    if not is_config(file):
        raise ConfigError(f"{name}: there is no {name}.yaml in this folder, and no shipped configuration of this name")
    return file


def flow_of(file: Path, flows: Sequence[str], default: str = "") -> str:
    """Return the flow that a file names; else `default`, or the flow that begins its name."""
    flow = merge(read_layers(file)).get(FLOW_KEY)
    if flow is None and default:
        return default
    if flow is None:
        name, setting = split_setting(file)
        for stem in (setting, name.stem):
            if fitting := [name for name in flows if stem == name or stem.startswith(f"{name}_")]:
                return max(fitting, key=len)
        return DEFAULT_FLOW
    if flow not in flows:
        raise ConfigError(f"{file}: flow: '{flow}' is not a flow. Choose from {', '.join(flows)}")
    return str(flow)
