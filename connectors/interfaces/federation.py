"""Protocol of the file exchange between coordinator and parties of a federation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

COORDINATOR: Final = "coordinator"
"""Name of the coordinator in the registry; no party may have it."""

ROUNDS: Final = "rounds"
"""Folder of the exchange that only the coordinator writes."""


def own_folder(party: str) -> str:
    """Return the folder of the exchange that only this party writes."""
    return f"parties/{party}"


class Exchange(Protocol):
    """Files that a coordinator and all parties of a federation can access.

    A file is complete or absent; the last writer wins.
    """

    @property
    def is_folder(self) -> bool:
        """True for a folder on this machine, where a lookup is cheap."""

    def read(self, name: str) -> bytes | None:
        """Return a file's bytes, None if it does not exist.

        ArtifactError if the exchange is unreachable.
        """

    def read_all(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return the bytes of those of the files that exist."""

    def write(self, name: str, source: Path | bytes) -> None:
        """Write a file."""

    def exists(self, name: str) -> bool:
        """Return True if a file of this name exists."""

    def below(self, name: str) -> list[str]:
        """Return the names of all files below a folder, sorted."""

    def remove(self, names: Sequence[str]) -> None:
        """Remove files; a missing file is not an error."""
