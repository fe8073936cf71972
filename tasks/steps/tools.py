"""Protocols for the opened connectors that a run passes to its steps."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from connectors.interfaces.embedding import Embedder
from connectors.interfaces.models import LanguageModel, Weights
from connectors.interfaces.progress import Advance
from connectors.interfaces.rows import PrivateRef, RowsRef, TermsRef

# For types alone: packages with steps import this module.
if TYPE_CHECKING:
    import pandas as pd

    from connectors.artifacts.remote_files import RemoteFiles
    from connectors.artifacts.store import Artifacts
    from connectors.ledger.ledger import PrivacyLedger
    from tasks.private.rows.rows import PrivateZone
    from tasks.writing.generate import WriteJob


class RowTools(Protocol):
    """Connectors for opening private rows, of a run or of one party of a federation."""

    @property
    def artifacts(self) -> Artifacts:
        """Files of all runs."""

    @property
    def ledger(self) -> PrivacyLedger:
        """The privacy ledger."""

    @property
    def embedder(self) -> Embedder:
        """The run's embedder."""

    @property
    def private(self) -> PrivateRef:
        """The private dataset, closed."""

    @property
    def zone(self) -> PrivateZone:
        """Context that tasks/private needs to open the dataset."""


class Tools(RowTools, Protocol):
    """The opened connectors of one run.

    They travel between processes as references and are reopened there.
    """

    @property
    def run_id(self) -> str:
        """Id of the run."""

    @property
    def exchange(self) -> RemoteFiles:
        """Message exchange between the coordinator and the parties of a federation."""

    @property
    def coordinator_key(self) -> bytes:
        """Private key (32 bytes) with which the coordinator signs the plans of rounds."""

    def model(self, name: str) -> LanguageModel:
        """Return the PLM of that name, wrapped in the completion cache."""

    def delegate(self, job: WriteJob) -> bool:
        """Let a model's own workers write the artifact of a job; False if it has none, and this process writes."""

    def weights(self, name: str) -> Weights:
        """Return the files of a model that runs locally; ConfigError for a remote model."""

    def read_rows(self, where: RowsRef) -> pd.DataFrame:
        """Open test or public rows."""

    def read_terms(self, where: TermsRef) -> tuple[str, ...]:
        """Return the terms of a public vocabulary in order of rank."""

    @property
    def term_embedder(self) -> Embedder:
        """Embedder for the terms of a vocabulary: their own if configured, else the run's."""

    def progress(
        self, what: str, total: int, note: Callable[[], str] = str
    ) -> AbstractContextManager[Advance]:
        """Show the progress of one piece of work, with rate, time left and the present text of `note`."""
