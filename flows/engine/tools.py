"""The opened connectors of one run; pickles as references and reopens in another process."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from connectors.interfaces.content_keys import digest
from connectors.interfaces.embedding import Embedder, VectorStore
from connectors.interfaces.errors import ConfigError
from connectors.interfaces.federation import Exchange
from connectors.interfaces.models import LanguageModel, Weights
from connectors.interfaces.progress import Advance
from connectors.interfaces.rows import PrivateRef, RowsRef, TermsRef
from flows.config.base import AnyConfig
from flows.config.models import Plm
from flows.config.paths import default_name, embedder_of, model_spec, place, rows_ref
from flows.config.task_files import load_task
from flows.runtime.paid_models import in_batches, load_secret
from flows.runtime.prefect_progress import shown
from flows.runtime.stores import (
    Shared,
    open_artifacts,
    open_exchange,
    open_ledger,
    open_purse,
    open_vectors,
    open_zone,
    shared,
    tracking_store,
)

if TYPE_CHECKING:
    import pandas as pd

    from connectors.artifacts.store import Artifacts
    from connectors.ledger.ledger import BudgetBook
    from connectors.models.base.cost_limit import Purse
    from connectors.tracking.tracker import Tracker
    from tasks.private.data.rows import Zone

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class RunName:
    """A run's id and flow, its dataset with the keyed fingerprint; these are empty where no private row is opened."""

    run_id: str
    flow: str
    dataset: str
    fingerprint: str


