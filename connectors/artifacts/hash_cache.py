"""Hashes of files: an unchanged file is hashed once per process.

A file is identified by inode, size, and change times in nanoseconds. The system sets the change time at every write and
rename, and programs cannot. Silent disk errors remain undetected, but a second read would not detect them either: the
pages are in memory since the first. Files that changed within the last clock tick are not cached, because a second
change could have the same time.
"""

from __future__ import annotations

import time
from functools import lru_cache
from pathlib import Path

from connectors.artifacts.atomic_files import file_sha256

TICK_NS = 20_000_000
"""Longer than the clock tick of any system's file times."""


def current_sha256(path: Path) -> str:
    """Return the hash of a file's current content; OSError if it does not exist."""
    facts = _facts(path)
    return file_sha256(path) if time.time_ns() - facts[-1] <= TICK_NS else _cached(path, facts)


@lru_cache(100_000)
def _cached(path: Path, facts: tuple[int, ...]) -> str:  # noqa: ARG001 - identifies the content
    # A file that changes during this read has other facts from then on, so that this hash is not found again.
    return file_sha256(path)


def _facts(path: Path) -> tuple[int, ...]:
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
