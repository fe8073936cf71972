"""Exchange of a federation in which each writer has a folder of its own.

A store such as S3 enforces this by a policy for each prefix; in a shared folder the modes and owners of the file system
do. Another user who could write there could replace messages or end a round.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from connectors.artifacts.atomic_files import explained
from connectors.artifacts.shared_store import RemoteFiles
from connectors.interfaces.errors import ConfigError

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class ExchangeFiles(RemoteFiles):
    """Files below `address`, of which this process writes and removes those below `prefix` only."""

    def __init__(self, address: str, prefix: str) -> None:
        super().__init__(address, "exchange")
        self.prefix = prefix
        self._claimed = False

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.address, self.prefix)

    def write(self, name: str, source: Path | bytes) -> None:
        """Write a file below the prefix; ConfigError if other users can write there."""
        self._check_own(name)
        self._claim()
        if self.is_folder:
            _make_folders((Path(self.address) / name).parent)
        super().write(name, source)

    def remove(self, names: Sequence[str]) -> None:
        """Remove files below the prefix; a missing file is not an error."""
        for name in names:
            self._check_own(name)
        super().remove(names)

    def _check_own(self, name: str) -> None:
        parts = name.split("/")
        if not name.startswith(f"{self.prefix}/") or ".." in parts:
            raise ConfigError(f"exchange: {name} is not below {self.prefix}/, the only folder of this writer.")

    def _claim(self) -> None:
        """Create the folder of the prefix and check that only this user can write to it."""
        if self._claimed or not self.is_folder:
            return
        root = Path(self.address)
        own = root / self.prefix
        with explained(own):
            _make_folders(root)
            for folder in reversed([*own.parents][: len(Path(self.prefix).parts)]):
                _share(folder, root)
                _check_shared(folder)
            _make_folders(own)
            _check_closed(own)
        self._claimed = True


def _make_folders(folder: Path) -> None:
    """Create a folder and its missing parents, writable for this user only."""
    for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        missing.mkdir(mode=0o755, exist_ok=True)


def _share(folder: Path, root: Path) -> None:
    """Create a folder in which every writer of the exchange creates its own, with the mode of the exchange."""
    if not folder.exists():
        folder.mkdir(exist_ok=True)
        folder.chmod(stat.S_IMODE(root.stat().st_mode))


def _check_shared(folder: Path) -> None:
    mode = folder.stat().st_mode
    if os.name == "posix" and mode & OTHERS_WRITE and not mode & stat.S_ISVTX:
        raise ConfigError(
            f"exchange: other users can rename the folders in {folder} (mode {stat.S_IMODE(mode):o}). Run: chmod +t "
            f"{folder}"
        )


def _check_closed(folder: Path) -> None:
    status = folder.stat()
    if os.name != "posix":
        return
    if status.st_uid != os.geteuid():
        raise ConfigError(
            f"exchange: {folder} belongs to another user (uid {status.st_uid}). Ask its owner to remove it; each party "
            "creates its own."
        )
    if status.st_mode & OTHERS_WRITE:
        raise ConfigError(
            f"exchange: other users can write to {folder} (mode {stat.S_IMODE(status.st_mode):o}). Run: chmod go-w "
            f"{folder}"
        )
