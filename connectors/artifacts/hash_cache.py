"""Caches of file hashes and of public tables: an unchanged file is hashed once per process.

A file is identified by inode, size, and change times in nanoseconds. The system sets the change time at every write and
rename, and programs cannot. Silent disk errors remain undetected, but a second read would not detect them either: the
pages are in memory since the first. Files that changed within the last clock tick are not cached, because a second
change could have the same time.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

from connectors.artifacts.atomic_files import file_sha256

TICK_NS = 20_000_000
"""Longer than the clock tick of any system's file times."""
LARGEST_SHARE = 8
"""A value of more than this part of a cache is not stored."""


class Cache:
    """A cache of at most `room` units, without the values that were not used for longest. Thread-safe."""

    def __init__(self, room: int) -> None:
        self._room, self._used = room, 0
        self._values: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, name: str) -> Any:
        """Return the cached value, or None."""
        with self._lock:
            if name not in self._values:
                return None
            self._values.move_to_end(name)
            return self._values[name][0]

    def keep(self, name: str, value: Any, size: int = 1) -> None:
        """Cache a value of `size` units unless it is too large."""
        with self._lock:
            self._used -= self._values.pop(name, (None, 0))[1]
            if size <= max(1, self._room // LARGEST_SHARE):
                self._values[name], self._used = (value, size), self._used + size
            while self._used > self._room:
                self._used -= self._values.popitem(last=False)[1][1]

    def forget(self) -> None:
        """Clear the cache."""
        with self._lock:
            self._values.clear()
            self._used = 0


class Hashes(Cache):
    """A cache of the SHA-256 of files."""

    def sha256(self, path: Path) -> str:
        """Return the hash of a file's current content; OSError if it does not exist."""
        facts, name = _facts(path), os.fspath(path)
        known, digest = self.find(name) or (None, "")
        if known != facts:
            digest = file_sha256(path)
            if _facts(path) == facts and time.time_ns() - facts[-1] > TICK_NS:
                self.keep(name, (facts, digest))
        return digest


def _facts(path: Path) -> tuple[int, ...]:
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


HASHES = Hashes(100_000)
"""Hashes of files, by path."""
FRAMES = Cache(64_000_000)
"""Public tables by their hash, in bytes."""
