"""Names to language models: a connector is found by entry point and imported on first use.

Entry points of the group `wasp.connectors` (name = "package.module:Class"), ours and other people's alike. A class
has `from_spec(spec: ModelSpec)` and is a `LanguageModel`. It may have `check_spec(spec: ModelSpec)`, which raises
ConfigError for whatever can be found wrong or missing before a run without calling or loading anything.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.models import LanguageModel, ModelSpec


def refuse_unknown(spec: ModelSpec, known: Sequence[str]) -> None:
    """Raise ConfigError for an option that the spec's connector does not know, with the nearest one and the list."""
    refuse_names(f"Model '{spec.name}': the {spec.connector} connector has", spec.options, known)


def refuse_names(who_has: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Raise ConfigError '`who_has` no option ...' for a given name that is not known, with the nearest and the list."""
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, 1, 0.0)[0]
            raise ConfigError(f"{who_has} no option '{name}'. Did you mean '{near}'? It knows {', '.join(known)}.")


GROUP = "wasp.connectors"


def connectors() -> dict[str, EntryPoint]:
    """Return every connector that is installed, by name."""
    return _installed(tuple(sys.path))


@lru_cache
def _installed(_: tuple[str, ...]) -> dict[str, EntryPoint]:
    # Once for a search path: reading what all packages say of themselves takes longer than to plan a run.
    return {point.name: point for point in entry_points(group=GROUP)}


def check_connector(name: str, connector: str) -> None:
    """Raise ConfigError, with the list, if the model `name` asks for a connector that there is not."""
    if connector in connectors():
        return
    _installed.cache_clear()  # it may have been installed since this process looked
    known = sorted(connectors())
    if connector not in known:
        near = difflib.get_close_matches(connector, known, n=1)
        hint = f"Did you mean '{near[0]}'? " if near else ""
        raise ConfigError(f"plms '{name}': there is no connector '{connector}'. {hint}Connectors: {', '.join(known)}")


def check_model(spec: ModelSpec) -> None:
    """Check a model that `spec` describes before a run: connector, package, options, files, key; nothing is called.

    A connector says how by `check_spec(spec)`; where it has none, the model is opened. Raises ConfigError.
    """
    check_connector(spec.name, spec.connector)
    try:
        connector = connectors()[spec.connector].load()
    except ImportError as error:
        raise ConfigError(
            f"plms '{spec.name}': the connector '{spec.connector}' cannot be imported ({error}). Install what it needs."
        ) from error
    check = getattr(connector, "check_spec", None) or connector.from_spec
    try:
        check(spec)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"plms '{spec.name}': options: a value cannot be read ({error}). Correct it.") from error


def open_model(spec: ModelSpec) -> LanguageModel:
    """Return the language model that `spec` describes.

    Raises ConfigError for an unknown connector (with the list) and whatever the connector's `from_spec` refuses.
    """
    check_connector(spec.name, spec.connector)
    model: LanguageModel = connectors()[spec.connector].load().from_spec(spec)
    return model
