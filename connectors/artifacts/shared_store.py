"""Artifact store at an address, for several machines; the state folder is a copy.

Private files are never uploaded. Every file is first written locally, then uploaded: content, then manifest. A
downloaded file must have the hash of its manifest. A local result that could not be uploaded is uploaded by the next
attempt, without computing it again.
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from connectors.artifacts.atomic_files import write_folder_whole, write_whole
from connectors.artifacts.manifests import (
    Manifest,
    content_problem,
    manifest_path,
    parse_manifest,
    read_manifest,
    verdict,
    write_manifest,
)
from connectors.artifacts.store import Artifacts, is_private, write_bytes
from connectors.interfaces.artifacts import ArtifactRef, StepKey
from connectors.interfaces.errors import ArtifactError, ConfigError, MissingPackageError
from connectors.interfaces.packages import pip_install

MARK = "wasp-artifacts.json"
"""Marker file at the root of a store that was written to."""

PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "az": "adlfs"}
LOCAL = {"", "file"}
BLOCK = 1 << 20
SECONDS = 60.0
SLOWEST = 100_000
"""Bytes per second; a slower transfer times out."""
ABSENT = (FileNotFoundError, IsADirectoryError)
_OPTIONS: dict[str, dict[str, Any]] = {
    "s3fs": {"config_kwargs": {"connect_timeout": 10, "read_timeout": 30, "retries": {"total_max_attempts": 2}}}
}


class RemoteFiles:
    """Files below `address`. Connects on first use; pickles as its address."""

    def __init__(self, address: str, setting: str = "WASP_ARTIFACTS") -> None:
        self.setting = setting
        self.address = check_address(address, setting)
        self._opened: tuple[Any, str] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.address, self.setting)

    @property
    def is_folder(self) -> bool:
        """True for a folder on this machine."""
        return urlsplit(self.address).scheme in LOCAL

    def check(self, used: bool) -> None:
        """Read or write the store's marker; ArtifactError if the store is not usable.

        A store that was `used` before and has no marker is refused: it was emptied, or is not mounted.
        """
        if self.read(MARK) is None:
            if used:
                raise ArtifactError(
                    f"The artifact store {self.address} was used before and is empty now. Mount or restore it, "
                    "then resume the run. For a new start set WASP_ARTIFACTS to another address."
                )
            self.write(MARK, b'{"format": 1}\n')

    def place(self, name: str) -> str:
        """Return the address of a file."""
        return f"{self.address}/{name}" if name else self.address

    def read(self, name: str) -> bytes | None:
        """Return a file's bytes, None if it does not exist."""
        with self._open(name) as (system, root), suppress(*ABSENT):
            data: bytes = system.cat_file(f"{root}/{name}")
            return data
        return None

    def read_all(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return the bytes of those of the files that exist."""
        with self._open("") as (system, root):
            results = system.cat([f"{root}/{name}" for name in names], on_error="return") if names else {}
            contents = {}
            for path, data in results.items():
                if isinstance(data, bytes):
                    contents[path.removeprefix(f"{root}/")] = data
                elif not isinstance(data, FileNotFoundError):
                    raise data
        return contents

    def fetch(self, name: str, location: Path) -> bool:
        """Copy a file atomically to `place` on this machine; False if it does not exist."""
        if not self.exists(name):  # s3fs opens a folder as an empty file
            return False
        with self._open(name) as (system, root), system.open(f"{root}/{name}") as file:
            write_whole(location, lambda target: self._pour(name, file, target))
        return True

    def _pour(self, name: str, source: Any, target: BinaryIO) -> None:
        while True:
            with self._open(name):  # otherwise write_whole would report an error of the local disk
                block = source.read(BLOCK)
            if not block:
                return
            target.write(block)

    def write(self, name: str, source: Path | bytes) -> None:
        """Write a file from bytes or from a local file; the last writer wins."""
        with self._open(name) as (system, root):
            if self.is_folder:
                write_whole(Path(root) / name, lambda file: _fill(file, source))
            elif isinstance(source, bytes):
                _in_time(system, "pipe_file", (f"{root}/{name}", source), len(source))
            else:
                _in_time(system, "put_file", (str(source), f"{root}/{name}"), source.stat().st_size)

    def remove(self, names: Sequence[str]) -> None:
        """Remove files; a missing file is not an error."""
        with self._open("") as (system, root):
            for name in names:
                with suppress(*ABSENT):
                    system.rm_file(f"{root}/{name}")

    def exists(self, name: str) -> bool:
        """Return True if a file of this name exists."""
        with self._open(name) as (system, root), suppress(*ABSENT):
            return bool(system.info(f"{root}/{name}")["type"] == "file")
        return False

    def below(self, name: str) -> list[str]:
        """Return the names of all files below a folder, sorted; none if it does not exist."""
        with self._open(name) as (system, root):
            system.invalidate_cache()
            paths = system.find(f"{root}/{name}" if name else root)
        return sorted(path.removeprefix(f"{root}/") for path in paths)

    def match(self, pattern: str) -> list[str]:
        """Return the names of all files that match a glob pattern, sorted."""
        with self._open(pattern) as (system, root):
            system.invalidate_cache()
            return sorted(path.removeprefix(f"{root}/") for path in system.glob(f"{root}/{pattern}"))

    @contextmanager
    def _open(self, name: str) -> Iterator[tuple[Any, str]]:
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
                f"The artifact store is not available: {self.place(name)} ({type(error).__name__}: {error}). Check "
                "that it is reachable, that the bucket exists and that the credentials allow read, write, list and "
                f"delete ({self.setting}). Then run: wasp resume RUN_ID. Finished results are reused."
            ) from error


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
        raise ConfigError(f"{setting}: an address must not contain a password or options. Set them in the environment.")
    if parts.scheme in LOCAL:
        return str(Path(parts.path).expanduser().absolute())
    package = PACKAGES[parts.scheme]
    if importlib.util.find_spec(package) is None:
        if package == "s3fs":
            raise MissingPackageError(package, "s3")
        raise ConfigError(f"{setting}: {parts.scheme}:// needs another package. Run: {pip_install()} {package}")
    return address.rstrip("/")


def _connect(address: str) -> tuple[Any, str]:
    import fsspec

    package = PACKAGES.get(urlsplit(address).scheme, "")
    # Other machines write too, so a cached listing would be outdated.
    system, root = fsspec.core.url_to_fs(
        address, skip_instance_cache=True, use_listings_cache=False, **_OPTIONS.get(package, {})
    )
    if package == "s3fs":
        system.retries = 1  # botocore retries too: both together wait for minutes
    return system, str(root).rstrip("/")


def _in_time(system: Any, operation: str, arguments: tuple[Any, ...], size: int) -> None:
    """Send `size` bytes with a timeout.

    Without one, a client that expects '100 Continue' waits forever.
    """
    from fsspec.asyn import sync

    if system.async_impl:
        sync(system.loop, getattr(system, f"_{operation}"), *arguments, timeout=SECONDS + size / SLOWEST)
    else:
        getattr(system, operation)(*arguments)


def _fill(file: BinaryIO, source: Path | bytes) -> None:
    if isinstance(source, bytes):
        file.write(source)
    else:
        with source.open("rb") as opened:
            shutil.copyfileobj(opened, file, BLOCK)


KNOWN = "stores.txt"
"""File in the state folder with all addresses that were used from it."""


@dataclass(frozen=True, slots=True)
class SharedArtifacts(Artifacts):
    """The store at `address`, with the state folder `home` as its local copy.

    Implements the protocol of `Artifacts`. ArtifactError if the store is unreachable: it never counts as empty.
    """

    address: str = ""
    files: RemoteFiles = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        Artifacts.__post_init__(self)
        object.__setattr__(self, "files", RemoteFiles(self.address))

    def check(self) -> None:
        """Raise ArtifactError if the store is not usable or lost its content."""
        addresses = Artifacts._bytes(self, KNOWN) or b""
        address = f"{self.files.address}\n".encode()
        used = address in addresses.splitlines(keepends=True)
        self.files.check(used)
        if not used:
            write_whole(self.home / KNOWN, lambda file: write_bytes(file, addresses + address))

    def where(self, path: str = "") -> str:
        """Return the address of `path`, or the local path of a private file."""
        return Artifacts.where(self, path) if is_private(path) else self.files.place(path)

    def exists(self, path: str) -> bool:
        """Return True if a file or folder exists at `path`, in the store or locally."""
        if Artifacts.exists(self, path):
            return True
        return not is_private(path) and (self.files.exists(path) or bool(self.files.below(path)))

    def finished(self, pattern: str) -> dict[str, dict[str, Any]]:
        """Return the manifests of all artifacts that match `pattern`, by path.

        Results that are not uploaded yet are included.
        """
        manifests = Artifacts.finished(self, pattern)
        names = self.files.match(manifest_path(PurePosixPath(pattern)).as_posix())
        for name, data in self.files.read_all(names).items():
            location = PurePosixPath(name)
            manifest = parse_manifest(data)
            path = str(location.with_name(location.name[1 : -len(".json")]))
            manifests[path] = asdict(manifest) if isinstance(manifest, Manifest) else {}
        return dict(sorted(manifests.items()))

    def _sync(self, name: str, key: StepKey) -> None:
        if is_private(name):
            return
        remote = self._manifest(name)
        location = self.home / name
        if isinstance(remote, Manifest):
            if remote.key == key.key:
                self._download(name, remote.sha256)
            write_manifest(location, remote, private=False)
            return
        local, _ = verdict(location, key)
        if local is not None:
            self._upload(name, local)

    def _local(self, ref: ArtifactRef) -> Path:
        name, location = self._resolve(ref.path)
        if not is_private(name):
            self._download(name, ref.sha256)
        return location

    def _download(self, name: str, sha256: str) -> None:
        """Download content with this hash unless it exists locally."""
        location = self.home / name
        if not content_problem(location, sha256) or self.files.fetch(name, location):
            return
        names = self.files.below(name)
        if names:
            write_folder_whole(location, lambda folder: self._fill(folder, name, names))

    def _fill(self, folder: Path, name: str, names: list[str]) -> None:
        for path in names:
            self.files.fetch(path, folder / PurePosixPath(path).relative_to(name))

    def _manifest(self, name: str) -> Manifest | str | None:
        if is_private(name):
            return read_manifest(self.home / name)
        data = self.files.read(manifest_path(PurePosixPath(name)).as_posix())
        return None if data is None else parse_manifest(data)

    def _upload(self, name: str, manifest: Manifest | None = None) -> None:
        if is_private(name):
            return
        location = self.home / name
        if location.is_dir():
            old = self.files.below(name)
            # Without its manifest a folder is unfinished, in any mixture of old and new files.
            self.files.remove([manifest_path(PurePosixPath(name)).as_posix(), *old])
            for file in sorted(path for path in location.rglob("*") if path.is_file()):
                self.files.write(f"{name}/{file.relative_to(location).as_posix()}", file)
        else:
            self.files.write(name, location)
        if manifest is not None:
            self.files.write(manifest_path(PurePosixPath(name)).as_posix(), manifest.text().encode())

    def _bytes(self, name: str) -> bytes | None:
        return Artifacts._bytes(self, name) if is_private(name) else self.files.read(name)

    def _runs(self) -> list[str]:
        run_ids = {PurePosixPath(name).parts[1] for name in self.files.match("runs/*/manifest.json")}
        return sorted(run_ids)


def open_artifacts(home: Path, address: str | None) -> Artifacts:
    """Return the store of the state folder, or the shared store at an address."""
    return SharedArtifacts(home, address) if address else Artifacts(home)
