"""All files of the state folder: atomic Parquet, JSON and folders with manifests.

`connectors.artifacts.shared_store` stores the same files at an address. The methods that it overrides are at the end of
this class.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO

from connectors.artifacts import parquet
from connectors.artifacts.atomic_files import explained, is_inside, make_folder, write_folder_whole, write_whole
from connectors.artifacts.hash_cache import FRAMES
from connectors.artifacts.manifests import (
    Manifest,
    content_problem,
    make_manifest,
    manifest_path,
    read_manifest,
    verdict,
    write_manifest,
)
from connectors.interfaces.artifacts import ArtifactRef, StepKey
from connectors.interfaces.content_keys import canonical
from connectors.interfaces.errors import ArtifactError

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from connectors.interfaces.embedding import Matrix

PRIVATE = "private"
_AGAIN = "Run the step again: wasp resume RUN_ID"


@dataclass(frozen=True, slots=True)
class Artifacts:
    """The artifact store in the state folder `home` (WASP_HOME).

    Implements `connectors.interfaces.artifacts.ArtifactStore`. An artifact is finished if its manifest is on disk with
    the same key and its content hash matches; a crash at any moment leaves it unfinished or complete. `home` is created
    with mode 0700; below private/ folders have mode 0700 and files 0600. Instances can be pickled and used by many
    processes at once: the last writer of a path wins, and a mixture of two writers is unfinished.
    """

    home: Path

    def __post_init__(self) -> None:
        home = Path(self.home).expanduser().absolute()
        object.__setattr__(self, "home", home)
        with explained(home):
            make_folder(home, private=not home.exists())
            make_folder(home / PRIVATE, private=True)

    # --- keys
    def find(self, path: str, key: StepKey) -> ArtifactRef | None:
        """Return the finished artifact at `path`, None unless its key and hash match."""
        name, location = self._resolve(path)
        self._sync(name, key)
        manifest, _ = verdict(location, key)
        return manifest.ref(name, reused=True) if manifest else None

    def why(self, path: str, key: StepKey) -> str:
        """Return the reason for `find`'s result: 'reused', 'computed' or 'recomputed'.

        Call it before the step writes: afterwards it describes the new file.
        """
        name, location = self._resolve(path)
        self._sync(name, key)
        return verdict(location, key)[1]

    def info(self, ref: ArtifactRef) -> dict[str, Any]:
        """Return the `info` of the artifact's manifest."""
        manifest = self._manifest(self._resolve(ref.path)[0])
        if not isinstance(manifest, Manifest) or manifest.sha256 != ref.sha256:
            problem = manifest if isinstance(manifest, str) else "its manifest is missing or of another result"
            raise ArtifactError(f"{self.home / ref.path}: {problem}. {_AGAIN}")
        return dict(manifest.info)

    # --- tables, matrices, objects, folders
    def write_table(
        self, path: str, table: pd.DataFrame, key: StepKey, info: Mapping[str, Any] | None = None
    ) -> ArtifactRef:
        """Write a Parquet table (zstd) and its manifest; equal tables give equal bytes.

        A column named in the path (`iteration=3/`) is stored only in the path, so pandas, duckdb and polars read a
        whole run as one table. `read_table` restores the column.
        """
        arrow = parquet.to_arrow(table, path)
        return self._write(path, lambda file: parquet.write_arrow(arrow, file), key, len(table), info)

    def read_table(self, ref: ArtifactRef) -> pd.DataFrame:
        """Read a table; ArtifactError if it is missing or its hash differs."""
        return parquet.read_frame(self._local(ref), ref.sha256, None if is_private(ref.path) else FRAMES)

    def write_matrix(self, path: str, matrix: Matrix | Iterable[Matrix], key: StepKey) -> ArtifactRef:
        """Write vectors, shape (rows, dimension), or blocks of them, as float32 Parquet.

        Blocks are written as they arrive, so the vectors need not fit into memory.
        """
        import numpy as np

        blocks: Iterable[Matrix] = (matrix,) if isinstance(matrix, np.ndarray) else matrix
        name, location = self._writable(path)
        shape: list[int] = []
        fill = lambda file: shape.extend(parquet.write_matrix(blocks, file))  # noqa: E731
        facts = write_whole(location, fill, is_private(name), in_order=True)
        return self._finish(name, make_manifest(key, facts, shape[0], {"dimension": shape[1]}))

    def read_matrix(self, ref: ArtifactRef) -> Matrix:
        """Read vectors as read-only float32.

        ArtifactError if they are missing or their hash differs.
        """
        return parquet.read_matrix(self._local(ref), ref.sha256)

    def write_json(self, path: str, value: Mapping[str, Any], key: StepKey) -> ArtifactRef:
        """Write one JSON object."""
        text = json.dumps(json.loads(canonical(value)), ensure_ascii=False, indent=1, sort_keys=True)
        return self._write(path, lambda file: write_bytes(file, text.encode()), key, 1, None)

    def read_json(self, ref: ArtifactRef) -> dict[str, Any]:
        """Read one JSON object; ArtifactError if it is missing or its hash differs."""
        return parquet.read_json(self._local(ref), ref.sha256)

    def write_folder(self, path: str, fill: Callable[[Path], None], key: StepKey) -> ArtifactRef:
        """Let `fill` write a scratch folder, then move it to `path`; `rows` counts files."""
        name, location = self._writable(path)
        sha256, size, files = write_folder_whole(location, fill, is_private(name))
        return self._finish(name, make_manifest(key, (sha256, size), files, {}))

    def read_folder(self, ref: ArtifactRef) -> Path:
        """Return the path of a folder; ArtifactError if it is missing or its hash differs."""
        location = self._local(ref)
        problem = content_problem(location, ref.sha256)
        if problem:
            raise ArtifactError(f"{location}: {problem}. {_AGAIN}")
        return location

    def fetch(self, path: str) -> Path:
        """Return the local path of a finished file or folder, regardless of its key.

        ArtifactError if there is none.
        """
        name, location = self._resolve(path)
        manifest = self._manifest(name)
        if not isinstance(manifest, Manifest):
            raise ArtifactError(f"{self.where(name)}: {manifest or 'no finished result'}. {_AGAIN}")
        problem = content_problem(self._local(manifest.ref(name)), manifest.sha256)
        if problem:
            raise ArtifactError(f"{self.where(name)}: {problem}. {_AGAIN}")
        return location

    def finished(self, pattern: str) -> dict[str, dict[str, Any]]:
        """Return the manifests of all artifacts that match `pattern` ('runs/*/student').

        They are indexed by path; an unreadable one is empty.
        """
        manifests = {}
        for location in sorted(self.home.glob(str(manifest_path(Path(pattern))))):
            manifest = read_manifest(location.with_name(location.name[1 : -len(".json")]))
            name = location.with_name(location.name[1 : -len(".json")]).relative_to(self.home).as_posix()
            manifests[name] = asdict(manifest) if isinstance(manifest, Manifest) else {}
        return manifests

    # --- files without a key
    def write_text(self, path: str, text: str) -> Path:
        """Write a UTF-8 text file atomically, without a manifest; return its local path."""
        return self.write_bytes(path, text.encode())

    def write_bytes(self, path: str, data: bytes) -> Path:
        """Write a file atomically, without a manifest; return its local path."""
        name, location = self._writable(path)
        write_whole(location, lambda file: write_bytes(file, data), is_private(name))
        self._upload(name)
        return location

    def read_text(self, path: str) -> str | None:
        """Return a file written by `write_text`, None if it does not exist."""
        data = self.read_bytes(path)
        return None if data is None else data.decode()

    def read_bytes(self, path: str) -> bytes | None:
        """Return a file's bytes, unchecked; None if it does not exist.

        A shared store has priority over the local file.
        """
        return self._bytes(self._resolve(path)[0])

    def exists(self, path: str) -> bool:
        """Return True if a file or folder exists at `path`, finished or not."""
        return self._resolve(path)[1].exists()

    def where(self, path: str = "") -> str:
        """Return the location of `path` for display: a local path or an address."""
        return str(self.home / path)

    def list_runs(self) -> list[dict[str, Any]]:
        """Return the manifests of all runs by folder name.

        For an unreadable manifest: its `run_id`, and the problem in `damaged`.
        """
        manifests = []
        for run_id in self._runs():
            try:
                value = json.loads(self.read_text(f"runs/{run_id}/manifest.json") or "")
                manifests.append(value if isinstance(value, dict) else {"damaged": "not a JSON object"})
            except (OSError, ValueError) as error:
                manifests.append({"damaged": str(error)})
            manifests[-1].setdefault("run_id", run_id)
        return manifests

    def write_private_arrays(self, path: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write arrays below private/ atomically, as npz without pickle, mode 0600."""
        import numpy as np

        if any(np.asarray(array).dtype.hasobject for array in arrays.values()):
            raise ArtifactError("Private arrays contain Python objects. Pass arrays of numbers or of fixed-width text.")
        plain = {name: np.asarray(array) for name, array in arrays.items()}
        write_whole(self._private(path), lambda file: np.savez(file, allow_pickle=False, **plain), private=True)

    def read_private_arrays(self, path: str) -> dict[str, NDArray[Any]] | None:
        """Return the arrays at `path` below private/, None if there are none.

        ArtifactError if they are damaged.
        """
        from zipfile import BadZipFile

        import numpy as np

        location = self._private(path)
        if not location.exists():
            return None
        try:
            with np.load(location, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
        except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
            raise ArtifactError(f"{location} is damaged ({type(error).__name__}). Delete it and resume.") from None

    # --- paths
    def _write(
        self,
        path: str,
        fill: Callable[[BinaryIO], None],
        key: StepKey,
        rows: int,
        info: Mapping[str, Any] | None,
    ) -> ArtifactRef:
        name, location = self._writable(path)
        facts = write_whole(location, fill, is_private(name))
        return self._finish(name, make_manifest(key, facts, rows, info or {}))

    def _finish(self, name: str, manifest: Manifest) -> ArtifactRef:
        write_manifest(self.home / name, manifest, is_private(name))
        self._upload(name, manifest)
        return manifest.ref(name)

    def _resolve(self, path: str) -> tuple[str, Path]:
        pure = PurePosixPath(path)
        inside = bool(pure.parts) and not pure.is_absolute() and ".." not in pure.parts and "\0" not in path
        if inside:
            # A link can lead out of the folder even if its name does not.
            inside = is_inside(self.home / pure, self.home)
        if not inside:
            raise ArtifactError(f"'{path}' is outside the state folder {self.home}. Use a path relative to it.")
        return str(pure), self.home / pure

    def _writable(self, path: str) -> tuple[str, Path]:
        name, location = self._resolve(path)
        if location.name.startswith((".", "_")):
            raise ArtifactError(f"'{path}': names with a leading dot or underscore are reserved for manifests.")
        return name, location

    def _private(self, path: str) -> Path:
        pure = PurePosixPath(path)
        return self._writable(str(pure if pure.parts[:1] == (PRIVATE,) else PurePosixPath(PRIVATE) / pure))[1]

    # --- overridden by shared stores
    def check(self) -> None:
        """Raise ArtifactError if the store is not usable."""

    def _sync(self, name: str, key: StepKey) -> None:
        """Fetch the manifest, and content with this key, from a shared store."""

    def _local(self, ref: ArtifactRef) -> Path:
        """Return the local path of an artifact's content."""
        return self._resolve(ref.path)[1]

    def _manifest(self, name: str) -> Manifest | str | None:
        """Return the result of `read_manifest` for `name`."""
        return read_manifest(self.home / name)

    def _upload(self, name: str, manifest: Manifest | None = None) -> None:
        """Upload the local file at `name` to a shared store."""

    def _bytes(self, name: str) -> bytes | None:
        try:
            return (self.home / name).read_bytes()
        except FileNotFoundError:
            return None

    def _runs(self) -> list[str]:
        return sorted(file.parent.name for file in (self.home / "runs").glob("*/manifest.json"))


def is_private(name: str) -> bool:
    """Return True if a file never leaves this machine."""
    return PurePosixPath(name).parts[0] == PRIVATE


def write_bytes(file: BinaryIO, data: bytes) -> None:
    """Write `data` to a file."""
    file.write(data)
