"""Limits of runs on a server for others: its policy is the file `server.yaml`, which no form of a run can change.

While the file exists, runs that the server starts may name registered datasets only, and every address, path and name
of their forms passes `require_addresses` before anything is read or sent. Commands of the owner of the state folder
have no limits. The limits stop mistakes in a form. Whoever has the account of the Prefect server can also change its
deployments and work pool, hence start any program of the worker: this person is the operator.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from connectors.interfaces.addresses import AddressKind, NamedAddress, OneOf
from connectors.interfaces.errors import ConfigError, PlaceError, ProblemsError
from connectors.interfaces.rows import BUILTIN
from connectors.rows.places import bases_of
from connectors.rows.sources import DATA, address_of, inside_package
from flows.config.environment import environment
from flows.config.extends import SHIPPED as CONFIGS
from flows.config.extends import find_config, is_config, read_layers, split_setting
from flows.config.files import check_config
from flows.config.paths import resolve_path, rows_ref
from flows.config.rows import DatasetView
from flows.config.task_files import SHIPPED as TASKS
from flows.config.task_files import shipped_tasks
from flows.engine.addresses import addresses_of
from flows.runtime.server_policy import (
    FILE,
    STARTED,
    ServerPolicy,
    check_host,
    serve_others,
    server_policy,
)
from flows.runtime.state_folder import state_path
from flows.runtime.stores import open_ledger

__all__ = [
    "FILE",
    "STARTED",
    "find_permitted_config",
    "require_addresses",
    "serve_others",
    "server_policy",
]

HUB = "hf://"
_HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")
_ADDRESS = re.compile(r"\s*[A-Za-z][\w+.-]*:\S+\s*")


def require_addresses(form: Any) -> None:
    """Raise ConfigError for each text of a form that names a place which this server does not permit.

    Call it before anything that the form names is read. It has no effect without limits. `form`: a pydantic model or a
    dataclass, whose fields say by their types what they name.
    """
    policy = server_policy()
    if policy is None:
        return
    wall = _Wall(policy, getattr(form, "data_root", None))
    # A dictionary keeps the order of the fields, and each problem once.
    problems: dict[str, None] = {}
    for address in addresses_of(form):
        try:
            wall.check(address)
        except ConfigError as error:
            problems[str(error)] = None
    if len(problems) > 1:
        raise ProblemsError(list(problems))
    if problems:
        raise ConfigError(*problems)


def find_permitted_config(field: str, name: str) -> Path:
    """Return the file of a configuration that a form names, after a check of the file and of each file it extends."""
    path = _config_file(name)
    policy = server_policy()
    if policy is not None:
        permit = partial(_Wall(policy, None).check_file, field)
        permit(path)
        if is_config(path):
            read_layers(path, permit)
    return path


class _Wall:
    """The rules for one form. `root`: base folder of its relative paths."""

    def __init__(self, policy: ServerPolicy, root: str | None) -> None:
        self._policy = policy
        self._root = root
        self._home = state_path()
        self._folder = Path(environment().data or self._home).expanduser().resolve()
        self._datasets: dict[tuple[int, int], str] | None = None

    def check(self, address: NamedAddress) -> None:
        """Raise ConfigError unless a form may name this place; an empty text names none."""
        field = address.field
        kind = address.kind
        value = address.value
        if not value:
            return
        if isinstance(kind, OneOf):
            if value not in kind.names:
                raise ConfigError(
                    f"{field}: this server does not accept this name, which may move or redirect a call. Use one of: "
                    f"{', '.join(sorted(kind.names))}"
                )
        elif kind in (AddressKind.ENDPOINT, AddressKind.TRACKING, AddressKind.CLUSTER):
            check_host(self._policy, address)
        elif kind in _OWN:
            _OWN[kind](field, value)
        elif kind is AddressKind.UNKNOWN:
            self._check_unknown(address)
        elif kind is AddressKind.EXCHANGE and "://" in value:
            check_host(self._policy, address)
        elif kind is AddressKind.KEY:
            raise ConfigError(
                f"{field}: this server cannot tell which host gets {value}. Remove it"
            )
        else:
            self._check_public(field, kind, value)

    def _check_unknown(self, address: NamedAddress) -> None:
        """Check a text of another package: it may be an address, the path of a file, or neither."""
        value = address.value
        if _ADDRESS.fullmatch(value) and not value.startswith((BUILTIN, HUB)):
            check_host(self._policy, address)
        elif any(path is not None and _exists(path) for path in self._paths(value)):
            self._check_public(address.field, AddressKind.FILE, value)

    # --- files
    def _check_public(self, field: str, kind: AddressKind, value: str) -> None:
        """Raise ConfigError unless a text is a name that ships, or a file that everybody may read."""
        if _is_name(kind, value):
            return
        if value.startswith((BUILTIN, HUB)) and "::" not in value and kind is not AddressKind.BASE:
            # Raises an error for a path that leaves the package.
            inside_package(value)
            return
        # Also env:NAME and http://, which must not be opened.
        if ":" in value or "*" in value:
            raise ConfigError(
                f"{field}: this server reads public rows and files from files below its data folder only. Ask its "
                "operator to copy them there, or use builtin: or hf://"
            )
        paths = self._paths(value)
        present = [path for path in paths if path is not None and _exists(path)]
        if kind is AddressKind.MODEL and not present and _HUB_ID.fullmatch(value):
            return
        for path in present or paths[:1]:
            if path is None:
                raise ConfigError(f"{field}: this is not a path. Write the path of a file")
            self.check_file(field, path, kind is AddressKind.BASE)

    def _paths(self, value: str) -> list[Path | None]:
        """Return the paths that a text may mean: below the base folder, and below the working folder."""
        return [_target(Path(resolve_path(value, base))) for base in (self._root, None)]

    def check_file(self, field: str, path: Path, is_base: bool = False) -> None:
        """Raise ConfigError for a path outside the data folder, in the state folder, or of a registered dataset.

        The files of a folder are checked too, unless it is only the base of other paths.
        """
        path = split_setting(path)[0]
        if _is_shipped(path):
            return
        files: Iterable[Path] = [path]
        if not is_base:
            files = _files_at(path)
        for file in files:
            # Links are resolved first: a link in the data folder may lead out of it.
            target = _target(file)
            if (
                target is None
                or not target.is_relative_to(self._folder)
                or target.is_relative_to(self._home)
            ):
                raise ConfigError(
                    f"{field}: this is not below the data folder of the server (WASP_DATA). Use another file."
                )
            # By inode and not by path: a hard link is a second path of a private file.
            if not is_base and (name := self._owners.get(_inode(target))) is not None:
                raise ConfigError(
                    f"{field}: this is a private file of dataset '{name}'. Use another file."
                )

    @property
    def _owners(self) -> dict[tuple[int, int], str]:
        """Device and inode of each file of a registered dataset, with its name: links do not hide it."""
        if self._datasets is None:
            self._datasets = dict(_registered_files(self._home))
        return self._datasets


def _require_own_state(field: str, value: str) -> None:
    if environment().home is None and Path(value).expanduser().resolve() != state_path():
        raise ConfigError(
            f"{field}: this server uses its own state folder. Set WASP_HOME of the worker"
        )


def _require_own_store(field: str, value: str) -> None:
    if value != environment().artifacts:
        raise ConfigError(
            f"{field}: this server uses its own artifacts. Set WASP_ARTIFACTS of the worker to them"
        )


def _require_folder_name(field: str, value: str) -> None:
    path = PurePosixPath(value)
    if path.is_absolute() or ".." in path.parts or not value.isprintable():
        raise ConfigError(
            f"{field}: this name is also a path out of its folder. Write a name without '..'"
        )


def _require_shipped_rows(field: str, value: str) -> None:
    if not value.startswith(BUILTIN):
        raise ConfigError(
            f"{field}: this server accepts registered datasets only. Let the owner of the rows register them "
            "(wasp dataset add NAME --path PATH) and write private: NAME"
        )
    inside_package(value)


_OWN: Mapping[AddressKind, Callable[[str, str], None]] = {
    AddressKind.STATE: _require_own_state,
    AddressKind.STORE: _require_own_store,
    AddressKind.NAME: _require_folder_name,
    AddressKind.SHIPPED: _require_shipped_rows,
}
"""Kinds whose texts are compared with what this process has itself."""


def _is_name(kind: AddressKind, value: str) -> bool:
    """Return True if a text is the name of a task or configuration that ships."""
    if kind is AddressKind.TASK:
        return value in shipped_tasks()
    return kind is AddressKind.CONFIG and _is_shipped(split_setting(_config_file(value))[0])


def _config_file(name: str) -> Path:
    """Return the file of a configuration: in the working folder, or one that ships."""
    path = find_config(Path(name))
    shipped = find_config(CONFIGS / name)
    if is_config(shipped) and not is_config(path):
        return shipped
    return path


def _is_shipped(path: Path) -> bool:
    target = _target(path)
    return target is not None and any(
        target.is_relative_to(folder) for folder in (DATA, CONFIGS, TASKS)
    )


def _target(path: Path) -> Path | None:
    """Return a path with its links resolved; None for a circle of links, or a path that no file can have."""
    try:
        return path.expanduser().resolve()
    except (OSError, RuntimeError, ValueError):
        return None


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def _files_at(path: Path) -> Iterator[Path]:
    """Yield a path, and all files and folders in it; links to folders are followed."""
    open_ = [path]
    seen = set[Path]()
    while open_:
        entry = open_.pop()
        yield entry
        folder = _target(entry)
        # Each folder once: links may form a circle.
        if (
            folder is not None
            and folder not in seen
            and os.access(folder, os.R_OK)
            and folder.is_dir()
        ):
            seen.add(folder)
            open_ += folder.iterdir()


def _registered_files(home: Path) -> Iterator[tuple[tuple[int, int], str]]:
    """Yield device and inode of each file of a registered dataset, with its name."""
    for name, (_, view) in open_ledger(home).views().items():
        where = rows_ref(check_config(DatasetView, view, f"dataset {name}"), None)
        try:
            address_of(where.path)
        except PlaceError:
            raise ConfigError(
                f"dataset '{name}': its address is in a variable that this process does not have, so its files cannot "
                "be told from public ones. Let the operator set the variable of the worker"
            ) from None
        try:
            files = [Path(re.sub("^(sqlite|duckdb) ", "", base)) for base in bases_of(where)]
        except PlaceError:
            # Its files do not exist or cannot be reached, so no form can name them.
            continue
        yield from ((_inode(file), name) for file in files if file.exists())


def _inode(file: Path) -> tuple[int, int]:
    try:
        status = file.stat()
    except OSError:
        # A broken link: no file has inode 0 of device 0.
        return 0, 0
    return status.st_dev, status.st_ino
