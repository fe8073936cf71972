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
class FlowEntry:
    """One flow: where it lives, the class of its configuration, what it does in a sentence."""

    name: str
    module: str
    config: str
    summary: str

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
