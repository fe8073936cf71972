"""What flows hand down to steps: the opened connectors of one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from connectors.interfaces.artifacts import ArtifactStore
from connectors.interfaces.embedding import Embedder, VectorStore
from connectors.interfaces.federation import Exchange
from connectors.interfaces.ledger import Ledger
from connectors.interfaces.models import LanguageModel, Weights
from connectors.interfaces.progress import Advance
from connectors.interfaces.rows import PrivateRef, RowsRef, TermsRef
from tasks.private.data.rows import Zone

if TYPE_CHECKING:
    import pandas as pd


class RowTools(Protocol):
    """What opening private rows takes: those of a run, or of a party of a federation."""

    @property
    def artifacts(self) -> ArtifactStore:
        """Files of all runs."""

    @property
    def ledger(self) -> Ledger:
        """The budget book."""

    @property
    def embedder(self) -> Embedder:
        """The run's embedder."""

    @property
    def private(self) -> PrivateRef:
        """The private dataset, closed."""

    @property
    def zone(self) -> Zone:
        """What tasks/private needs to open it."""


class Tools(RowTools, Protocol):
    """The opened connectors of one run; it travels between processes as references and reopens there."""

    @property
    def run_id(self) -> str:
        """The run."""

    @property
    def exchange(self) -> Exchange:
        """Where the coordinator and the parties of a federation leave messages for each other."""

    @property
    def plms(self) -> Sequence[str]:
        """Names of the run's language models, in the order of the configuration."""

    @property
    def models(self) -> Sequence[str]:
        """Names of all models of the run, those that only vary texts included."""

    @property
    def kept_vectors(self) -> VectorStore:
        """Vectors of synthetic texts by the run's embedder, of all runs."""

    def model(self, name: str) -> LanguageModel:
        """The PLM of that name, wrapped so that no answer is asked twice."""

    def weights(self, name: str) -> Weights:
        """The files of a model that runs here; ConfigError for one that is asked elsewhere."""

    def read_rows(self, where: RowsRef) -> pd.DataFrame:
        """Open test or public rows."""

    def read_terms(self, where: TermsRef) -> tuple[str, ...]:
        """Open a public vocabulary: its terms in order of rank."""

    @property
    def term_embedder(self) -> Embedder:
        """What turns terms of a vocabulary into vectors: an embedder of their own, else the run's."""

    def progress(self, what: str, total: int) -> AbstractContextManager[Advance]:
        """Show the progress of one piece of work with rate and time left."""

    def track(self, step: int, metrics: Mapping[str, float | None]) -> None:
        """Record the metrics of an iteration where experiments are kept; None is not measured."""
