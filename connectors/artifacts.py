"""All files of the state folder: Parquet, JSON and folders with a manifest each, whole or not there at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO

from connectors import tables
from connectors.base import ArtifactError, ArtifactRef, StepKey, canonical
from connectors.files import explained, make_folder, write_folder_whole, write_text_whole, write_whole
from connectors.manifests import (
    Manifest,
    content_problem,
    make_manifest,
    read_manifest,
    verdict,
    write_manifest,
)

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from connectors.base import Matrix

PRIVATE = "private"
_AGAIN = "Run the step again: wasp resume RUN_ID"


@dataclass(frozen=True, slots=True)
class Artifacts:
    """The state folder `home` (WASP_HOME): implements `connectors.base.ArtifactStore`.

    An artifact is finished when its manifest is on disk, names the same key, and its content hash holds; a crash
    at any moment leaves it unfinished or whole. `home` is made with mode 0700; below private/ folders have mode
    0700 and files 0600. Values of this class may be pickled and used by many processes at once: the last writer
    of a path wins, and a mixture of two writers is unfinished.
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
        """Return the finished artifact at `path` if its key is the same and its content hash holds, else None."""
        name, place = self._place(path)
        manifest, _ = verdict(place, key)
        return manifest.ref(name, reused=True) if manifest else None

    def why(self, path: str, key: StepKey) -> str:
        """Say why `find` answers as it does: 'reused because ...', 'computed because ...', 'recomputed because ...'.

        Ask before the step writes: afterwards the answer is about the new file.
        """
        return verdict(self._place(path)[1], key)[1]

    def info(self, ref: ArtifactRef) -> dict[str, Any]:
        """Return the `info` that was written with the artifact."""
        manifest = read_manifest(self._place(ref.path)[1])
        if not isinstance(manifest, Manifest) or manifest.sha256 != ref.sha256:
            problem = manifest if isinstance(manifest, str) else "its manifest is missing or of another result"
            raise ArtifactError(f"{self.home / ref.path}: {problem}. {_AGAIN}")
        return dict(manifest.info)

    # --- tables, matrices, objects, folders
    def write_table(
        self, path: str, table: pd.DataFrame, key: StepKey, info: Mapping[str, Any] | None = None
    ) -> ArtifactRef:
        """Write a Parquet table (zstd) and its manifest; equal tables give equal bytes.

        A column named in the path (`iteration=3/`) is kept in the path alone, so that pandas, duckdb and polars
        read a whole run as one table; `read_table` gives it back.
        """
        arrow = tables.to_arrow(table, path)
        return self._write(path, lambda file: tables.write_arrow(arrow, file), key, len(table), info)

    def read_table(self, ref: ArtifactRef) -> pd.DataFrame:
        """Read a table; ArtifactError when it is gone or its hash differs."""
        return tables.read_frame(self._place(ref.path)[1], ref.sha256)

    def write_matrix(self, path: str, matrix: Matrix, key: StepKey) -> ArtifactRef:
        """Write vectors, shape (rows, dimension), as exact float32 in Parquet."""
        arrow = tables.matrix_to_arrow(matrix)
        info = {"dimension": matrix.shape[1]}
        return self._write(path, lambda file: tables.write_matrix(arrow, file), key, len(matrix), info)

    def read_matrix(self, ref: ArtifactRef) -> Matrix:
        """Read vectors as float32; ArtifactError when they are gone or their hash differs."""
        return tables.read_matrix(self._place(ref.path)[1], ref.sha256)

    def write_json(self, path: str, value: Mapping[str, Any], key: StepKey) -> ArtifactRef:
        """Write one JSON object."""
        text = json.dumps(json.loads(canonical(value)), ensure_ascii=False, indent=1, sort_keys=True)
        return self._write(path, lambda file: _write_bytes(file, text.encode()), key, 1, None)

    def read_json(self, ref: ArtifactRef) -> dict[str, Any]:
        """Read one JSON object; ArtifactError when it is gone or its hash differs."""
        value: dict[str, Any] = json.loads(tables.verified(self._place(ref.path)[1], ref.sha256).to_pybytes())
        return value

    def write_folder(self, path: str, fill: Callable[[Path], None], key: StepKey) -> ArtifactRef:
        """Let `fill` write files into a scratch folder, then move it to `path` whole; `rows` counts its files."""
        name, place = self._writable(path)
        sha256, size, files = write_folder_whole(place, fill, _is_private(name))
        return self._finish(name, make_manifest(key, (sha256, size), files, {}))

    def read_folder(self, ref: ArtifactRef) -> Path:
        """Return the place of a folder; ArtifactError when it is gone or its hash differs."""
        place = self._place(ref.path)[1]
        problem = content_problem(place, ref.sha256)
        if problem:
            raise ArtifactError(f"{place}: {problem}. {_AGAIN}")
        return place

    # --- files without a key
    def write_text(self, path: str, text: str) -> Path:
        """Write a text file (UTF-8) whole, without a manifest; return its place."""
        name, place = self._writable(path)
        write_text_whole(place, text, _is_private(name))
        return place

    def list_runs(self) -> list[dict[str, Any]]:
        """Return the manifests of all runs by folder name; of an unreadable one its `run_id` and `damaged`: why."""
        found = []
        for file in sorted((self.home / "runs").glob("*/manifest.json")):
            try:
                value = json.loads(file.read_text(encoding="utf-8"))
                found.append(value if isinstance(value, dict) else {"damaged": "not a JSON object"})
            except (OSError, ValueError) as error:
                found.append({"damaged": str(error)})
            found[-1].setdefault("run_id", file.parent.name)
        return found

    def write_private_arrays(self, path: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write arrays to `path` below private/ as npz without pickle, mode 0600, whole or not at all."""
        import numpy as np

        if any(np.asarray(array).dtype.hasobject for array in arrays.values()):
            raise ArtifactError("Private arrays hold Python objects: pass arrays of numbers or of fixed-width text.")
        plain = {name: np.asarray(array) for name, array in arrays.items()}
        write_whole(self._private(path), lambda file: np.savez(file, allow_pickle=False, **plain), private=True)

    def read_private_arrays(self, path: str) -> dict[str, NDArray[Any]] | None:
        """Return the arrays written to `path` below private/, None if there are none; ArtifactError if damaged."""
        from zipfile import BadZipFile

        import numpy as np

        place = self._private(path)
        if not place.exists():
            return None
        try:
            with np.load(place, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
        except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
            raise ArtifactError(f"{place} is damaged ({type(error).__name__}). Delete it: it is made again.") from None

    # --- places
    def _write(
        self,
        path: str,
        fill: Callable[[BinaryIO], None],
        key: StepKey,
        rows: int,
        info: Mapping[str, Any] | None,
    ) -> ArtifactRef:
        name, place = self._writable(path)
        facts = write_whole(place, fill, _is_private(name))
        return self._finish(name, make_manifest(key, facts, rows, info or {}))

    def _finish(self, name: str, manifest: Manifest) -> ArtifactRef:
        write_manifest(self.home / name, manifest, _is_private(name))
        return manifest.ref(name)

    def _place(self, path: str) -> tuple[str, Path]:
        pure = PurePosixPath(path)
        inside = bool(pure.parts) and not pure.is_absolute() and ".." not in pure.parts and "\0" not in path
        if inside:
            # A link may lead out of the folder although its name does not.
            inside = (self.home / pure).resolve().is_relative_to(self.home.resolve())
        if not inside:
            raise ArtifactError(f"'{path}' lies outside the state folder {self.home}: use a path relative to it.")
        return str(pure), self.home / pure

    def _writable(self, path: str) -> tuple[str, Path]:
        name, place = self._place(path)
        if place.name.startswith((".", "_")):
            raise ArtifactError(f"'{path}': names with a leading dot or underscore are kept for manifests.")
        return name, place

    def _private(self, path: str) -> Path:
        pure = PurePosixPath(path)
        return self._writable(str(pure if pure.parts[:1] == (PRIVATE,) else PurePosixPath(PRIVATE) / pure))[1]


def _is_private(name: str) -> bool:
    return PurePosixPath(name).parts[0] == PRIVATE


def _write_bytes(file: BinaryIO, data: bytes) -> None:
    file.write(data)
