"""Finished files of a run: references, content keys and the store protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from connectors.interfaces.content_keys import digest
from connectors.interfaces.embedding import Matrix

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ArtifactRef:
    """A finished file: path below the state folder, content hash, key, row count."""

    path: str
    sha256: str
    key: str
    step: str
    rows: int
    reused: bool = False


@dataclass(frozen=True, slots=True)
class StepKey:
    """The inputs of a step's result: name, version, parameters, input content hashes."""

    step: str
    version: int
    parameters: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """64 hexadecimal digits; equal keys mean equal results."""
        return digest(self)


class ArtifactStore(Protocol):
    """Tables, JSON files and folders below one state folder.

    Each has a manifest and is written atomically.
    """

    def find(self, path: str, key: StepKey) -> ArtifactRef | None:
        """Return the finished artifact at `path`, None unless its key and hash match."""

    def why(self, path: str, key: StepKey) -> str:
        """Return why `find` had its result: 'reused because' or 'computed because'."""

    def write_table(
        self, path: str, table: pd.DataFrame, key: StepKey, info: Mapping[str, Any] | None = None
    ) -> ArtifactRef:
        """Write a Parquet table and its manifest atomically."""

    def read_table(self, ref: ArtifactRef) -> pd.DataFrame:
        """Read a table; ArtifactError if it is missing or its hash differs."""

    def write_matrix(self, path: str, matrix: Matrix | Iterable[Matrix], key: StepKey) -> ArtifactRef:
        """Write vectors (rows, dimension) as Parquet, whole or block by block."""

    def read_matrix(self, ref: ArtifactRef) -> Matrix:
        """Read vectors as read-only float32."""

    def write_json(self, path: str, value: Mapping[str, Any], key: StepKey) -> ArtifactRef:
        """Write one JSON object."""

    def read_json(self, ref: ArtifactRef) -> dict[str, Any]:
        """Read one JSON object."""

    def write_folder(self, path: str, fill: Callable[[Path], None], key: StepKey) -> ArtifactRef:
        """Let `fill` write files into a scratch folder, then move it to `path`."""

    def read_folder(self, ref: ArtifactRef) -> Path:
        """Return a folder's path on this machine.

        ArtifactError if it is missing or its hash differs.
        """

    def write_text(self, path: str, text: str) -> Path:
        """Write a small file that no step depends on."""

    def read_text(self, path: str) -> str | None:
        """Return a small file's content, None if it does not exist."""

    def exists(self, path: str) -> bool:
        """Return True if a file exists at `path`, finished or not."""

    def write_private_arrays(self, path: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write arrays below private/, mode 0600, atomically and without pickle."""

    def read_private_arrays(self, path: str) -> dict[str, NDArray[Any]] | None:
        """Read arrays below private/, None if there are none."""

    def info(self, ref: ArtifactRef) -> dict[str, Any]:
        """Return the `info` of the artifact's manifest."""
