"""Registry of language models: connectors by entry point, imported on first use.

The entry points are in the group `wasp.connectors` (name = "package.module:Class"), for our own and other packages. A
class has `from_spec(spec: ModelSpec)` and is a `LanguageModel`. It may have `check_spec(spec: ModelSpec)`, which raises
ConfigError for every problem that can be detected before a run without calling or loading anything.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.models import LanguageModel, ModelSpec

REMOVED_OPTIONS = {
    "chat_options": "Remove it",
    "labels": "Rename the labels in the file",
    "repetition_penalty": "Remove it",
    "seed": "Remove it",
    "shuffle": "Remove it",
    "trust_remote_code": "Remove it; serve a model that needs its authors' code with vLLM and use the connector openai",
    "where": "Name a file of the wanted rows alone",
}
"""Options of `hf`, `fill_mask` and `recorded` that earlier versions had, with what to write instead."""


def refuse_unknown(spec: ModelSpec, known: Sequence[str]) -> None:
    """Raise ConfigError for an option that the spec's connector does not have.

    The message has the nearest option and the list, or what to write instead of a removed one.
    """
    for name in spec.options:
        if name not in known and name in REMOVED_OPTIONS:
            raise ConfigError(f"Model '{spec.name}': option {name}: removed in 0.3. {REMOVED_OPTIONS[name]}.")
    refuse_names(f"Model '{spec.name}': the {spec.connector} connector has", spec.options, known)


def refuse_names(who_has: str, names: Iterable[str], known: Sequence[str]) -> None:
    """Raise ConfigError '`who_has` no option ...' for the first unknown name.

    The message has the nearest option and the list.
    """
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, 1, 0.0)[0]
            raise ConfigError(f"{who_has} no option '{name}'. Did you mean '{near}'? Options: {', '.join(known)}.")


GROUP = "wasp.connectors"


def connectors() -> dict[str, EntryPoint]:
    """Return all installed connectors by name."""
    return _installed(tuple(sys.path))


@lru_cache
def _installed(_: tuple[str, ...]) -> dict[str, EntryPoint]:
    # Once per search path: reading the metadata of all packages takes longer than planning a run.
    return {point.name: point for point in entry_points(group=GROUP)}


def check_connector(name: str, connector: str) -> None:
    """Raise ConfigError, with the list, if a model's connector does not exist."""
    if connector in connectors():
        return
    _installed.cache_clear()  # it may have been installed meanwhile
    known = sorted(connectors())
    if connector not in known:
        near = difflib.get_close_matches(connector, known, n=1)
        hint = f"Did you mean '{near[0]}'? " if near else ""
        raise ConfigError(f"plms '{name}': no connector '{connector}'. {hint}Connectors: {', '.join(known)}")


def check_model(spec: ModelSpec) -> None:
    """Check a model before a run: connector, package, options, files, key.

    Makes no call. Uses the connector's `check_spec(spec)`; without one, the model is opened. Raises ConfigError.
    """
    check_connector(spec.name, spec.connector)
    try:
        connector = connectors()[spec.connector].load()
    except ImportError as error:
        raise ConfigError(
            f"plms '{spec.name}': the connector '{spec.connector}' cannot be imported ({error}). Install its packages."
        ) from error
    check = getattr(connector, "check_spec", None) or connector.from_spec
    try:
        check(spec)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"plms '{spec.name}': invalid value in options ({error}). Correct it.") from error


def open_model(spec: ModelSpec) -> LanguageModel:
    """Return the language model of a spec.

    Raises ConfigError for an unknown connector (with the list) and the errors of the connector's `from_spec`.
    """
    check_connector(spec.name, spec.connector)
    model: LanguageModel = connectors()[spec.connector].load().from_spec(spec)
    return model
