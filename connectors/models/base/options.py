"""Options of a language model as a configuration gives them: names are checked in one way for every connector."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from connectors.interfaces.base import (ConfigError, ModelSpec)


def refuse_unknown(spec: ModelSpec, known: Sequence[str]) -> None:
    """Raise ConfigError for an option that the spec's connector does not know, with the nearest one and the list."""
    refuse_names(f"Model '{spec.name}': the {spec.connector} connector has", spec.options, known)


def refuse_names(who_has: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Raise ConfigError '`who_has` no option ...' for a given name that is not known, with the nearest and the list."""
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, 1, 0.0)[0]
            raise ConfigError(f"{who_has} no option '{name}'. Did you mean '{near}'? It knows {', '.join(known)}.")
