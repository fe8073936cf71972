"""Registry of language models: connectors by entry point, imported on first use.

The entry points are in the group `wasp.connectors` (name = "package.module:Class"), for our own and other packages. A
class has `from_spec(spec: ModelSpec)` and is a `LanguageModel`. It may have:

- `check_spec(spec)`: raises ConfigError for every problem that can be detected before a run without calling or loading
  anything;
- `check_listed(spec)`: asks the vendor for its list of models;
- `measure_spec(spec)`: returns the `ModelSize` of weights that run on this machine.
"""

import sys
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points

from connectors.interfaces.errors import ConfigError, nearest
from connectors.interfaces.models import LanguageModel, ModelSize, ModelSpec

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
        hint = nearest(connector, known)
        raise ConfigError(
            f"plms '{name}': no connector '{connector}'.{hint} Connectors: {', '.join(known)}"
        )


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
        raise ConfigError(
            f"plms '{spec.name}': invalid value in options ({error}). Correct it."
        ) from error


def check_listed(spec: ModelSpec) -> None:
    """Check that the vendor of a model lists it, where its connector has a `check_listed(spec)`.

    Makes one free request. Raises ConfigError if the vendor does not list it, UncheckedError if that is unknown. Other
    problems of the model are those of `check_model`.
    """
    # `check_model` reports connectors, packages and values of options that are unusable.
    with suppress(KeyError, ImportError, TypeError, ValueError):
        check = getattr(connectors()[spec.connector].load(), "check_listed", None)
        if check is not None:
            check(spec)


def measure_model(spec: ModelSpec) -> ModelSize | None:
    """Return the size of a model's weights, where its connector has a `measure_spec(spec)`; None if unknown."""
    connector = connectors()[spec.connector].load()
    measure = getattr(connector, "measure_spec", None)
    if measure is None:
        return None
    size: ModelSize | None = measure(spec)
    return size


def open_model(spec: ModelSpec) -> LanguageModel:
    """Return the language model of a spec.

    Raises ConfigError for an unknown connector (with the list) and the errors of the connector's `from_spec`.
    """
    check_connector(spec.name, spec.connector)
    model: LanguageModel = connectors()[spec.connector].load().from_spec(spec)
    return model