class RunTools:
    """Opens each connector on first use and keeps it for the run (implements tasks.core.tools.Tools)."""

    def __init__(self, config: AnyConfig, home: Path, name: RunName | None = None, parts: Shared | None = None) -> None:
        self.config = config
        self.home = home
        self.name = name
        self._parts = parts
        self._checked = False
        self._opened: dict[str, Any] = {}
        self._lock = threading.RLock()

    def __reduce__(self) -> tuple[Any, ...]:
        # Relative paths start where the run was started, wherever this is opened again.
        root = self.config.data_root or str(Path.cwd())
        # A scheduler between the two opens the pickle as well: what the run's own process said stays.
        parts = self._parts or shared(self.home)
        return reopened, (self.config.model_copy(update={"data_root": root}), self.name, parts)

    def named(self, name: RunName) -> RunTools:
        """Return the same tools for a run that has its name; what was opened stays open."""
        tools = RunTools(self.config, self.home, name)
        tools._opened = self._opened
        return tools

    def _once(self, what: str, make: Callable[[], Value]) -> Value:
        with self._lock:
            if self._parts is not None and not self._checked:
                self._parts.check()  # not where pickles are opened: here an error is the step's own
                self._checked = True
            if what not in self._opened:
                self._opened[what] = make()
            value: Value = self._opened[what]
            return value

    @property
    def called(self) -> RunName:
        """The run's name; a preview has none, and nothing that asks for one."""
        assert self.name is not None
        return self.name

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.called.run_id

    @property
    def artifacts(self) -> Artifacts:
        """Files of all runs: below the state folder, or behind WASP_ARTIFACTS as it was where the run began."""
        address = self._parts.artifacts if self._parts else None
        return self._once("artifacts", partial(open_artifacts, self.home, address))

    @property
    def ledger(self) -> BudgetBook:
        """The budget book."""
        return self._once("ledger", partial(open_ledger, self.home))

    @property
    def exchange(self) -> Exchange:
        """Where coordinator and parties leave messages; ConfigError in a run without parties."""
        parties = self.config.parties
        if parties is None:
            raise ConfigError("This run names no parties, so that there is nobody to exchange messages with.")
        return self._once("exchange", partial(open_exchange, place(parties.exchange, self.config.data_root)))

    @property
    def embedder(self) -> Embedder:
        """The run's embedder."""
        return self._once("embedder", partial(embedder_of, self.config.embedder, self.config.data_root))

    @property
    def kept_vectors(self) -> VectorStore:
        """Vectors of synthetic texts by the run's embedder, of all runs in this state folder."""
        return self._once("vectors", lambda: open_vectors(self.home, self.embedder.identity))

    @property
    def private(self) -> PrivateRef:
        """The private dataset, closed; ConfigError in a run that has none."""
        config, where = self.config, self.config.private
        if where is None:
            raise ConfigError("This run names no private rows, so that none can be opened.")
        place = rows_ref(where, config.data_root, config.execution.seed)
        return PrivateRef(where.name or default_name(where.path), place)

    @property
    def rows_name(self) -> str:
        """What the private rows are called in the budget book: these, or those of all parties together."""
        return self.config.parties.name if self.config.parties else self.private.name

    @property
    def zone(self) -> Zone:
        """What the private zone needs to open rows and to name them."""
        return self._once("zone", partial(open_zone, self.home))

    @property
    def plms(self) -> Sequence[str]:
        """Names of the PLMs in the order of the configuration."""
        return [plm.name for plm in self.config.plms]

    @property
    def models(self) -> Sequence[str]:
        """Names of all models, those that only vary texts included."""
        return [model.name for model in self.config.models]

    def model(self, name: str) -> LanguageModel:
        """The PLM of that name; every answer is kept and none is asked twice."""
        scope = self.name.run_id if self.name else ""
        return self._once(f"model {name} {scope}", partial(self._open_model, name))

    def weights(self, name: str) -> Weights:
        """The files of the PLM of that name; ConfigError where it is no model of this machine."""
        plm = next(model for model in self.config.models if model.name == name)
        found: Weights | None = getattr(self._raw_model(plm), "weights", None)
        if found is None:
            raise ConfigError(
                f"plms '{name}': a model of the connector '{plm.connector}' cannot be trained; write connector: hf "
                "with the hub id or the folder of a causal language model, or model: embedded"
            )
        return found

    def with_models(self, plms: Sequence[Plm]) -> RunTools:
        """Return the tools of the same run with other PLMs; what else was opened stays open."""
        tools = RunTools(self.config.model_copy(update={"plms": list(plms)}), self.home, self.name, self._parts)
        with self._lock:
            kept = {what: one for what, one in self._opened.items() if not what.startswith(("model ", "open "))}
        tools._opened = kept
        return tools

    @property
    def purse(self) -> Purse | None:
        """The money of the run; a preview has none of its own."""
        if self.name is None:
            return None
        # A worker of a cluster asks no model that costs anything.
        told = self.artifacts if self._parts is None else None
        most = self.config.limits.max_dollars
        return self._once(f"purse {self.run_id}", lambda: open_purse(self.home, self.run_id, most, told))

    def read_rows(self, where: RowsRef) -> pd.DataFrame:
        """Open test or public rows, once in a run; what is done to the returned table changes no other."""
        from connectors.rows.reader import read_rows

        return self._once(f"rows {where}", lambda: read_rows(where)).copy(deep=False)

    def read_terms(self, where: TermsRef) -> tuple[str, ...]:
        """Open a public vocabulary."""
        from connectors.embedders.vocabularies import read_terms

        return self._once(f"terms {where}", lambda: read_terms(where))

    @property
    def term_embedder(self) -> Embedder:
        """The embedder of the run's vocabulary; the run's own where it names none."""
        from flows.config.vocabulary import vocabulary_of

        vocabulary = vocabulary_of(self.config)
        chosen = vocabulary.embedder if vocabulary is not None else None
        if chosen is None:
            return self.embedder
        return self._once("term embedder", partial(embedder_of, chosen, self.config.data_root))

    @property
    def tracker(self) -> Tracker:
        """Where experiments are recorded; a journal in the run's folder comes first."""
        return self._once(f"tracker {self.run_id}", self._open_tracker)

    def track(self, step: int, metrics: Mapping[str, float | None]) -> None:
        """Record the metrics of one iteration."""
        self.tracker.metrics(metrics, step)

    def progress(self, what: str, total: int) -> AbstractContextManager[Advance]:
        """Show one piece of work on this process' display and on the run's page."""
        return shown(what, total, lambda: str(self.purse or ""))

    def _open_tracker(self) -> Tracker:
        from prefect import runtime

        from connectors.tracking.tracker import open_tracker

        tracking = self.config.tracking
        uri, root = tracking_store(tracking.mlflow, self.home)
        tags = {
            "wasp.run_id": self.run_id,
            "wasp.dataset": self.called.dataset,
            "wasp.privacy": "NOT PRIVATE" if math.isinf(self.config.epsilon) else f"epsilon {self.config.epsilon:g}",
            "prefect.flow_run_id": str(runtime.flow_run.id or ""),
            "prefect.flow_run_url": _page(runtime.flow_run.ui_url),
        }
        tags |= {"mlflow.parentRunId": tracking.parent} if tracking.parent else {}
        journal = self.home / "runs" / self.run_id / "tracking.jsonl"
        return open_tracker(
            uri, root, journal, tracking.experiment or load_task(self.config.task).name, self.run_id, tags
        )

    def _raw_model(self, plm: Plm) -> LanguageModel:
        from connectors.models.base.registry import open_model

        # Training or loading is dear: the model that was opened to be checked is the one that writes.
        return self._once(f"open {plm.name}", partial(open_model, model_spec(plm, self.config.data_root)))

    def _open_model(self, name: str) -> LanguageModel:
        from connectors.models.base.completion_cache import Recording
        from connectors.models.base.completion_store import CompletionStore

        plm = next(model for model in self.config.models if model.name == name)
        if plm.key is not None:
            load_secret(plm.key)
        model = self._raw_model(plm)
        if plm.batch_api:
            model = in_batches(plm, model, self.home / "batches")
        scope = self.name.run_id if self.name else "preview"
        return Recording(model, CompletionStore(self.home / "completions"), scope, self.purse)


_REOPENED: dict[str, RunTools] = {}
_REOPENING = threading.Lock()


def reopened(config: AnyConfig, name: RunName | None, parts: Shared) -> RunTools:
    """Return the tools of a run in another process, opened once: training or loading a model is dear.

    Only the latest run is kept: a cluster of somebody else outlives it.
    """
    key = digest([config.model_dump(mode="json"), name, parts])
    with _REOPENING:
        if key not in _REOPENED:
            _REOPENED.clear()
            _REOPENED[key] = RunTools(config, parts.here(), name, parts)
        return _REOPENED[key]


def _page(address: str | None) -> str:
    """Return the address of a page; Prefect says 'None/...' where its server has no page."""
    return address if address and "://" in address else ""
