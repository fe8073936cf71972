"""Artifacts behind an address, for several machines: the store there is the truth, the state folder a checked copy.

Private files never go there. Every file is written on this machine first, then sent: content, then manifest. A file
is taken from there only if its hash is the one of its manifest. What was made here and could not be sent is sent by
the next attempt, not made again.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from connectors.artifacts.store import (Artifacts, is_private, write_bytes)
from connectors.interfaces.base import (ArtifactRef, StepKey)
from connectors.artifacts.atomic_files import (write_folder_whole, write_whole)
from connectors.artifacts.manifests import (Manifest, content_problem, manifest_path, parse_manifest, read_manifest, verdict, write_manifest)
from connectors.artifacts.remote_files import RemoteFiles

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
