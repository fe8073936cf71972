"""Atomic file writes: scratch file, fsync, rename, fsync of the folder.

Standard library only.
"""

import errno
import fcntl
import hashlib
import os
import secrets
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from connectors.interfaces.errors import ArtifactError

_ADVICE = {
    errno.ENOSPC: "The disk is full: free space, or set WASP_HOME to a folder on another disk, then resume the run.",
    errno.EDQUOT: "The disk quota is used up: free space, or set WASP_HOME to another disk, then resume the run.",
    errno.EROFS: "The file system is read-only: set WASP_HOME to a folder that can be written.",
    errno.EACCES: "No permission: make the folder writable for this user, or set WASP_HOME to another folder.",
    errno.EPERM: "No permission: make the folder writable for this user, or set WASP_HOME to another folder.",
}


def explain(path: Path, error: OSError) -> ArtifactError:
    """Return the error with the path, the system's reason and advice."""
    advice = _ADVICE.get(
        error.errno or 0, "Check the folder, or set WASP_HOME to another one, then resume the run."
    )
    return ArtifactError(f"Cannot write {path} ({error.strerror or error}). {advice}")


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn an OSError of the block into an ArtifactError about `path`."""
    try:
        yield
    except OSError as error:
        raise explain(path, error) from error


def is_inside(path: Path, folder: Path) -> bool:
    """Return True if a path, after resolving links, is a folder or inside it."""
    target = os.path.realpath(path)
    root = os.path.realpath(folder)
    return target == root or target.startswith(root.rstrip(os.sep) + os.sep)


def make_folder(folder: Path, private: bool = False, mode: int = 0o777) -> None:
    """Create `folder` and missing parents durably; if private, only for their owner."""
    if private:
        mode = 0o700
    missing = [f for f in (folder, *folder.parents) if not f.exists()]
    for created in reversed(missing):
        # Not mkdir's `parents` option: it creates parents with the default mode.
        created.mkdir(mode=mode, exist_ok=True)
    if private and folder.stat().st_mode & 0o077:
        folder.chmod(0o700)
    for created in missing:
        sync_folder(created.parent)


@contextmanager
def locked(path: Path, wait: bool = True, shared: bool = False) -> Iterator[bool]:
    """Lock a folder, or a file created if missing, among processes; a killed process releases the lock.

    Yields False if another process holds it and `wait` is false. `shared`: any number of processes hold it so.
    """
    flags = os.O_RDWR | os.O_CREAT
    if path.is_dir():  # the system opens folders for reading only
        flags = os.O_RDONLY
    operation = fcntl.LOCK_EX
    if shared:
        operation = fcntl.LOCK_SH
    if not wait:
        operation |= fcntl.LOCK_NB
    handle = os.open(path, flags, 0o600)
    is_locked = False
    try:
        with suppress(BlockingIOError):
            fcntl.flock(handle, operation)
            is_locked = True
        yield is_locked
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _replacing(path: Path, private: bool) -> Iterator[Path]:
    """Yield the path of a scratch file or folder, which the block moves to `path`; it is removed after any error."""
    # Readers of Parquet folders skip names with a leading dot. `wasp clean` removes those that killed processes left in
    # the state folder.
    scratch = path.parent / f".{path.name}.{secrets.token_hex(6)}.tmp"
    with explained(path):
        make_folder(path.parent, private)
        try:
            yield scratch
        finally:
            _remove(scratch)
        sync_folder(path.parent)  # a rename is durable only with the folder that contains the name


def write_whole(
    path: Path, fill: Callable[[BinaryIO], object], private: bool = False
) -> tuple[str, int]:
    """Let `fill` write a scratch file and move it to `path`; return SHA-256 and bytes.

    A reader sees either the old file or the complete new one, even after a crash. Disk errors become ArtifactError.
    """
    with _replacing(path, private) as scratch:
        mode = 0o666
        if private:
            mode = 0o600
        with os.fdopen(os.open(scratch, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            fill(file)
            file.flush()
            # Before the rename: the system may write the new name before the content that it names.
            os.fsync(file.fileno())
        facts = file_sha256(scratch), scratch.stat().st_size
        scratch.replace(path)
    return facts


def write_text_whole(path: Path, text: str, private: bool = False) -> tuple[str, int]:
    """Write `text` as UTF-8 with `write_whole`."""
    return write_whole(path, lambda file: file.write(text.encode()), private)


def write_folder_whole(
    path: Path, fill: Callable[[Path], None], private: bool = False
) -> tuple[str, int, int]:
    """Let `fill` write a scratch folder and move it to `path`.

    Returns hash, size in bytes and number of files. Between the removal of the old folder and the move, nothing is at
    `path`. Its manifest is then invalid, so the step is computed again.
    """
    with _replacing(path, private) as scratch:
        mode = 0o777
        if private:
            mode = 0o700
        scratch.mkdir(mode)
        fill(scratch)
        files = _durable(scratch, private)
        facts = folder_sha256(scratch), sum(f.stat().st_size for f in files), len(files)
        if path.exists():
            with _replacing(path, private) as old:
                path.replace(old)
        scratch.replace(path)
    return facts


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def folder_sha256(path: Path) -> str:
    """Return one SHA-256 of the names and contents of all files, independent of order."""
    lines = [
        f"{file_sha256(f)} {f.relative_to(path).as_posix()}\n"
        for f in sorted(path.rglob("*"))
        if f.is_file()
    ]
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()


def _durable(folder: Path, private: bool) -> list[Path]:
    files = [f for f in folder.rglob("*") if f.is_file()]
    for file in files:
        if private:
            file.chmod(0o600)
        with file.open("rb") as handle:
            os.fsync(handle.fileno())
    for inner in (f for f in (folder, *folder.rglob("*")) if f.is_dir()):
        sync_folder(inner)
    return files


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def use_write_ahead_log(database: sqlite3.Connection, seconds: float) -> None:
    """Switch a SQLite file to its write-ahead log.

    SQLite does not wait for locks of other processes when it changes the journal mode; wait at most `seconds` here.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            database.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
