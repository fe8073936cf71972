"""Store of completions: one SQLite file per model identity.

Each completion is one small transaction.
"""

# Names of tables and columns are those of the first version (`answers`, `asked`, `plm`): earlier files stay readable.

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from connectors.artifacts.atomic_files import explained, make_folder, use_write_ahead_log
from connectors.interfaces.content_keys import canonical, digest
from connectors.interfaces.errors import ArtifactError
from connectors.interfaces.json_values import Json
from connectors.interfaces.models import Completion
from connectors.interfaces.prompts import Prompt
from connectors.models.base.processes import is_running

DAMAGED = (
    "If it is damaged, move it and its -wal and -shm files to another folder, then resume the run: its completions are "
    "requested and paid again."
)
"""Advice about a file that SQLite cannot read."""

WAIT_SECONDS = 60.0
"""Time that a writer waits for another process."""
PAUSE_SECONDS = 120.0
"""Time between two completions from which on nothing was requested."""

_CREATION_LOCK = threading.Lock()

_SCHEMA = """
CREATE TABLE IF NOT EXISTS model (identity TEXT PRIMARY KEY) STRICT;
CREATE TABLE IF NOT EXISTS answers (
    number INTEGER PRIMARY KEY AUTOINCREMENT, prompt_key TEXT NOT NULL UNIQUE, prompt TEXT NOT NULL,
    label TEXT NOT NULL, plm TEXT NOT NULL, text TEXT NOT NULL, finish_reason TEXT NOT NULL,
    tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL, dollars REAL NOT NULL, error TEXT NOT NULL,
    created TEXT NOT NULL, estimated INTEGER NOT NULL DEFAULT 0,
    request_id TEXT NOT NULL DEFAULT '', served_model TEXT NOT NULL DEFAULT '', seconds REAL) STRICT;
CREATE TABLE IF NOT EXISTS asked (
    prompt_key TEXT PRIMARY KEY, answers INTEGER NOT NULL DEFAULT 0, errors INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE TABLE IF NOT EXISTS claims (prompt_key TEXT PRIMARY KEY, owner TEXT NOT NULL, until REAL NOT NULL) STRICT;
"""
_ADDED = {
    "estimated": "INTEGER NOT NULL DEFAULT 0",
    **dict.fromkeys(("request_id", "served_model"), "TEXT NOT NULL DEFAULT ''"),
    "seconds": "REAL",
}
"""Columns of `answers` that files of earlier versions lack."""
_PAID_CHARACTERS = """
SELECT tokens_in, tokens_out, seconds, CASE WHEN request_id != '' AND request_id = lag(request_id) OVER arrivals
    AND characters = lag(characters) OVER arrivals THEN 0 ELSE characters END AS characters
FROM (SELECT number, tokens_in, tokens_out, seconds, request_id, length(json_extract(prompt, '$.text')) AS characters
    FROM answers) WINDOW arrivals AS (ORDER BY number)
"""
"""Tokens of each completion, and the characters of its prompt, for the first of several in one response only."""
_COMPLETION = "text, finish_reason, tokens_in, tokens_out, dollars, error, estimated"


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored completion; `number` grows in order of arrival."""

    number: int
    prompt: Prompt
    completion: Completion


@dataclass(frozen=True, slots=True)
class Lengths:
    """Statistics of completions: count, mean tokens, mean seconds per completion (0: unknown).

    `characters`: mean length of their prompts; completions of one response share the characters of one prompt, as they
    share its tokens.
    """

    answers: int
    tokens_in: float
    tokens_out: float
    seconds: float
    characters: float = 0.0


class CompletionStore:
    """Completions in `folder`, one file (mode 0600) per model identity.

    Safe for threads, processes and kill -9. The key of a completion is (model identity, prompt.key). The first stored
    completion of a key is final. The table `asked` counts the model's completions per prompt, stored or not: if no
    count exceeds 1, nothing was requested twice. The table `claims` names the caller that requests a prompt now. `put`
    returns after the write: the completion survives the end of the process, but a power cut can lose the last moments.
    Prompts contain only synthetic examples, so nothing here is private.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder).absolute()
        self._connections: dict[tuple[int, str], sqlite3.Connection] = {}
        self._lock = threading.RLock()
        with explained(self.folder):
            make_folder(self.folder, private=True)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.folder,)

    def file(self, identity: str) -> Path:
        """Return the file of a model's completions."""
        return self.folder / _file_name(identity)

    def lookup_many(self, identity: str, keys: Sequence[str]) -> dict[str, Completion]:
        """Return the stored completions of these prompt keys."""
        with self._open(identity) as database:
            rows = _select(database, f"prompt_key, {_COMPLETION} FROM answers", keys)
            return {row[0]: _completion(row[1:]) for row in rows}

    def claimable(self, identity: str, keys: Sequence[str]) -> list[str]:
        """Return the keys that have neither a completion nor a live claim, without waiting for a lock."""
        with self._open(identity) as database:
            return _claimable(database, keys)

    def claim(self, identity: str, keys: Sequence[str], owner: str, seconds: float) -> list[str]:
        """Claim prompts for `owner`; return the claimed keys: without completion, and claimed by nobody else."""
        until = time.time() + seconds
        # Look-up and claim in one transaction: between two, another process could claim the same prompts.
        with self._open(identity) as database, _transaction(database):
            claimed = _claimable(database, keys)
            rows = [(key, owner, until) for key in claimed]
            database.executemany("INSERT OR REPLACE INTO claims VALUES (?, ?, ?)", rows)
        return claimed

    def renew_claims(self, identity: str, owner: str, seconds: float) -> None:
        """Extend all claims of an owner."""
        with self._open(identity) as database, _transaction(database):
            database.execute(
                "UPDATE claims SET until = ? WHERE owner = ?", (time.time() + seconds, owner)
            )

    def release_claims(self, identity: str, owner: str) -> None:
        """End all claims of an owner."""
        with self._open(identity) as database, _transaction(database):
            database.execute("DELETE FROM claims WHERE owner = ?", (owner,))

    def put(
        self,
        identity: str,
        plm: str,
        prompt: Prompt,
        completion: Completion,
        seconds: float | None = None,
    ) -> Completion:
        """Store a completion; return the final one of its key, this or an earlier one.

        A completion with finish_reason "error" is counted but not stored. `seconds`: since the caller received the one
        before, or requested the first. Of a batch that arrives at once, the first has the time of all.
        """
        key = prompt.key
        outcome = "answers"
        if completion.finish_reason == "error":
            outcome = "errors"
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        row = {
            name: getattr(completion, name)
            for name in (*_COMPLETION.split(", "), "request_id", "served_model")
        }
        row |= {
            "prompt_key": key,
            "prompt": canonical(prompt),
            "label": prompt.label,
            "plm": plm,
            "created": now,
            "seconds": seconds,
        }
        marks = ", ".join("?" * len(row))
        # OR IGNORE: the first stored completion is final, because other callers may have used it already.
        store = f"INSERT OR IGNORE INTO answers ({', '.join(row)}) VALUES ({marks})"  # noqa: S608
        counted = f"ON CONFLICT (prompt_key) DO UPDATE SET {outcome} = {outcome} + 1"
        count = f"INSERT INTO asked (prompt_key, {outcome}) VALUES (?, 1) {counted}"  # noqa: S608
        with self._open(identity) as database, _transaction(database):
            database.execute(count, (key,))
            if outcome == "errors":
                database.execute("DELETE FROM claims WHERE prompt_key = ?", (key,))
                return completion
            if database.execute(store, list(row.values())).rowcount:
                return completion
        return self.lookup_many(identity, [key])[key]

    def lengths(self, identity: str) -> Lengths:
        """Return statistics of a model's stored completions; a model without a file gets none."""
        if not self.file(identity).exists():
            return Lengths(0, 0.0, 0.0, 0.0)
        with self._open(identity) as database:
            columns = "avg(tokens_in), avg(tokens_out), avg(characters), avg(seconds)"
            tokens_in, tokens_out, characters, seconds = database.execute(
                f"SELECT {columns} FROM ({_PAID_CHARACTERS})"  # noqa: S608
            ).fetchone()
            rows = database.execute("SELECT created FROM answers ORDER BY created").fetchall()
        # Completions of an earlier version have only the times of their arrival.
        if seconds is None:
            times = [datetime.fromisoformat(created) for (created,) in rows]
            gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(times)]
            seconds = fmean([gap for gap in gaps if gap < PAUSE_SECONDS] or [0.0])
        return Lengths(len(rows), tokens_in or 0.0, tokens_out or 0.0, seconds, characters or 0.0)

    def completion_counts(self, identity: str) -> dict[str, int]:
        """Return the number of completions per prompt key, without failures."""
        with self._open(identity) as database:
            return dict(
                database.execute("SELECT prompt_key, answers FROM asked ORDER BY prompt_key")
            )

    def since(self, identity: str, number: int) -> list[Stored]:
        """Return the completions after this number, oldest first; 0: all."""
        sql = f"SELECT number, prompt, {_COMPLETION} FROM answers WHERE number > ? ORDER BY number"  # noqa: S608
        with self._open(identity) as database:
            rows = database.execute(sql, (number,)).fetchall()
        return [Stored(row[0], _prompt(row[1]), _completion(row[2:])) for row in rows]

    def is_empty(self) -> bool:
        """Return whether no model has a file here, without opening one."""
        return not any(self.folder.glob("*.db"))

    def identities(self) -> list[str]:
        """Return the identities of all models with a file here, in file order."""
        return [
            row[0]
            for _, database in self._files()
            for row in database.execute("SELECT identity FROM model")
        ]

    def older(self, before: datetime) -> tuple[int, int]:
        """Return the number of completions before a time, and their approximate bytes."""
        answers = size = 0
        sql = "SELECT count(*) FILTER (WHERE created < ?), count(*) FROM answers"
        for file, database in self._files():
            old, total = database.execute(sql, (_moment(before),)).fetchone()
            answers += old
            size += file.stat().st_size * old // max(total, 1)
        return answers, size

    def forget(self, before: datetime) -> None:
        """Delete completions before a time; they are requested again if needed."""
        moment = (_moment(before),)
        # With their counts: a prompt that is requested again later would otherwise look as if it was paid twice.
        counts = "DELETE FROM asked WHERE prompt_key IN (SELECT prompt_key FROM answers WHERE created < ?)"
        for _, database in self._files():
            with _transaction(database):
                database.execute(counts, moment)
                deleted = database.execute("DELETE FROM answers WHERE created < ?", moment).rowcount
            if deleted:
                # SQLite frees the space of deleted completions only with VACUUM.
                database.execute("VACUUM")
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _files(self) -> Iterator[tuple[Path, sqlite3.Connection]]:
        for file in sorted(self.folder.glob("*.db")):
            with self._open(None, file) as database:
                yield file, database

    def close(self) -> None:
        """Close this process's files; the next call opens them again."""
        with self._lock:
            for name in [name for name in self._connections if name[0] == os.getpid()]:
                self._connections.pop(name).close()

    @contextmanager
    def _open(self, identity: str | None, file: Path | None = None) -> Iterator[sqlite3.Connection]:
        """Yield the connection to the file of a model, or to an existing file."""
        file = file or self.file(identity or "")
        # A connection must not be used after a fork: the process id is part of its key.
        name = (os.getpid(), file.name)
        try:
            with self._lock:
                if name not in self._connections:
                    self._connections[name] = _connect(file, identity)
                yield self._connections[name]
        except sqlite3.Error as error:
            raise ArtifactError(f"{file} cannot be used ({error}). {_advice(error)}") from error


