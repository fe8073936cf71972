"""Cache rule of all steps: reuse an artifact if it is intact and its key matches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import TYPE_CHECKING, Any, Final

from connectors.interfaces.artifacts import ArtifactRef, StepKey

if TYPE_CHECKING:
    import pandas as pd

    from connectors.artifacts.store import Artifacts

ROOMS_OF_STEPS: Final = ("writing", "students", "private", "guidance", "evaluation")
"""Packages of tasks/ whose modules declare versions."""

_DECLARED: dict[str, tuple[str, int]] = {}
"""The module that declares each kind of key, and its version."""


def declare_versions(module: str, versions: Mapping[str, int]) -> None:
    """Declare the version of each kind of key that a module makes; `module` is its `__name__`.

    Increase a version when the meaning of its step changes; test_step_versions.py fails on a change without an
    increase. Raises ValueError if another module declares the same kind of key.
    """
    for kind, version in versions.items():
        # One owner of each kind, or two steps could give one key to different results.
        owner, _ = _DECLARED.setdefault(kind, (module, version))
        if owner != module:
            raise ValueError(f"Keys '{kind}' are declared in {owner} and in {module}. Rename one.")


def all_versions() -> dict[str, int]:
    """Return the version of every kind of key."""
    _import_steps()
    return {kind: version for kind, (_, version) in _DECLARED.items()}


def declaring_modules() -> dict[str, str]:
    """Return the name of the module that declares each kind of key."""
    _import_steps()
    return {kind: module for kind, (module, _) in _DECLARED.items()}


@cache
def _import_steps() -> None:
    """Import every module that may declare a version."""
    # A module declares its versions when it is imported, and a run does not import all of them.
    for room in ROOMS_OF_STEPS:
        package = import_module(f"tasks.{room}")
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)


def step_key(kind: str, parameters: dict[str, object], inputs: dict[str, str]) -> StepKey:
    """Return a key of this kind in its current version."""
    # The module that makes a key need not import the one that declares its version.
    if kind not in _DECLARED:
        _import_steps()
    _, version = _DECLARED[kind]
    return StepKey(kind, version, parameters, inputs)


def make_once(
    store: Artifacts,
    path: str,
    key: StepKey,
    make: Callable[[], ArtifactRef],
    stale: Callable[[ArtifactRef], str] = lambda _: "",
) -> tuple[ArtifactRef, str]:
    """Return the artifact at `path` and why it was reused or made.

    `make` runs only on a cache miss. `stale` returns why an intact artifact must not be reused; empty if it may.
    """
    cached, why = store.look_up(path, key)
    if cached is None:
        return make(), why
    reason = stale(cached)
    if reason:
        return make(), reason
    return cached, why


def json_once(
    store: Artifacts, path: str, key: StepKey, values: Callable[[], dict[str, Any]]
) -> tuple[ArtifactRef, str]:
    """Return the JSON at `path` and why it was reused or made; `values` runs only on a cache miss."""
    return make_once(store, path, key, lambda: store.write_json(path, values(), key))


def table_once(
    store: Artifacts, path: str, key: StepKey, table: Callable[[], pd.DataFrame]
) -> tuple[ArtifactRef, str]:
    """Return the table at `path` and why it was reused or made; `table` runs only on a cache miss."""
    return make_once(store, path, key, lambda: store.write_table(path, table(), key))
