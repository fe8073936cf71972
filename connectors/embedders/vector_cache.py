"""Cache of vectors of public texts, one SQLite file per embedder, shared by runs."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from connectors.artifacts.atomic_files import explained, make_folder
from connectors.interfaces.errors import ArtifactError
from connectors.interfaces.progress import chunks

if TYPE_CHECKING:
    from connectors.interfaces.embedding import Matrix

WAIT_SECONDS = 60.0
"""Time that a writer waits for another process."""

MOST = 1_000_000
"""Maximum vectors per embedder, 1.6 GB at 384 dimensions; the oldest are deleted first."""

_SCHEMA = "CREATE TABLE IF NOT EXISTS vectors (text BLOB NOT NULL UNIQUE, vector BLOB NOT NULL)"
_KEEP = "INSERT OR REPLACE INTO vectors (text, vector) VALUES (?, ?)"


class VectorCache:
    """A vector cache in one file, for many threads and processes at once.

    The key of a vector is a hash of its text; the file belongs to one embedder identity, which has all other settings
    of a vector. Never pass private texts: they are embedded separately and cached in the private zone.
    """

    def __init__(self, file: Path, most: int = MOST) -> None:
        self.file, self._most = Path(file).absolute(), most

    def find(self, texts: Sequence[str]) -> dict[int, Matrix]:
        """Return the cached vectors, float32 of shape (dimension,), by text position."""
        import numpy as np

        if not self.file.exists():
            return {}
        positions = {_name(text): position for position, text in enumerate(texts)}
        vectors: dict[int, Matrix] = {}
        with self._open() as database:
            for part in chunks(list(positions), 500):
                marks = ",".join("?" * len(part))
                sql = f"SELECT text, vector FROM vectors WHERE text IN ({marks})"  # noqa: S608
                for name, blob in database.execute(sql, part):
                    vectors[positions[name]] = np.frombuffer(blob, dtype="<f4")
        return vectors

    def keep(self, texts: Sequence[str], vectors: Matrix) -> None:
        """Store vectors of texts, shape (texts, dimension), in one transaction."""
        rows = [(_name(text), vector.astype("<f4").tobytes()) for text, vector in zip(texts, vectors, strict=True)]
        with explained(self.file):
            make_folder(self.file.parent)
        with self._open() as database, database:
            database.execute("BEGIN IMMEDIATE")
            database.executemany(_KEEP, rows)
            database.execute("DELETE FROM vectors WHERE rowid <= (SELECT max(rowid) FROM vectors) - ?", (self._most,))

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        # Open per call: a connection must not cross a fork or thread, and opening takes a third of a millisecond.
        try:
            with closing(sqlite3.connect(self.file, timeout=WAIT_SECONDS, isolation_level=None)) as database:
                database.execute("PRAGMA synchronous = NORMAL")
                database.execute(_SCHEMA)
                yield database
        except sqlite3.Error as error:
            advice = "Free space, or delete it: its vectors are computed again."
            raise ArtifactError(f"{self.file} cannot be used ({error}). {advice}") from error


def _name(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
