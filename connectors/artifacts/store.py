"""All files of the state folder: Parquet, JSON and folders with a manifest each, whole or not there at all.

`connectors.artifacts.shared_store` keeps the same files behind an address; what it overrides stands last in this class.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO

from connectors.artifacts import parquet
from connectors.artifacts.atomic_files import explained, lies_in, make_folder, write_folder_whole, write_whole
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
    """The state folder `home` (WASP_HOME): implements `connectors.interfaces.artifacts.ArtifactStore`.

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
        self._look(name, key)
        manifest, _ = verdict(place, key)
        return manifest.ref(name, reused=True) if manifest else None

    def why(self, path: str, key: StepKey) -> str:
        """Say why `find` answers as it does: 'reused because ...', 'computed because ...', 'recomputed because ...'.

        Ask before the step writes: afterwards the answer is about the new file.
        """
        name, place = self._place(path)
        self._look(name, key)
        return verdict(place, key)[1]

    def info(self, ref: ArtifactRef) -> dict[str, Any]:
        """Return the `info` that was written with the artifact."""
        manifest = self._manifest(self._place(ref.path)[0])
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
        arrow = parquet.to_arrow(table, path)
        return self._write(path, lambda file: parquet.write_arrow(arrow, file), key, len(table), info)

    def read_table(self, ref: ArtifactRef) -> pd.DataFrame:
        """Read a table; ArtifactError when it is gone or its hash differs."""
        return parquet.read_frame(self._held(ref), ref.sha256, None if is_private(ref.path) else FRAMES)

    def write_matrix(self, path: str, matrix: Matrix | Iterable[Matrix], key: StepKey) -> ArtifactRef:
        """Write vectors, shape (rows, dimension), as exact float32 in Parquet; or blocks of them, one after another.

        Blocks are written as they come, so that more vectors can be written than fit into memory.
        """
        import numpy as np

        blocks: Iterable[Matrix] = (matrix,) if isinstance(matrix, np.ndarray) else matrix
        name, place = self._writable(path)
        shape: list[int] = []
        fill = lambda file: shape.extend(parquet.write_matrix(blocks, file))  # noqa: E731
        facts = write_whole(place, fill, is_private(name), in_order=True)
        return self._finish(name, make_manifest(key, facts, shape[0], {"dimension": shape[1]}))

    def read_matrix(self, ref: ArtifactRef) -> Matrix:
        """Read vectors as float32, not to be changed; ArtifactError when they are gone or their hash differs."""
        return parquet.read_matrix(self._held(ref), ref.sha256)

    def write_json(self, path: str, value: Mapping[str, Any], key: StepKey) -> ArtifactRef:
        """Write one JSON object."""
        text = json.dumps(json.loads(canonical(value)), ensure_ascii=False, indent=1, sort_keys=True)
        return self._write(path, lambda file: write_bytes(file, text.encode()), key, 1, None)

    def read_json(self, ref: ArtifactRef) -> dict[str, Any]:
        """Read one JSON object; ArtifactError when it is gone or its hash differs."""
        return parquet.read_json(self._held(ref), ref.sha256)

    def write_folder(self, path: str, fill: Callable[[Path], None], key: StepKey) -> ArtifactRef:
        """Let `fill` write files into a scratch folder, then move it to `path` whole; `rows` counts its files."""
        name, place = self._writable(path)
        sha256, size, files = write_folder_whole(place, fill, is_private(name))
        return self._finish(name, make_manifest(key, (sha256, size), files, {}))

    def read_folder(self, ref: ArtifactRef) -> Path:
        """Return the place of a folder; ArtifactError when it is gone or its hash differs."""
        place = self._held(ref)
        problem = content_problem(place, ref.sha256)
        if problem:
            raise ArtifactError(f"{place}: {problem}. {_AGAIN}")
        return place

    def fetch(self, path: str) -> Path:
        """Return the place on this machine of a finished file or folder, whatever its key; ArtifactError if none is."""
        name, place = self._place(path)
        manifest = self._manifest(name)
        if not isinstance(manifest, Manifest):
            raise ArtifactError(f"{self.where(name)}: {manifest or 'there is no finished result'}. {_AGAIN}")
        problem = content_problem(self._held(manifest.ref(name)), manifest.sha256)
        if problem:
            raise ArtifactError(f"{self.where(name)}: {problem}. {_AGAIN}")
        return place

    def finished(self, pattern: str) -> dict[str, dict[str, Any]]:
        """Return the manifests of all artifacts whose paths match `pattern` ('runs/*/student'), by path.

        One that cannot be read is empty.
        """
        found = {}
        for place in sorted(self.home.glob(str(manifest_path(Path(pattern))))):
            manifest = read_manifest(place.with_name(place.name[1 : -len(".json")]))
            name = place.with_name(place.name[1 : -len(".json")]).relative_to(self.home).as_posix()
            found[name] = asdict(manifest) if isinstance(manifest, Manifest) else {}
        return found

    # --- files without a key
    def write_text(self, path: str, text: str) -> Path:
        """Write a text file (UTF-8) whole, without a manifest; return its place on this machine."""
        return self.write_bytes(path, text.encode())

    def write_bytes(self, path: str, data: bytes) -> Path:
        """Write a file whole, without a manifest; return its place on this machine."""
        name, place = self._writable(path)
        write_whole(place, lambda file: write_bytes(file, data), is_private(name))
        self._send(name)
        return place

    def read_text(self, path: str) -> str | None:
        """Return a file that was written by `write_text`, None if there is none."""
        data = self.read_bytes(path)
        return None if data is None else data.decode()

    def read_bytes(self, path: str) -> bytes | None:
        """Return a file's bytes, from the store where one is shared, unchecked; None if there is none."""
        return self._bytes(self._place(path)[0])

    def exists(self, path: str) -> bool:
        """Say whether there is a file or folder at `path`, finished or not."""
        return self._place(path)[1].exists()

    def where(self, path: str = "") -> str:
        """Return where `path` lies, for people: a place on this machine, or an address."""
        return str(self.home / path)

    def list_runs(self) -> list[dict[str, Any]]:
        """Return the manifests of all runs by folder name; of an unreadable one its `run_id` and `damaged`: why."""
        found = []
        for run_id in self._runs():
            try:
                value = json.loads(self.read_text(f"runs/{run_id}/manifest.json") or "")
                found.append(value if isinstance(value, dict) else {"damaged": "not a JSON object"})
            except (OSError, ValueError) as error:
                found.append({"damaged": str(error)})
            found[-1].setdefault("run_id", run_id)
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
        facts = write_whole(place, fill, is_private(name))
        return self._finish(name, make_manifest(key, facts, rows, info or {}))

    def _finish(self, name: str, manifest: Manifest) -> ArtifactRef:
        write_manifest(self.home / name, manifest, is_private(name))
        self._send(name, manifest)
        return manifest.ref(name)

    def _place(self, path: str) -> tuple[str, Path]:
        pure = PurePosixPath(path)
        inside = bool(pure.parts) and not pure.is_absolute() and ".." not in pure.parts and "\0" not in path
        if inside:
            # A link may lead out of the folder although its name does not.
            inside = lies_in(self.home / pure, self.home)
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

    # --- what lies elsewhere as well
    def check(self) -> None:
        """Raise ArtifactError when nothing could be kept here."""

    def _look(self, name: str, key: StepKey) -> None:
        """Make this machine know what there is at `name` for a key."""

    def _held(self, ref: ArtifactRef) -> Path:
        """Return the place on this machine of an artifact's content."""
        return self._place(ref.path)[1]

    def _manifest(self, name: str) -> Manifest | str | None:
        """Return what `read_manifest` says of `name`."""
        return read_manifest(self.home / name)

    def _send(self, name: str, manifest: Manifest | None = None) -> None:
        """Hand on what was written at `name` on this machine."""

    def _bytes(self, name: str) -> bytes | None:
        try:
            return (self.home / name).read_bytes()
        except FileNotFoundError:
            return None

    def _runs(self) -> list[str]:
        return sorted(file.parent.name for file in (self.home / "runs").glob("*/manifest.json"))


def is_private(name: str) -> bool:
    """Say whether a file stays on this machine whatever is shared."""
    return PurePosixPath(name).parts[0] == PRIVATE


def write_bytes(file: BinaryIO, data: bytes) -> None:
    """Write all of `data`."""
    file.write(data)
