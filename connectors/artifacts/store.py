"""All files of runs: atomic Parquet, JSON and folders with manifests, in the state folder and at a shared address.

With an address the state folder is a copy. Every file is first written locally, then uploaded: content, then manifest.
A downloaded file must have the hash of its manifest. A local result that could not be uploaded is uploaded by the next
attempt, without computing it again. Private files are never uploaded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO

from connectors.artifacts import parquet
from connectors.artifacts.atomic_files import (
    explained,
    is_inside,
    make_folder,
    write_folder_whole,
    write_whole,
)
from connectors.artifacts.manifests import (
    Manifest,
    content_path,
    content_problem,
    make_manifest,
    manifest_path,
    parse_manifest,
    read_manifest,
    require_content,
    verdict,
    write_manifest,
)
from connectors.artifacts.remote_files import RemoteFiles
from connectors.interfaces.artifacts import ArtifactRef, StepKey
from connectors.interfaces.content_keys import canonical
from connectors.interfaces.errors import ArtifactError
from connectors.interfaces.json_values import Json

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from connectors.interfaces.embedding import Matrix

PRIVATE = "private"
MARK = "wasp-artifacts.json"
"""Marker file at the root of a shared store that was written to."""
KNOWN = "stores.txt"
"""File in the state folder with all addresses that were used from it."""
_AGAIN = "Run the step again: wasp resume RUN_ID"


@dataclass(frozen=True, slots=True)
class Artifacts:
    """The artifact store in the state folder `home` (WASP_HOME), shared at `address` if there is one.

    An artifact is finished if its manifest is stored with the same key and its content hash matches; a crash at any
    moment leaves it unfinished or complete. `home` is created with mode 0700; below private/ folders have mode 0700 and
    files 0600. Instances can be pickled and used by many processes at once: the last writer of a path wins, and a
    mixture of two writers is unfinished. ArtifactError if the shared store is unreachable: it never counts as empty.
    """

    home: Path
    address: str | None = None
    _files: RemoteFiles | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        home = Path(self.home).expanduser().absolute()
        object.__setattr__(self, "home", home)
        if self.address:
            object.__setattr__(self, "_files", RemoteFiles(self.address))
        with explained(home):
            make_folder(home, private=not home.exists())
            make_folder(home / PRIVATE, private=True)

    def check(self) -> None:
        """Raise ArtifactError if the shared store is not usable, or was used before and is empty now."""
        if self._files is None:
            return
        known = self.home / KNOWN
        addresses = ""
        if known.exists():
            addresses = known.read_text(encoding="utf-8")
        is_known = self._files.address in addresses.splitlines()
        if self._files.read(MARK) is None:
            if is_known:
                raise ArtifactError(
                    f"The artifact store {self._files.address} was used before and is empty now. Mount or restore it, "
                    "then resume the run. For a new start set WASP_ARTIFACTS to another address."
                )
            self._files.write(MARK, b'{"format": 1}\n')
        if not is_known:
            write_whole(known, _writer(f"{addresses}{self._files.address}\n".encode()))

    # --- keys
    def find(self, path: str, key: StepKey) -> ArtifactRef | None:
        """Return the finished artifact at `path`, None unless its key and hash match."""
        return self.look_up(path, key)[0]

    def look_up(self, path: str, key: StepKey) -> tuple[ArtifactRef | None, str]:
        """Return the result of `find` and its reason: 'reused', 'computed' or 'recomputed'."""
        name, location = self._resolve(path)
        if self._shared(name):
            self._exchange(name, location, key)
        manifest, why = verdict(location, key)
        if manifest is None:
            return None, why
        return manifest.ref(name, reused=True), why

    def info(self, ref: ArtifactRef) -> dict[str, Any]:
        """Return the `info` of the artifact's manifest."""
        manifest = self._manifest(self._resolve(ref.path)[0])
        if not isinstance(manifest, Manifest) or manifest.sha256 != ref.sha256:
            problem = "its manifest is missing or of another result"
            if isinstance(manifest, str):
                problem = manifest
            raise ArtifactError(f"{self.home / ref.path}: {problem}. {_AGAIN}")
        return dict(manifest.info)

    # --- tables, matrices, objects, folders
    def write_table(
        self, path: str, table: pd.DataFrame, key: StepKey, info: Mapping[str, object] | None = None
    ) -> ArtifactRef:
        """Write a Parquet table (zstd) and its manifest; equal tables give equal bytes.

        A column named in the path (`iteration=3/`) is stored only in the path, so pandas, duckdb and polars read a
        whole run as one table. `read_table` restores the column.
        """
        import pyarrow.parquet as pq

        arrow = parquet.to_arrow(table, path)
        return self._write(
            path,
            lambda file: pq.write_table(arrow, file, compression="zstd"),
            key,
            len(table),
            info,
        )

    def read_table(self, ref: ArtifactRef, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Read a table, or only these columns of it; ArtifactError if it is missing or its hash differs."""
        return parquet.read_frame(self._local(ref), ref.sha256, columns)

    def write_matrix(
        self, path: str, matrix: Matrix | Iterable[Matrix], key: StepKey
    ) -> ArtifactRef:
        """Write vectors, shape (rows, dimension), or blocks of them, as float32 Parquet.

        Blocks are written as they arrive, so the vectors need not fit into memory.
        """
        import numpy as np

        blocks: Iterable[Matrix] = matrix
        if isinstance(matrix, np.ndarray):  # one block, whose rows would be iterated otherwise
            blocks = (matrix,)
        name, location = self._resolve(path)
        shape: list[int] = []
        facts = write_whole(
            location,
            lambda file: shape.extend(parquet.write_matrix(blocks, file)),
            is_private(name),
        )
        return self._finish(name, make_manifest(key, facts, shape[0], {"dimension": shape[1]}))

    def read_matrix(self, ref: ArtifactRef) -> Matrix:
        """Read vectors as read-only float32.

        ArtifactError if they are missing or their hash differs.
        """
        return parquet.read_matrix(self._local(ref), ref.sha256)

    def read_matrix_blocks(self, ref: ArtifactRef) -> Iterator[Matrix]:
        """Yield the vectors of `read_matrix` in the blocks in which they were written; at least one.

        Memory contains one block. The last check of the hash follows the last block.
        """
        return parquet.read_blocks(self._local(ref), ref.sha256)

    def write_json(self, path: str, value: Mapping[str, object], key: StepKey) -> ArtifactRef:
        """Write one JSON object."""
        text = json.dumps(
            json.loads(canonical(value)), ensure_ascii=False, indent=1, sort_keys=True
        )
        return self._write(path, _writer(text.encode()), key, 1, None)

    def read_json(self, ref: ArtifactRef) -> Json:
        """Read one JSON object; ArtifactError if it is missing or its hash differs."""
        value: Json = json.loads(self.read_folder(ref).read_bytes())
        self.read_folder(ref)  # another writer could have replaced the file during reading
        return value

    def write_folder(self, path: str, fill: Callable[[Path], None], key: StepKey) -> ArtifactRef:
        """Let `fill` write a scratch folder, then move it to `path`; `rows` counts files."""
        name, location = self._resolve(path)
        sha256, size, files = write_folder_whole(location, fill, is_private(name))
        return self._finish(name, make_manifest(key, (sha256, size), files, {}))

    def read_folder(self, ref: ArtifactRef) -> Path:
        """Return the path of a folder or file; ArtifactError if it is missing or its hash differs."""
        location = self._local(ref)
        require_content(location, ref.sha256, self.where(ref.path))
        return location

    def fetch(self, path: str) -> Path:
        """Return the local path of a finished file or folder, regardless of its key.

        ArtifactError if there is none.
        """
        ref = self.stored(path)
        if ref is None:
            name, _ = self._resolve(path)
            raise ArtifactError(f"{self.where(name)}: no finished result. {_AGAIN}")
        return self.read_folder(ref)

    def stored(self, path: str) -> ArtifactRef | None:
        """Return the finished artifact at `path`, regardless of its key; None if there is none.

        ArtifactError if its manifest cannot be read.
        """
        name, _ = self._resolve(path)
        manifest = self._manifest(name)
        if isinstance(manifest, str):
            raise ArtifactError(f"{self.where(name)}: {manifest}. {_AGAIN}")
        if manifest is None:
            return None
        return manifest.ref(name)

    def finished(self, pattern: str) -> dict[str, Json]:
        """Return the manifests of all artifacts that match `pattern` ('runs/*/student').

        They are indexed by path; an unreadable one is empty.
        """
        pattern = manifest_path(PurePosixPath(pattern)).as_posix()
        stored = {
            path.relative_to(self.home).as_posix(): read_manifest(path)
            for path in self.home.glob(pattern)
        }
        if self._files is not None:  # results that are not uploaded yet are included
            remote = self._files.read_all(self._files.match(pattern))
            stored |= {name: parse_manifest(data) for name, data in remote.items()}
        manifests: dict[str, Json] = {}
        for name in sorted(stored):
            entry = stored[name]
            path = content_path(PurePosixPath(name)).as_posix()
            manifests[path] = {}
            if isinstance(entry, Manifest):
                manifests[path] = asdict(entry)
        return manifests

    # --- files without a key
    def write_text(self, path: str, text: str) -> Path:
        """Write a UTF-8 text file atomically, without a manifest; return its local path."""
        return self.write_bytes(path, text.encode())

    def write_bytes(self, path: str, data: bytes) -> Path:
        """Write a file atomically, without a manifest; return its local path."""
        name, location = self._resolve(path)
        write_whole(location, _writer(data), is_private(name))
        self._upload(name)
        return location

    def read_text(self, path: str) -> str | None:
        """Return a file written by `write_text`, None if it does not exist.

        A shared store has priority over the local file.
        """
        name, location = self._resolve(path)
        if remote := self._shared(name):
            data = remote.read(name)
            if data is None:
                return None
            return data.decode()
        try:
            return location.read_bytes().decode()
        except FileNotFoundError:
            return None

    def exists(self, path: str) -> bool:
        """Return True if a file or folder exists at `path`, finished or not."""
        name, location = self._resolve(path)
        return location.exists() or bool((remote := self._shared(name)) and remote.below(name))

    def where(self, path: str = "") -> str:
        """Return the location of `path` for display: a local path or an address."""
        if remote := self._shared(path):
            return remote.url_of(path)
        return str(self.home / path)

    def list_runs(self) -> list[Json]:
        """Return the manifests of all runs by folder name.

        For an unreadable manifest: its `run_id`, and the problem in `damaged`.
        """
        pattern = "runs/*/manifest.json"
        manifests: list[Json] = []
        names = [str(path) for path in self.home.glob(pattern)]
        if self._files is not None:  # a run of this machine may have been removed there
            names = self._files.match(pattern)
        for run_id in sorted(PurePosixPath(name).parts[-2] for name in names):
            try:
                value = json.loads(self.read_text(f"runs/{run_id}/manifest.json") or "")
                if not isinstance(value, dict):
                    value = {"damaged": "not a JSON object"}
                manifests.append(value)
            except (OSError, ValueError) as error:
                manifests.append({"damaged": str(error)})
            manifests[-1].setdefault("run_id", run_id)
        return manifests

    def write_private_arrays(self, path: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write arrays below private/ atomically, as npz without pickle, mode 0600."""
        import numpy as np

        name, location = self._resolve(path)
        if not is_private(name):
            raise ArtifactError(f"'{path}': private arrays are written below {PRIVATE}/ only.")
        write_whole(
            location, lambda file: np.savez(file, allow_pickle=False, **arrays), private=True
        )

    def read_private_arrays(self, path: str) -> dict[str, NDArray[Any]] | None:
        """Return the arrays at `path` below private/, None if there are none.

        ArtifactError if they are damaged.
        """
        from zipfile import BadZipFile

        import numpy as np

        location = self._resolve(path)[1]
        if not location.exists():
            return None
        try:
            with np.load(location, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
        except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
            raise ArtifactError(
                f"{location} is damaged ({type(error).__name__}). Delete it and resume."
            ) from None

    # --- content and manifests
    def _write(
        self,
        path: str,
        fill: Callable[[BinaryIO], object],
        key: StepKey,
        rows: int,
        info: Mapping[str, object] | None,
    ) -> ArtifactRef:
        name, location = self._resolve(path)
        facts = write_whole(location, fill, is_private(name))
        return self._finish(name, make_manifest(key, facts, rows, info or {}))

    def _finish(self, name: str, manifest: Manifest) -> ArtifactRef:
        """Write the manifest of local content, which is then finished; upload both."""
        write_manifest(self.home / name, manifest, is_private(name))
        self._upload(name, manifest)
        return manifest.ref(name)

    def _exchange(self, name: str, location: Path, key: StepKey) -> None:
        """Download the artifact from the shared store, or upload the local one that could not be uploaded."""
        remote = self._manifest(name)
        if isinstance(remote, Manifest):
            # Content before its manifest, as in every write: a crash between the two leaves it unfinished.
            if remote.key == key.key:
                self._local(remote.ref(name))
            write_manifest(location, remote, private=False)
        elif (local := verdict(location, key)[0]) is not None:
            self._upload(name, local)

    def _manifest(self, name: str) -> Manifest | str | None:
        """Return the manifest of `name`, its problem, or None if there is none."""
        remote = self._shared(name)
        if remote is None:
            return read_manifest(manifest_path(self.home / name))
        data = remote.read(manifest_path(PurePosixPath(name)).as_posix())
        if data is None:
            return None
        return parse_manifest(data)

    def _local(self, ref: ArtifactRef) -> Path:
        """Return the local path of an artifact's content, after downloading content that is missing or differs."""
        name, location = self._resolve(ref.path)
        if (remote := self._shared(name)) and content_problem(location, ref.sha256):
            names = remote.below(name)
            if names == [name]:
                remote.fetch(name, location)
            elif names:
                write_folder_whole(location, lambda folder: _fill(remote, folder, name, names))
        return location

    def _upload(self, name: str, manifest: Manifest | None = None) -> None:
        """Upload the local file or folder at `name`; its manifest is last."""
        remote = self._shared(name)
        location = self.home / name
        if remote is None:
            return
        manifest_name = manifest_path(PurePosixPath(name)).as_posix()
        if location.is_dir():
            # Without its manifest a folder is unfinished, in any mixture of old and new files.
            remote.remove([manifest_name, *remote.below(name)])
            for file in sorted(path for path in location.rglob("*") if path.is_file()):
                remote.write(f"{name}/{file.relative_to(location).as_posix()}", file)
        else:
            remote.write(name, location)
        if manifest is not None:
            remote.write(manifest_name, manifest.text().encode())

    # --- paths
    def _shared(self, name: str) -> RemoteFiles | None:
        """Return the shared store of a file; None for a private file, and without a shared store."""
        if is_private(name):
            return None
        return self._files

    def _resolve(self, path: str) -> tuple[str, Path]:
        pure = PurePosixPath(path)
        inside = (
            bool(pure.parts)
            and not pure.is_absolute()
            and ".." not in pure.parts
            and "\0" not in path
        )
        if inside:
            # A link can lead out of the folder even if its name does not.
            inside = is_inside(self.home / pure, self.home)
        if not inside:
            raise ArtifactError(
                f"'{path}' is outside the state folder {self.home}. Use a path relative to it."
            )
        return str(pure), self.home / pure


def is_private(name: str) -> bool:
    """Return True if a file never leaves this machine."""
    return PurePosixPath(name).parts[:1] == (PRIVATE,)


def _writer(data: bytes) -> Callable[[BinaryIO], object]:
    return lambda file: file.write(data)


def _fill(remote: RemoteFiles, folder: Path, name: str, names: Iterable[str]) -> None:
    for path in names:
        remote.fetch(path, folder / PurePosixPath(path).relative_to(name))
