"""Files at an fsspec address, for several machines: s3://, gs://, abfs://, or a shared folder."""

from __future__ import annotations

import importlib.util
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import urlsplit

from connectors.artifacts.atomic_files import explained, make_folder, write_whole
from connectors.interfaces.errors import ArtifactError, ConfigError, MissingPackageError
from connectors.interfaces.json_values import Json
from connectors.interfaces.packages import pip_install

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

PACKAGES = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "abfs": "adlfs",
    "az": "adlfs",
}
LOCAL = {"", "file"}
BLOCK = 1 << 20
OWN = 0o755
"""Mode of a folder that only its owner writes."""
SECONDS = 60.0
SLOWEST = 100_000
"""A transfer times out after these seconds, plus a second for each `SLOWEST` bytes."""
ABSENT = (FileNotFoundError, IsADirectoryError)
# By default a client retries for minutes, and a run looks as if it hung.
_OPTIONS: dict[str, Json] = {
    "s3fs": {
        "config_kwargs": {
            "connect_timeout": 10,
            "read_timeout": 30,
            "retries": {"total_max_attempts": 2},
        }
    }
}


class RemoteFiles:
    """Files below `address`. Connects on first use; pickles as its address.

    With `prefix`, this process writes and removes only files below it, and refuses a folder in which another user could
    replace them. A store such as S3 enforces this by a policy for each prefix.
    """

    def __init__(self, address: str, prefix: str = "") -> None:
        self.setting = "WASP_ARTIFACTS"
        if prefix:
            self.setting = "exchange"
        self.address = check_address(address, self.setting)
        self.prefix = prefix
        self._opened: tuple[AbstractFileSystem, str] | None = None
        self._is_claimed = not prefix or not self.is_folder

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.address, self.prefix)

    @property
    def is_folder(self) -> bool:
        """True for a folder on this machine."""
        return urlsplit(self.address).scheme in LOCAL

    def url_of(self, name: str) -> str:
        """Return the address of a file."""
        if not name:
            return self.address
        return f"{self.address}/{name}"

    def read(self, name: str) -> bytes | None:
        """Return a file's bytes, None if it does not exist."""
        with self._open(name) as (system, root), suppress(*ABSENT):
            data: bytes = system.cat_file(f"{root}/{name}")
            return data
        return None

    def read_all(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return the bytes of those of the files that exist."""
        results: dict[str, bytes | Exception] = {}
        with self._open("") as (system, root):
            if names:
                # A missing file is a result here: the requests run at once, and the others are needed.
                results = system.cat([f"{root}/{name}" for name in names], on_error="return")
            for data in results.values():
                if not isinstance(data, bytes | FileNotFoundError):
                    raise data
        return {
            path.removeprefix(f"{root}/"): data
            for path, data in results.items()
            if isinstance(data, bytes)
        }

    def fetch(self, name: str, location: Path) -> None:
        """Copy a file atomically to `location` on this machine."""
        with self._open(name) as (system, root), system.open(f"{root}/{name}") as file:
            write_whole(location, lambda target: target.writelines(self._blocks(name, file)))

    def _blocks(self, name: str, file: BinaryIO) -> Iterator[bytes]:
        while True:
            with self._open(name):  # otherwise write_whole would report an error of the local disk
                block = file.read(BLOCK)
            if not block:
                return
            yield block

    def write(self, name: str, source: Path | bytes) -> None:
        """Write a file from bytes or from a local file; the last writer wins."""
        self._check_own(name)
        with self._open(name) as (system, root):
            if self.is_folder:
                location = Path(root) / name
                if self.prefix:
                    make_folder(location.parent, mode=OWN)
                data = source
                if isinstance(data, Path):
                    data = data.read_bytes()
                # Not fsspec's writer: readers of a shared folder would see the file while it grows.
                write_whole(location, lambda target: target.writelines([data]))
            elif isinstance(source, bytes):
                _in_time(system, "pipe_file", (f"{root}/{name}", source), len(source))
            else:
                _in_time(system, "put_file", (str(source), f"{root}/{name}"), source.stat().st_size)

    def remove(self, names: Sequence[str]) -> None:
        """Remove files; a missing file is not an error."""
        for name in names:
            self._check_own(name)
            with self._open(name) as (system, root), suppress(*ABSENT):
                system.rm_file(f"{root}/{name}")

    def exists(self, name: str) -> bool:
        """Return True if a file of this name exists."""
        with self._open(name) as (system, root), suppress(*ABSENT):
            return bool(system.info(f"{root}/{name}")["type"] == "file")
        return False

    def below(self, name: str) -> list[str]:
        """Return the name of a file, or the names of all files below a folder, sorted."""
        with self._open(name) as (system, root):
            system.invalidate_cache()
            paths = system.find(f"{root}/{name}".rstrip("/"))
        return sorted(path.removeprefix(f"{root}/") for path in paths)

    def match(self, pattern: str) -> list[str]:
        """Return the names of all files that match a glob pattern, sorted."""
        with self._open(pattern) as (system, root):
            system.invalidate_cache()
            return sorted(
                path.removeprefix(f"{root}/") for path in system.glob(f"{root}/{pattern}")
            )

    @contextmanager
    def _open(self, name: str) -> Iterator[tuple[AbstractFileSystem, str]]:
        """Open the store; turn every error except a missing file into ArtifactError."""
        try:
            if self._opened is None:
                self._opened = _connect(self.address)
            yield self._opened
        except (ArtifactError, ConfigError):
            raise
        except Exception as error:
            # Every storage system has its own errors.
            raise ArtifactError(
                f"The artifact store is not available: {self.url_of(name)} ({type(error).__name__}: {error}). Check "
                "that it is reachable, that the bucket exists and that the credentials allow read, write, list and "
                f"delete ({self.setting}). Then run: wasp resume RUN_ID. Finished results are reused."
            ) from error

    def _check_own(self, name: str) -> None:
        """Raise ConfigError for a file that another writer owns; claim the folder of the prefix on first use."""
        if self.prefix and (not name.startswith(f"{self.prefix}/") or ".." in name.split("/")):
            raise ConfigError(
                f"exchange: {name} is not below {self.prefix}/, the only folder of this writer."
            )
        if not self._is_claimed:
            root = Path(self.address)
            with explained(root):
                make_folder(root, mode=OWN)
                folders = [
                    root,
                    *(root / part for part in reversed(Path(self.prefix).parents) if part.name),
                ]
                for folder in folders:  # in each of them every writer creates its own folder
                    folder.mkdir(mode=OWN, exist_ok=True)
                    with suppress(PermissionError):  # another user's folder
                        folder.chmod(stat.S_IMODE(root.stat().st_mode))
                    _check_mode(folder, is_shared=True)
                make_folder(root / self.prefix, mode=OWN)
                _check_mode(root / self.prefix, is_shared=False)
            self._is_claimed = True


def _check_mode(folder: Path, is_shared: bool) -> None:
    """Raise ConfigError if another user can rename (`is_shared`) or write the files of a folder."""
    status = folder.stat()
    others_write = bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)) and os.name == "posix"
    mode = f"(mode {stat.S_IMODE(status.st_mode):o})"
    if is_shared and others_write and not status.st_mode & stat.S_ISVTX:
        raise ConfigError(
            f"exchange: other users can rename the folders in {folder} {mode}. Run: chmod +t {folder}"
        )
    if not is_shared and os.name == "posix" and status.st_uid != os.geteuid():
        raise ConfigError(
            f"exchange: {folder} belongs to another user (uid {status.st_uid}). Ask its owner to remove it; each party "
            "creates its own."
        )
    if not is_shared and others_write:
        raise ConfigError(
            f"exchange: other users can write to {folder} {mode}. Run: chmod go-w {folder}"
        )


def check_address(address: str, setting: str = "WASP_ARTIFACTS") -> str:
    """Return a store address without trailing slash; ConfigError if it is invalid.

    MissingPackageError if its package is not installed. `setting`: name of the setting, for errors.
    """
    parts = urlsplit(address)
    if parts.scheme not in {*PACKAGES, *LOCAL}:
        raise ConfigError(
            f"{setting}: unknown scheme '{parts.scheme}://'. Use s3://BUCKET/PREFIX, "
            "gs://BUCKET/PREFIX, abfs://CONTAINER/PREFIX, or the path of a shared folder"
        )
    if "@" in parts.netloc or "?" in address:
        raise ConfigError(
            f"{setting}: an address must not contain a password or options. Set them in the environment."
        )
    if parts.scheme in LOCAL:
        return str(Path(parts.path).expanduser().absolute())
    package = PACKAGES[parts.scheme]
    if importlib.util.find_spec(package) is None:
        if package == "s3fs":
            raise MissingPackageError(package, "s3")
        raise ConfigError(
            f"{setting}: {parts.scheme}:// needs another package. Run: {pip_install()} {package}"
        )
    return address.rstrip("/")


def _connect(address: str) -> tuple[AbstractFileSystem, str]:
    import fsspec

    package = PACKAGES.get(urlsplit(address).scheme, "")
    # Other machines write too, so a cached listing would be outdated.
    options = {
        "skip_instance_cache": True,
        "use_listings_cache": False,
        **_OPTIONS.get(package, {}),
    }
    system, root = fsspec.core.url_to_fs(address, **options)
    if package == "s3fs":
        system.retries = 1  # botocore retries too: both together wait for minutes
    return system, str(root).rstrip("/")


def _in_time(
    system: AbstractFileSystem, operation: str, arguments: tuple[object, ...], size: int
) -> None:
    """Send `size` bytes with a timeout: a client that expects '100 Continue' otherwise waits forever."""
    from fsspec.asyn import sync

    if system.async_impl:
        sync(
            system.loop,
            getattr(system, f"_{operation}"),
            *arguments,
            timeout=SECONDS + size / SLOWEST,
        )
    else:
        getattr(system, operation)(*arguments)