@lru_cache
def _file_name(identity: str) -> str:
    return f"{digest(identity)[:32]}.db"


def _advice(error: sqlite3.Error) -> str:
    """Return what to do about an error of SQLite."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return (
            f"Another process has locked it for {WAIT_SECONDS:g} seconds. End that process, or wait for it; then "
            "continue the run: its stored completions are not paid again."
        )
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return "Free space, then continue the run."
    return DAMAGED


def _select(database: sqlite3.Connection, columns: str, keys: Sequence[str]) -> sqlite3.Cursor:
    # One parameter with all keys: SQLite limits the number of parameters.
    of_keys = "WHERE prompt_key IN (SELECT value FROM json_each(?))"
    return database.execute(f"SELECT {columns} {of_keys}", (json.dumps(list(keys)),))


def _claimable(database: sqlite3.Connection, keys: Sequence[str]) -> list[str]:
    now = time.time()
    state = lru_cache(is_running)
    taken = {row[0] for row in _select(database, "prompt_key FROM answers", keys)}
    claims = _select(database, "prompt_key, owner, until FROM claims", keys)
    # A killed owner loses its claims at once; one on another machine is unknown (None) and keeps them until they end.
    taken.update(key for key, owner, until in claims if until > now and state(owner) is not False)
    return [key for key in keys if key not in taken]


def _moment(when: datetime) -> str:
    return when.astimezone(UTC).isoformat(timespec="milliseconds")


def _connect(file: Path, identity: str | None) -> sqlite3.Connection:
    """Open a file of completions, of this version or an earlier one; create it with mode 0600 if it does not exist."""
    with explained(file), _CREATION_LOCK, suppress(FileExistsError):
        # SQLite copies the mode of the main file to its side files. Never open an existing file outside SQLite:
        # closing it would release this process's locks, and another process would then delete a log in use.
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    database = sqlite3.connect(
        file, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False
    )
    use_write_ahead_log(database, WAIT_SECONDS)
    # Unlike the ledger's FULL: the last completions lost in a power cut cost money again, but reveal nothing.
    database.execute("PRAGMA synchronous = NORMAL")
    with _transaction(database):
        for statement in filter(str.strip, _SCHEMA.split(";")):
            database.execute(statement)
        present = {row[1] for row in database.execute("PRAGMA table_info(answers)")}
        for name in _ADDED.keys() - present:
            database.execute(f"ALTER TABLE answers ADD COLUMN {name} {_ADDED[name]}")
        if identity is not None:
            database.execute("INSERT OR IGNORE INTO model VALUES (?)", (identity,))
    return database


@contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    # IMMEDIATE waits for other writers here; a lock at the first write would fail behind their commit.
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")


def _completion(row: Sequence[Any]) -> Completion:
    return replace(Completion(*row), estimated=bool(row[-1]))


def _prompt(text: str) -> Prompt:
    values: Json = json.loads(text)
    for name, value in values.items():
        if isinstance(value, list):  # JSON has no tuples, and a prompt must be hashable
            values[name] = tuple(value)
    return Prompt(**values)
