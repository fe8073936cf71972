"""What coordinator and parties of a federation meet by."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol


class Exchange(Protocol):
    """Files that a coordinator and the parties of a federation all reach: whole or not there, the last writer wins."""

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder that this machine reaches, where a look costs little."""

    def read(self, name: str) -> bytes | None:
        """Return a file's bytes, None if there is no such file; ArtifactError when the place does not answer."""

    def read_all(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return the bytes of many files at once, without those that are not there."""

    def write(self, name: str, source: Path | bytes) -> None:
        """Write a file."""

    def exists(self, name: str) -> bool:
        """Say whether there is a file of this name."""

    def below(self, name: str) -> list[str]:
        """Return the names of all files below a folder, sorted."""

    def match(self, pattern: str) -> list[str]:
        """Return the names of all files that match a pattern with stars, sorted."""

    def remove(self, names: Sequence[str]) -> None:
        """Remove files; those that are gone already are no error."""
