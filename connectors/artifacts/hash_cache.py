"""What this process has read and found whole: the hash of a file that did not change since is not worked out again.

A file is known by its inode, size, and times of change to the nanosecond; the system sets the latter of them at every
write and rename, and nobody else can. What goes wrong on a disk unseen by the system is not seen here either, but
neither would another reading see it: the pages are in memory since the first. Files that changed within the last tick
of the clock are not remembered, since a second change could bear the same time.
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
"""Longer than the tick of any system's clock for files."""
MOST_FILES = 100_000
MOST_BYTES = 64_000_000
LARGEST_BYTES = 8_000_000


class Hashes:
    """The SHA-256 of files that were hashed in this process. Safe for threads."""

    def __init__(self, most: int = MOST_FILES) -> None:
        self._most = most
        self._known: OrderedDict[str, tuple[tuple[int, ...], str]] = OrderedDict()
        self._lock = threading.Lock()

    def sha256(self, path: Path) -> str:
        """Return the hash of a file's content as it is now. Raises OSError where there is none."""
        facts, name = _facts(path), os.fspath(path)
        with self._lock:
            known = self._known.get(name)
        if known is not None and known[0] == facts:
            return known[1]
        found = file_sha256(path)
        if _facts(path) == facts and time.time_ns() - facts[-1] > TICK_NS:
            with self._lock:
                self._known[name] = facts, found
                while len(self._known) > self._most:
                    self._known.popitem(last=False)
        return found

    def forget(self) -> None:
        """Know no file."""
        with self._lock:
            self._known.clear()


class Recent(Generic[Value]):
    """Values by the hash of what they were read from, the latest that fit into so many bytes. Safe for threads."""

    def __init__(self, most: int = MOST_BYTES, largest: int = LARGEST_BYTES) -> None:
        self._most, self._largest = most, largest
        self._held: OrderedDict[str, tuple[Value, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def find(self, sha256: str) -> Value | None:
        """Return the value, None where it is not held."""
        with self._lock:
            if sha256 not in self._held:
                return None
            self._held.move_to_end(sha256)
            return self._held[sha256][0]

    def keep(self, sha256: str, value: Value, size: int) -> None:
        """Hold a value of `size` bytes; not a large one, which is worth its reading."""
        if size > self._largest:
            return
        with self._lock:
            self._bytes += size - self._held.pop(sha256, (None, 0))[1]
            self._held[sha256] = value, size
            while self._bytes > self._most:
                self._bytes -= self._held.popitem(last=False)[1][1]

    def forget(self) -> None:
        """Hold nothing."""
        with self._lock:
            self._held.clear()
            self._bytes = 0


def _facts(path: Path) -> tuple[int, ...]:
    told = path.stat()
    return told.st_dev, told.st_ino, told.st_size, told.st_mtime_ns, told.st_ctime_ns


HASHES = Hashes()
"""Those of this process."""
FRAMES: Recent[Any] = Recent()
"""Tables of this process that are not private."""
