"""Repair of damaged files of completions: whatever can be read goes into a new file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connectors.interfaces.errors import ArtifactError
from connectors.models.base.claims import is_running
from connectors.models.base.completion_store import connect, insert

UNREADABLE_IN_A_ROW = 10_000
"""Numbers of completions that cannot be read, after which the rest of a file counts as lost."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Repaired:
    """A repaired file, where the damaged one is now, and the completions kept and lost."""

    file: str
    damaged: str
    kept: int
    lost: int


def repair(folder: Path) -> list[Repaired]:
    """Repair the damaged files of a folder; return what happened to each.

    The damaged file stays beside the new one, as `NAME.damaged`. Raises ArtifactError while a process uses the file.
    """
    return [_rewrite(file) for file in sorted(folder.glob("*.db")) if not _is_sound(file)]


def _is_sound(file: Path) -> bool:
    try:
        with closing(sqlite3.connect(file)) as database:
            return bool(database.execute("PRAGMA integrity_check").fetchone()[0] == "ok")
    except sqlite3.Error:
        return False


def _rewrite(file: Path) -> Repaired:
    with closing(sqlite3.connect(file)) as database:
        database.row_factory = sqlite3.Row
        _refuse_used(file, database)
        rows = list(_readable(database))
        identity = _identity(database)
    new, damaged = file.with_suffix(".repaired"), _free(file.with_suffix(".damaged"))
    new.unlink(missing_ok=True)
    with closing(connect(new, identity)) as database:
        for row in rows:
            row.pop("checksum", None)  # of earlier versions
            insert(database, row)
        database.execute("INSERT INTO asked (prompt_key, answers) SELECT prompt_key, 1 FROM answers")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for ending in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            Path(f"{file}{ending}").replace(f"{damaged}{ending}")
    file.replace(damaged)
    new.replace(file)
    numbers = [row["number"] for row in rows]
    span = max(numbers) - min(numbers) + 1 if numbers else 0
    return Repaired(str(file), str(damaged), len(rows), span - len(rows))


def _refuse_used(file: Path, database: sqlite3.Connection) -> None:
    with suppress(sqlite3.Error):
        owners = {row[0] for row in database.execute("SELECT DISTINCT owner FROM claims")}
        if any(is_running(owner) for owner in owners):
            raise ArtifactError(f"{file}: a running process asks for completions. Stop the runs of this folder first.")


def _readable(database: sqlite3.Connection) -> Iterator[Row]:
    """Yield the rows that can be read, in the order of their numbers; skip unreadable ones."""
    number, unreadable = 0, 0
    while unreadable < UNREADABLE_IN_A_ROW:
        try:
            for row in database.execute("SELECT * FROM answers WHERE number > ? ORDER BY number", (number,)):
                number, unreadable = row["number"], 0
                yield dict(row)
            return
        except sqlite3.Error:
            number, unreadable = number + 1, unreadable + 1


def _identity(database: sqlite3.Connection) -> str | None:
    with suppress(sqlite3.Error):
        row = database.execute("SELECT identity FROM model").fetchone()
        return str(row[0]) if row else None
    return None


def _free(path: Path) -> Path:
    """Return the path, or the first numbered one that does not exist."""
    number = 1
    while path.exists():
        number += 1
        path = path.with_name(f"{path.stem}.damaged{number}")
    return path
