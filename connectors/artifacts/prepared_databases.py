"""SQLite databases of Prefect and MLflow without a run, one per version in the user's cache folder.

Migrations of a new database take 5 s (Prefect) and 2 s (MLflow) of processor time. A copy takes none.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path


def prepare(name: str, database: Path, migrate: Callable[[], object]) -> bool:
    """Copy a prepared database to a new file, else let `migrate` make it and keep a copy; return True for a copy."""
    if database.exists():
        return False
    is_copy = copy_prepared(name, database)
    if not is_copy:
        migrate()
        keep_prepared(name, database)
    return is_copy


def copy_prepared(name: str, target: Path) -> bool:
    """Copy a prepared database to a new file; return False without one.

    A database that another process creates meanwhile is not replaced.
    """
    scratch = _scratch(target)
    try:
        shutil.copyfile(_prepared(name), scratch)
        os.link(scratch, target)
    except OSError:  # no prepared database, or no such folder: the migrations make one
        return target.exists()
    finally:
        scratch.unlink(missing_ok=True)
    return True


def keep_prepared(name: str, database: Path) -> None:
    """Keep a copy of a migrated database, which must contain no run. Without a writable cache folder, do nothing."""
    prepared = _prepared(name)
    scratch = _scratch(prepared)
    with suppress(OSError, sqlite3.OperationalError):
        prepared.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            connection.execute("VACUUM INTO ?", [str(scratch)])
        scratch.replace(prepared)


def _prepared(name: str) -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "wasp" / name


def _scratch(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}")
