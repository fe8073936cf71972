"""Made-up private records with a ledger in memory, from which an audit draws by the functions of a run.

An attack on the parts of a release would miss a fault between these parts. A run draws noise only inside the functions
that pass a charge to the ledger: `release_votes`, `release_sums`, `masked_votes`, `train_classifier`, `train_writer`.
They get the `MadeUpTools` of an attack here: the records are made up, and the ledger has no cap and stores nothing.
"""

from __future__ import annotations

import hashlib
import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from connectors.interfaces.artifacts import StepKey
from connectors.interfaces.ledger import ReleaseRequest, StoredRelease
from connectors.interfaces.progress import Advance
from connectors.interfaces.rows import PrivateRef, RowsRef
from tasks.private.rows.rows import PrivateZone
from tasks.steps.values import ChargedDataset

Vectors = NDArray[np.float32]

NAME: Final = "made-up"
"""Name of the records, which are no dataset of a ledger."""

KEY: Final = StepKey("audit", 1)

Arrays = dict[str, NDArray[Any]]
"""Arrays of one file by name."""


class MemoryLedger:
    """A ledger without cap that draws every release and stores none."""

    def release_once(
        self,
        request: ReleaseRequest,  # noqa: ARG002
        draw: Callable[[], bytes],
        prepare: Callable[[], object] | None = None,
    ) -> StoredRelease:
        """Prepare and draw the release of a request, as the privacy ledger does."""
        if prepare is not None:
            prepare()
        return StoredRelease(draw(), reused=False, entry_hash="")

    def released(self, dataset: str, step_key: str) -> bool:  # noqa: ARG002
        """Return False: every trial of an attack draws fresh noise."""
        return False


class MemoryStore:
    """Private arrays in memory: embeddings of records, steps of a training."""

    def __init__(self) -> None:
        self._arrays: dict[str, Arrays] = {}

    def read_private_arrays(self, path: str) -> Arrays | None:
        """Return a copy of the arrays, None if there are none."""
        arrays = self._arrays.get(path)
        if arrays is None:
            return None
        # A copy, as a file would give: the readers take entries out of it.
        return dict(arrays)

    def write_private_arrays(self, path: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Store arrays."""
        self._arrays[path] = dict(arrays)


@dataclass(frozen=True, slots=True)
class MadeUpEmbedder:
    """The vector of each made-up text."""

    vectors: Mapping[str, Vectors]
    dimension: int
    identity: str = NAME

    def embed_alone(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of texts, (texts, dimension)."""
        return np.array([self.vectors[text] for text in texts], dtype=np.float32).reshape(
            len(texts), self.dimension
        )


@dataclass(frozen=True, slots=True, eq=False)
class MadeUpTools:
    """The connectors of a run on made-up records: the members of `Tools` that draw a release.

    `zone.folder` receives the details of an error; nothing else is written.
    """

    payer: ChargedDataset
    private: PrivateRef
    zone: PrivateZone
    embedder: MadeUpEmbedder
    ledger: MemoryLedger = field(default_factory=MemoryLedger)
    artifacts: MemoryStore = field(default_factory=MemoryStore)
    run_id: str = "audit"

    def within(self, folder: Path) -> MadeUpTools:
        """Return the same tools with their zone in a folder."""
        return replace(self, zone=replace(self.zone, folder=folder / "private"))

    @contextmanager
    def progress(self, what: str, total: int, note: Callable[[], str] = str) -> Iterator[Advance]:  # noqa: ARG002
        """Show nothing: the audit shows its own progress."""
        yield lambda _: None


def no_records() -> MadeUpTools:
    """Return tools without a record, for a release whose attack has its own sums."""
    return tools_of([], [], np.zeros((0, 1), dtype=np.float32))


def tools_of(
    texts: Sequence[str],
    labels: Sequence[str],
    vectors: Vectors,
    persons: Sequence[str] | None = None,
) -> MadeUpTools:
    """Return tools whose private records are these, different texts with one vector each."""
    frame = pd.DataFrame({"row": range(len(texts)), "text": list(texts), "label": list(labels)})
    where = RowsRef(NAME)
    if persons is not None:
        frame["person"] = list(persons)
        where = RowsRef(NAME, person="person")
    # Only an error creates this folder.
    folder = Path(tempfile.gettempdir()) / f"wasp-audit-{secrets.token_hex(8)}"
    # The records never change, so their fingerprint is a constant.
    zone = PrivateZone(lambda _: frame, _hash, lambda _: NAME, folder)
    embedder = MadeUpEmbedder(dict(zip(texts, vectors, strict=True)), vectors.shape[1])
    return MadeUpTools(ChargedDataset(NAME, NAME), PrivateRef(NAME, where), zone, embedder)


def _hash(label: str, text: str) -> str:
    return hashlib.sha256(f"{label}\x00{text}".encode()).hexdigest()
