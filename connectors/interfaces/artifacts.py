"""Finished files of a run: references, content keys and the store that reads and writes them."""

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
    """A finished file: `path` relative to the state folder, content hash, key of its meaning, number of rows."""

    path: str
    sha256: str
    key: str
    step: str
    rows: int
    reused: bool = False


@dataclass(frozen=True, slots=True)
class StepKey:
    """What a step's result depends on: its name and version, its parameters, the content hashes of its inputs."""

    step: str
    version: int
    parameters: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """64 hexadecimal digits; equal keys mean equal results."""
        return digest(self)


class ArtifactStore(Protocol):
    """Parquet, JSON and folders with a manifest each, written atomically, below one state folder."""

    def find(self, path: str, key: StepKey) -> ArtifactRef | None:
        """Return the finished artifact at `path` if its key is the same and its content hash holds, else None."""

    def why(self, path: str, key: StepKey) -> str:
        """Say why `find` answered as it did: 'reused because ...' or 'computed because ...'."""

    def write_table(
        self, path: str, table: pd.DataFrame, key: StepKey, info: Mapping[str, Any] | None = None
    ) -> ArtifactRef:
        """Write a Parquet table and its manifest; a reader sees all of it or nothing."""

    def read_table(self, ref: ArtifactRef) -> pd.DataFrame:
        """Read a table; ArtifactError when it is gone or its hash differs."""

    def write_matrix(self, path: str, matrix: Matrix | Iterable[Matrix], key: StepKey) -> ArtifactRef:
        """Write vectors (rows, dimension) as Parquet, whole or in blocks as they come."""

    def read_matrix(self, ref: ArtifactRef) -> Matrix:
        """Read vectors as float32; they may not be changed in place."""

    def write_json(self, path: str, value: Mapping[str, Any], key: StepKey) -> ArtifactRef:
        """Write one JSON object."""

    def read_json(self, ref: ArtifactRef) -> dict[str, Any]:
        """Read one JSON object."""

    def write_folder(self, path: str, fill: Callable[[Path], None], key: StepKey) -> ArtifactRef:
        """Let `fill` write files into a scratch folder, then move it to `path` whole."""

    def read_folder(self, ref: ArtifactRef) -> Path:
        """Return the place of a folder on this machine; ArtifactError when it is gone or its hash differs."""

    def write_text(self, path: str, text: str) -> Path:
        """Write a small file that no step depends on."""

    def read_text(self, path: str) -> str | None:
        """Return a small file's content; None where there is none."""

    def exists(self, path: str) -> bool:
        """Say whether there is a file at `path`, finished or not."""

    def write_private_arrays(self, path: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write arrays below private/, mode 0600, atomically and without pickle."""

    def read_private_arrays(self, path: str) -> dict[str, NDArray[Any]] | None:
        """Read arrays below private/; None when there are none."""

    def info(self, ref: ArtifactRef) -> dict[str, Any]:
        """Return the `info` that was written with the artifact."""
