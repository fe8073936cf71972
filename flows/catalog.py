"""The flows by name: what `wasp run FLOW` knows. Nothing is imported until a flow is asked for."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from connectors.base import ConfigError

if TYPE_CHECKING:
    from prefect import Flow
    from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class Preset:
    """A filled form of a flow: its name in the UI, its file in deployments/configs, what it is, what stays empty."""

    name: str
    file: str
    summary: str
    blank: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FlowEntry:
    """One flow: where it lives, the class of its configuration, what it does in a sentence, its filled forms."""

    name: str
    module: str
    config: str
    summary: str
    presets: tuple[Preset, ...] = ()

    def flow(self) -> Flow[..., Any]:
        """Import and return the flow."""
        found: Flow[..., Any] = getattr(import_module(self.module), self.name)
        return found

    def config_class(self) -> type[BaseModel]:
        """Import and return the class of its configuration."""
        found: type[BaseModel] = getattr(import_module("flows.params"), self.config)
        return found


FLOWS = (
    FlowEntry(
        "wasp",
        "flows.wasp",
        "WaspConfig",
        "several language models write, private rows vote under DP, the best and worst become the next prompt",
        (
            Preset(
                "demo", "demo.yaml", "Our own support-desk texts and three embedded models: no key, about a minute."
            ),
            Preset("paper", "papers/wasp_imdb.yaml", "IMDb as the paper sets it (Table 1), six recorded models."),
            Preset(
                "own-data", "own_data.yaml", "A start for your own rows: fill in the empty fields.", ("private.path",)
            ),
        ),
    ),
)


def find_flow(name: str) -> FlowEntry:
    """Return the flow of that name; ConfigError with the nearest name and the list otherwise."""
    entries = {entry.name: entry for entry in FLOWS}
    if name not in entries:
        near = difflib.get_close_matches(name, entries, n=1)
        hint = f"Did you mean '{near[0]}'? " if near else ""
        raise ConfigError(f"There is no flow '{name}'. {hint}Flows: {', '.join(entries)}")
    return entries[name]
