"""Limits of runs on a server for others: its policy is the file `server.yaml`, which no form of a run can change.

While the file exists, runs that the server starts may name registered datasets only. Commands of the owner of the state
folder have no limits. The limits stop mistakes in a form. Whoever has the account of the Prefect server can also
change its deployments and work pool, hence start any program of the worker: this person is the operator.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field

from connectors.artifacts.atomic_files import write_text_whole
from connectors.interfaces.errors import ConfigError, PlaceError
from connectors.interfaces.models import ModelSpec
from connectors.interfaces.rows import BUILTIN, RowsRef
from connectors.models.base.registry import open_model
from connectors.rows.places import bases_of, places_of
from connectors.rows.sources import DATA, inside_package
from flows.config.base import AnyConfig
from flows.config.environment import environment
from flows.config.extends import SHIPPED as CONFIGS
from flows.config.files import check_config
from flows.config.paths import place, rows_ref
from flows.config.rows import DatasetView
from flows.config.task_files import SHIPPED as TASKS
from flows.runtime.state_folder import state_path
from flows.runtime.stores import open_ledger

HUB = "hf://"
ROWS = {"private", "test", "public", "few_shot"}
"""Fields of rows: `private` names a dataset, `require_public` checks the others."""
FILE = "server.yaml"
STARTED = "PREFECT__FLOW_RUN_ID"
"""Variable of a process that a worker started for a run."""

_CONTENT = """# Runs of other people start here: they may name registered datasets only (wasp dataset add).
# Remove this file to lift the limits. A host other than the vendor's gets a key if it is listed:
#   keys: {llm.example.org: [env:MY_KEY]}
keys: {}
"""


class ServerPolicy(BaseModel):
    """Limits of the runs that a server starts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    keys: dict[str, list[str]] = Field({}, description="References to keys that a host may get.")


def server_policy() -> ServerPolicy | None:
    """Return the policy of this process; None for the owner's own commands. ConfigError if the file is invalid."""
    path = state_path() / FILE
    if STARTED not in os.environ or not path.exists():
        return None
    return check_config(ServerPolicy, yaml.safe_load(path.read_text(encoding="utf-8")) or {}, str(path))


def serve_others(home: Path) -> None:
    """Limit the runs that a server starts on a state folder; an existing file stays."""
    if not (home / FILE).exists():
        write_text_whole(home / FILE, _CONTENT, private=True)


def require_public(field: str, where: RowsRef, home: Path) -> None:
    """Raise ConfigError unless public rows come with the package, from the hub, or from a public file of WASP_DATA."""
    if server_policy() is None or where.path.startswith((BUILTIN, HUB)):
        return
    if where.query is not None or ":" in where.path:  # also env:NAME and http://, which must not be opened
        raise ConfigError(
            f"{field}.path: this server reads public rows from files below its data folder only. Ask its operator to "
            "copy them there, or use builtin: or hf://"
        )
    _require_public_paths([(f"{field}.path", Path(file)) for file in places_of(where)], home)


def require_public_files(config: AnyConfig, home: Path) -> None:
    """Raise ConfigError if another value of a configuration is a file that the server does not read.

    A vocabulary or recorded completions are read without noise, like public rows.
    """
    if server_policy() is None:
        return
    paths = []
    for field, value in _texts(config.model_dump(mode="json", exclude=ROWS)):
        try:
            path = Path(place(inside_package(value.removeprefix("file://")), config.data_root)).expanduser()
            is_there = path.exists()
        except (OSError, PlaceError, RuntimeError, ValueError):  # no path: a long text, an unknown user
            continue
        if is_there and not any(path.resolve().is_relative_to(shipped) for shipped in (DATA, CONFIGS, TASKS)):
            paths.append((field, path))
    _require_public_paths(paths, home)


def _require_public_paths(paths: Sequence[tuple[str, Path]], home: Path) -> None:
    """Raise ConfigError for a path outside the data folder, in the state folder's private parts, or of a dataset.

    `paths`: each with its field.
    """
    folder = Path(environment().data or state_path()).expanduser().resolve()
    closed = [home.resolve() / name for name in ("private", "ledger.db", FILE)]
    resolved = [(field, path.resolve()) for field, path in paths]
    for field, path in resolved:
        if not path.is_relative_to(folder) or any(path.is_relative_to(part) for part in closed):
            raise ConfigError(
                f"{field}: this is not below the data folder of the server (WASP_DATA). Use another file."
            )
    owned = dict(_registered_files(home)) if resolved else {}
    for field, path in resolved:
        for file in path.rglob("*") if path.is_dir() else (path,):
            if (name := owned.get(_inode(file))) is not None:
                raise ConfigError(f"{field}: this is a private file of dataset '{name}'. Use another file.")


def _registered_files(home: Path) -> Iterator[tuple[tuple[int, int], str]]:
    """Yield device and inode of each file of a registered dataset, with its name: links do not hide it."""
    for name, (_, view) in open_ledger(home).views().items():
        for base in bases_of(rows_ref(check_config(DatasetView, view, f"dataset {name}"), None)):
            file = Path(base.removeprefix("sqlite "))
            if file.exists():
                yield _inode(file), name


def _inode(file: Path) -> tuple[int, int]:
    try:
        status = file.stat()
    except OSError:  # a broken link
        return 0, 0
    return status.st_dev, status.st_ino


def require_listed_keys(spec: ModelSpec) -> None:
    """Raise ConfigError if a key would go to a host that the operator did not list for it.

    A vendor's own key may go to the vendor's own host.
    """
    policy = server_policy()
    if policy is None or not spec.options.keys() & {"key", "endpoint", "endpoints"}:
        return
    for host, key in getattr(open_model(spec), "foreign_keys", ()):
        if key not in policy.keys.get(host, ()):
            raise ConfigError(
                f"plms '{spec.name}': this server sends {key} to no host {host}. Let its operator add it to "
                f"server.yaml in the state folder: keys: {{{host}: [{key}]}}"
            )


def _texts(value: Any, field: str = "") -> Iterator[tuple[str, str]]:
    """Yield every text of nested values, with its field."""
    if isinstance(value, str):
        yield field, value
    elif isinstance(value, (dict, list)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for name, part in items:
            yield from _texts(part, f"{field}.{name}" if field else str(name))
