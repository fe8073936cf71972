"""Vectors of texts that are not private, kept from run to run: one SQLite file for each embedder."""

from __future__ import annotations

import hashlib
import sqlite3
import zlib
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
"""How long a writer waits for another process."""

MOST = 1_000_000
"""Most vectors of an embedder; the oldest go first. 1.6 GB at 384 dimensions."""

_SCHEMA = "CREATE TABLE IF NOT EXISTS vectors (text BLOB NOT NULL UNIQUE, vector BLOB NOT NULL, check_sum INTEGER)"
_KEEP = (
    "INSERT INTO vectors VALUES (?, ?, ?) "
    "ON CONFLICT (text) DO UPDATE SET vector = excluded.vector, check_sum = excluded.check_sum"
)


class VectorStore:
    """Implements `connectors.interfaces.embedding.VectorStore` in one file, for many threads and processes at once.

    A vector is known by a hash of its text, and the file by what determines a vector besides the text (an embedder's
    identity). A vector that does not match its check sum is as good as missing. Never give it private texts: those are
    embedded alone, and kept in the private zone.
    """

    def __init__(self, file: Path, most: int = MOST) -> None:
        self.file, self._most = Path(file).absolute(), most

    def find(self, texts: Sequence[str]) -> dict[int, Matrix]:
        """Return the vectors that are kept, float32 of shape (dimension,), by the place of their text."""
        import numpy as np

        if not self.file.exists():
            return {}
        places = {_name(text): place for place, text in enumerate(texts)}
        found: dict[int, Matrix] = {}
        with self._open() as database:
            for part in chunks(list(places), 500):
                marks = ",".join("?" * len(part))
                sql = f"SELECT text, vector, check_sum FROM vectors WHERE text IN ({marks})"  # noqa: S608
                for name, vector, check_sum in database.execute(sql, part):
                    if zlib.crc32(vector) == check_sum:
                        found[places[name]] = np.frombuffer(vector, dtype="<f4")
        return found

    def keep(self, texts: Sequence[str], vectors: Matrix) -> None:
        """Keep vectors of texts, shape (texts, dimension), all of them or none."""
        blobs = (vector.astype("<f4").tobytes() for vector in vectors)
        rows = [(_name(text), blob, zlib.crc32(blob)) for text, blob in zip(texts, blobs, strict=True)]
        with explained(self.file):
            make_folder(self.file.parent)
        with self._open() as database, database:
            database.execute("BEGIN IMMEDIATE")
            database.executemany(_KEEP, rows)
            database.execute("DELETE FROM vectors WHERE rowid <= (SELECT max(rowid) FROM vectors) - ?", (self._most,))

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        # Opened for every call: a connection must not cross a fork or a thread, and opening takes a third of a ms.
        try:
            with closing(sqlite3.connect(self.file, timeout=WAIT_SECONDS, isolation_level=None)) as database:
                database.execute("PRAGMA synchronous = NORMAL")
                database.execute(_SCHEMA)
                yield database
        except sqlite3.Error as error:
            advice = "Free space, or delete it: what it holds is computed again."
            raise ArtifactError(f"{self.file} cannot be used ({error}). {advice}") from error


def _name(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
