"""Artifacts behind an address, for several machines: the store there is the truth, the state folder a checked copy.

Private files never go there. Every file is written on this machine first, then sent: content, then manifest. A file
is taken from there only if its hash is the one of its manifest. What was made here and could not be sent is sent by
the next attempt, not made again.
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
"""Lies at the top of a store that was written to."""

PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "az": "adlfs"}
LOCAL = {"", "file"}
BLOCK = 1 << 20
SECONDS = 60.0
SLOWEST = 100_000
"""Bytes a second: what arrives more slowly has stopped."""
ABSENT = (FileNotFoundError, IsADirectoryError)
_OPTIONS: dict[str, dict[str, Any]] = {
    "s3fs": {"config_kwargs": {"connect_timeout": 10, "read_timeout": 30, "retries": {"total_max_attempts": 2}}}
}


class RemoteFiles:
    """Files below `address` by names with slashes. Connects on first use; pickles as its address."""

    def __init__(self, address: str, setting: str = "WASP_ARTIFACTS") -> None:
        self.setting = setting
        self.address = checked(address, setting)
        self._opened: tuple[Any, str] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.address, self.setting)

    @property
    def is_folder(self) -> bool:
        """Whether the store is a folder that this machine reaches."""
        return urlsplit(self.address).scheme in LOCAL

    def check(self, used: bool) -> None:
        """Read the store's mark, and set it if there is none; ArtifactError when the store cannot be used.

        One that was `used` before and has lost its mark is refused: it was emptied, or is not mounted.
        """
        if self.read(MARK) is None:
            if used:
                raise ArtifactError(
                    f"The artifact store {self.address} was used from here before and is empty now. Mount it or bring "
                    "it back, then resume the run; for a new start name another address in WASP_ARTIFACTS."
                )
            self.write(MARK, b'{"format": 1}\n')

    def place(self, name: str) -> str:
        """Return the address of a file."""
        return f"{self.address}/{name}" if name else self.address

    def read(self, name: str) -> bytes | None:
        """Return a file's bytes, None if there is no such file."""
        with self._answering(name) as (system, root), suppress(*ABSENT):
            data: bytes = system.cat_file(f"{root}/{name}")
            return data
        return None

    def read_all(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return the bytes of many files at once, without those that are gone."""
        with self._answering("") as (system, root):
            found = system.cat([f"{root}/{name}" for name in names], on_error="return") if names else {}
            read = {}
            for path, data in found.items():
                if isinstance(data, bytes):
                    read[path.removeprefix(f"{root}/")] = data
                elif not isinstance(data, FileNotFoundError):
                    raise data
        return read

    def fetch(self, name: str, place: Path) -> bool:
        """Copy a file to `place` on this machine, whole or not at all; False if there is no such file."""
        if not self.exists(name):  # s3fs opens a folder as an empty file
            return False
        with self._answering(name) as (system, root), system.open(f"{root}/{name}") as file:
            write_whole(place, lambda target: self._pour(name, file, target))
        return True

    def _pour(self, name: str, source: Any, target: BinaryIO) -> None:
        while True:
            with self._answering(name):  # or the writer below would take it for an error of this machine's disk
                block = source.read(BLOCK)
            if not block:
                return
            target.write(block)

    def write(self, name: str, source: Path | bytes) -> None:
        """Write a file from bytes, or from a file of this machine; the last writer wins."""
        with self._answering(name) as (system, root):
            if self.is_folder:
                write_whole(Path(root) / name, lambda file: _fill(file, source))
            elif isinstance(source, bytes):
                _in_time(system, "pipe_file", (f"{root}/{name}", source), len(source))
            else:
                _in_time(system, "put_file", (str(source), f"{root}/{name}"), source.stat().st_size)

    def remove(self, names: Sequence[str]) -> None:
        """Remove files; those that are gone already are no error."""
        with self._answering("") as (system, root):
            for name in names:
                with suppress(*ABSENT):
                    system.rm_file(f"{root}/{name}")

    def exists(self, name: str) -> bool:
        """Say whether there is a file of this name."""
        with self._answering(name) as (system, root), suppress(*ABSENT):
            return bool(system.info(f"{root}/{name}")["type"] == "file")
        return False

    def below(self, name: str) -> list[str]:
        """Return the names of all files below a folder, sorted; none if there is no such folder."""
        with self._answering(name) as (system, root):
            system.invalidate_cache()
            found = system.find(f"{root}/{name}" if name else root)
        return sorted(path.removeprefix(f"{root}/") for path in found)

    def match(self, pattern: str) -> list[str]:
        """Return the names of all files that match a pattern with stars, sorted."""
        with self._answering(pattern) as (system, root):
            system.invalidate_cache()
            return sorted(path.removeprefix(f"{root}/") for path in system.glob(f"{root}/{pattern}"))

    @contextmanager
    def _answering(self, name: str) -> Iterator[tuple[Any, str]]:
        """Open the store; every error that is not 'no such file' becomes one about the store."""
        try:
            if self._opened is None:
                self._opened = _connect(self.address)
            yield self._opened
        except (ArtifactError, ConfigError):
            raise
        except Exception as error:
            # Every storage system has errors of its own.
            raise ArtifactError(
                f"The artifact store did not answer: {self.place(name)} ({type(error).__name__}: {error}). Check that "
                "it can be reached, that the bucket exists and that these credentials may read, write, list and delete "
                f"there ({self.setting}); then: wasp resume RUN_ID. Nothing is lost: what is finished is used again."
            ) from error


def checked(address: str, setting: str = "WASP_ARTIFACTS") -> str:
    """Return an address of a store without a slash at its end; ConfigError or MissingPackageError for what is none.

    `setting`: what names the address, for errors.
    """
    parts = urlsplit(address)
    if parts.scheme not in {*PACKAGES, *LOCAL}:
        raise ConfigError(
            f"{setting}: '{parts.scheme}://' is no store that is known; write s3://BUCKET/PREFIX, "
            "gs://BUCKET/PREFIX, abfs://CONTAINER/PREFIX, or the path of a shared folder"
        )
    if "@" in parts.netloc or "?" in address:
        raise ConfigError(f"{setting}: an address holds no password and no options; set them in the environment")
    if parts.scheme in LOCAL:
        return str(Path(parts.path).expanduser().absolute())
    package = PACKAGES[parts.scheme]
    if importlib.util.find_spec(package) is None:
        if package == "s3fs":
            raise MissingPackageError(package, "s3")
        raise ConfigError(f"{setting}: {parts.scheme}:// needs one more package. Type: {pip_install()} {package}")
    return address.rstrip("/")


def _connect(address: str) -> tuple[Any, str]:
    import fsspec

    package = PACKAGES.get(urlsplit(address).scheme, "")
    # Another machine writes as well: a listing that is kept is a wrong one.
    system, root = fsspec.core.url_to_fs(
        address, skip_instance_cache=True, use_listings_cache=False, **_OPTIONS.get(package, {})
    )
    if package == "s3fs":
        system.retries = 1  # botocore repeats by itself: both together wait for minutes
    return system, str(root).rstrip("/")


def _in_time(system: Any, operation: str, arguments: tuple[Any, ...], size: int) -> None:
    """Send `size` bytes, within a time: a client that waits to be told to go on with a PUT waits without an end."""
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
"""In the state folder: the addresses that were used from it."""


@dataclass(frozen=True, slots=True)
class SharedArtifacts(Artifacts):
    """The store at `address` with the state folder `home` as this machine's copy; protocol as `Artifacts`.

    ArtifactError when the store does not answer: it is never taken for one that holds nothing.
    """

    address: str = ""
    files: RemoteFiles = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        Artifacts.__post_init__(self)
        object.__setattr__(self, "files", RemoteFiles(self.address))

    def check(self) -> None:
        """Raise ArtifactError when the store cannot be read or written, or lost what it held."""
        known = Artifacts._bytes(self, KNOWN) or b""
        address = f"{self.files.address}\n".encode()
        used = address in known.splitlines(keepends=True)
        self.files.check(used)
        if not used:
            write_whole(self.home / KNOWN, lambda file: write_bytes(file, known + address))

    def where(self, path: str = "") -> str:
        """Return the address of `path`; of a private one its place on this machine."""
        return Artifacts.where(self, path) if is_private(path) else self.files.place(path)

    def exists(self, path: str) -> bool:
        """Say whether there is a file or folder at `path`, in the store or not sent yet."""
        if Artifacts.exists(self, path):
            return True
        return not is_private(path) and (self.files.exists(path) or bool(self.files.below(path)))

    def finished(self, pattern: str) -> dict[str, dict[str, Any]]:
        """Return the manifests of all artifacts whose paths match `pattern`, by path; also those not sent yet."""
        found = Artifacts.finished(self, pattern)
        names = self.files.match(manifest_path(PurePosixPath(pattern)).as_posix())
        for name, data in self.files.read_all(names).items():
            place = PurePosixPath(name)
            manifest = parse_manifest(data)
            path = str(place.with_name(place.name[1 : -len(".json")]))
            found[path] = asdict(manifest) if isinstance(manifest, Manifest) else {}
        return dict(sorted(found.items()))

    def _look(self, name: str, key: StepKey) -> None:
        if is_private(name):
            return
        there = self._manifest(name)
        place = self.home / name
        if isinstance(there, Manifest):
            if there.key == key.key:
                self._bring(name, there.sha256)
            write_manifest(place, there, private=False)
            return
        here, _ = verdict(place, key)
        if here is not None:
            self._send(name, here)

    def _held(self, ref: ArtifactRef) -> Path:
        name, place = self._place(ref.path)
        if not is_private(name):
            self._bring(name, ref.sha256)
        return place

    def _bring(self, name: str, sha256: str) -> None:
        """Copy content with this hash to this machine, unless it is here."""
        place = self.home / name
        if not content_problem(place, sha256) or self.files.fetch(name, place):
            return
        inside = self.files.below(name)
        if inside:
            write_folder_whole(place, lambda folder: self._fill(folder, name, inside))

    def _fill(self, folder: Path, name: str, inside: list[str]) -> None:
        for one in inside:
            self.files.fetch(one, folder / PurePosixPath(one).relative_to(name))

    def _manifest(self, name: str) -> Manifest | str | None:
        if is_private(name):
            return read_manifest(self.home / name)
        data = self.files.read(manifest_path(PurePosixPath(name)).as_posix())
        return None if data is None else parse_manifest(data)

    def _send(self, name: str, manifest: Manifest | None = None) -> None:
        if is_private(name):
            return
        place = self.home / name
        if place.is_dir():
            old = self.files.below(name)
            # Without its manifest a folder is unfinished, whatever of the old and the new one is there.
            self.files.remove([manifest_path(PurePosixPath(name)).as_posix(), *old])
            for file in sorted(one for one in place.rglob("*") if one.is_file()):
                self.files.write(f"{name}/{file.relative_to(place).as_posix()}", file)
        else:
            self.files.write(name, place)
        if manifest is not None:
            self.files.write(manifest_path(PurePosixPath(name)).as_posix(), manifest.text().encode())

    def _bytes(self, name: str) -> bytes | None:
        return Artifacts._bytes(self, name) if is_private(name) else self.files.read(name)

    def _runs(self) -> list[str]:
        there = {PurePosixPath(name).parts[1] for name in self.files.match("runs/*/manifest.json")}
        return sorted(there)


def open_artifacts(home: Path, address: str | None) -> Artifacts:
    """Return the files of the state folder, or those behind an address."""
    return SharedArtifacts(home, address) if address else Artifacts(home)
