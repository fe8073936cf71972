"""Cache of file hashes: an unchanged file is hashed once per process.

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
from typing import Any, Generic, TypeVar

from connectors.artifacts.atomic_files import file_sha256

Value = TypeVar("Value")

TICK_NS = 20_000_000
"""Longer than the clock tick of any system's file times."""
MOST_FILES = 100_000
MOST_BYTES = 64_000_000
LARGEST_BYTES = 8_000_000


class Hashes:
    """A cache of the SHA-256 of files. Thread-safe."""

    def __init__(self, most: int = MOST_FILES) -> None:
        self._most = most
        self._cache: OrderedDict[str, tuple[tuple[int, ...], str]] = OrderedDict()
        self._lock = threading.Lock()

    def sha256(self, path: Path) -> str:
        """Return the hash of a file's current content; OSError if it does not exist."""
        facts, name = _facts(path), os.fspath(path)
        with self._lock:
            cached = self._cache.get(name)
        if cached is not None and cached[0] == facts:
            return cached[1]
        digest = file_sha256(path)
        if _facts(path) == facts and time.time_ns() - facts[-1] > TICK_NS:
            with self._lock:
                self._cache[name] = facts, digest
                while len(self._cache) > self._most:
                    self._cache.popitem(last=False)
        return digest

    def forget(self) -> None:
        """Clear the cache."""
        with self._lock:
            self._cache.clear()


class Recent(Generic[Value]):
    """A size-limited cache of values by the hash of their source. Thread-safe."""

    def __init__(self, most: int = MOST_BYTES, largest: int = LARGEST_BYTES) -> None:
        self._most, self._largest = most, largest
        self._held: OrderedDict[str, tuple[Value, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def find(self, sha256: str) -> Value | None:
        """Return the cached value, or None."""
        with self._lock:
            if sha256 not in self._held:
                return None
            self._held.move_to_end(sha256)
            return self._held[sha256][0]

    def keep(self, sha256: str, value: Value, size: int) -> None:
        """Cache a value of `size` bytes unless it is too large."""
        if size > self._largest:
            return
        with self._lock:
            self._bytes += size - self._held.pop(sha256, (None, 0))[1]
            self._held[sha256] = value, size
            while self._bytes > self._most:
                self._bytes -= self._held.popitem(last=False)[1][1]

    def forget(self) -> None:
        """Clear the cache."""
        with self._lock:
            self._held.clear()
            self._bytes = 0


def _facts(path: Path) -> tuple[int, ...]:
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


HASHES = Hashes()
"""Hash cache of this process."""
FRAMES: Recent[Any] = Recent()
"""Cache of public tables of this process."""
