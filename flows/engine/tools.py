"""The opened connectors of one run, which steps receive; they can be pickled and reopen in another process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter

from connectors.artifacts.remote_files import RemoteFiles
from connectors.embedders.vocabularies import read_terms
from connectors.interfaces.addresses import FolderName
from connectors.interfaces.content_keys import digest
from connectors.interfaces.embedding import Embedder
from connectors.interfaces.errors import ConfigError
from connectors.interfaces.models import LanguageModel, Weights
from connectors.interfaces.progress import Advance
from connectors.interfaces.rows import PrivateRef, RowsRef, TermsRef
from connectors.models.base.completion_cache import Recording
from connectors.models.base.completion_store import CompletionStore
from connectors.models.base.registry import open_model
from connectors.rows.reader import read_rows
from connectors.security.signing import open_signing_key
from flows.config.base import AnyConfig
from flows.config.models import Plm
from flows.config.paths import embedder_of, model_spec, resolve_path, rows_ref, vocabulary_of
from flows.config.rows import Rows
from flows.config.task_files import load_task
from flows.engine.datasets import private_ref
from flows.runtime.deployment_runs import run_to_end
from flows.runtime.prefect_progress import shown
from flows.runtime.state_folder import COORDINATOR_KEY
from flows.runtime.stores import (
    SharedStores,
    load_secret,
    open_artifacts,
    open_cost_budget,
    open_ledger,
    open_tracked,
    open_zone,
    shared,
)
from tasks.private.parties.rounds import ROUNDS

if TYPE_CHECKING:
    import pandas as pd

    from connectors.artifacts.store import Artifacts
    from connectors.ledger.ledger import PrivacyLedger
    from connectors.models.base.cost_limit import CostBudget
    from connectors.tracking.mlflow_run import MlflowRun
    from tasks.private.rows.rows import PrivateZone
    from tasks.writing.generate import WriteJob

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class RunName:
    """A run's id and flow, its dataset and keyed fingerprint (both empty without private records)."""

    run_id: FolderName
    flow: str
    dataset: str
    fingerprint: str


class RunTools:
    """Opens each connector on first use, once per run (implements tasks.steps.tools.Tools)."""

    def __init__(
        self,
        config: AnyConfig,
        home: Path,
        name: RunName | None = None,
        parts: SharedStores | None = None,
    ) -> None:
        self.config = config
        self.home = home
        self.name = name
        self._parts = parts
        self._class_names: tuple[str, ...] | None = None
        self._checked = False
        self._opened: dict[str, Any] = {}
        self._lock = threading.RLock()

    def __reduce__(self) -> tuple[Any, ...]:
        # Relative paths are resolved against the run's working directory, also in another process.
        root = self.config.data_root or str(Path.cwd())
        # A scheduler also unpickles and pickles this object: keep the locations from the run's process.
        parts = self._parts or shared(self.home)
        return reopened, (
            self.config.model_copy(update={"data_root": root}),
            self.name,
            parts,
            self.class_names,
        )

    def named(self, name: RunName, plms: Sequence[Plm] | None = None) -> RunTools:
        """Return the tools with the run's name, and with other PLMs if given; opened connectors are shared."""
        config = self.config
        if plms is not None:
            config = config.model_copy(update={"plms": list(plms)})
        tools = RunTools(config, self.home, name, self._parts)
        tools._opened = self._opened
        tools._class_names = self._class_names
        return tools

    def _once(self, key: str, make: Callable[[], Value]) -> Value:
        # The lock is reentrant: a connector may open another one, and steps run in several threads.
        with self._lock:
            if self._parts is not None and not self._checked:
                # Here and not while unpickling: so the error belongs to the step.
                self._parts.check()
                self._checked = True
            if key not in self._opened:
                self._opened[key] = make()
            value: Value = self._opened[key]
            return value

    @property
    def run_name(self) -> RunName:
        """The run's name; a preview has no name and must not request it."""
        assert self.name is not None
        return self.name

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.run_name.run_id

    @property
    def artifacts(self) -> Artifacts:
        """Files of all runs: in the state folder, or at the WASP_ARTIFACTS of the run's process."""
        address = None
        if self._parts is not None:
            address = self._parts.artifacts
        return self._once("artifacts", partial(open_artifacts, self.home, address))

    @property
    def ledger(self) -> PrivacyLedger:
        """The privacy ledger; in a flow run it reports its charges to Prefect."""
        return self._once("ledger", partial(open_ledger, self.home, reports=True))

    @property
    def exchange(self) -> RemoteFiles:
        """Message store of coordinator and parties; ConfigError in a run without parties."""
        parties = self.config.parties
        if parties is None:
            raise ConfigError(
                "parties: not set, so there is no exchange. Set parties.registry and parties.exchange."
            )
        address = resolve_path(parties.exchange, self.config.data_root)
        return self._once("exchange", partial(RemoteFiles, address, ROUNDS))

    @property
    def coordinator_key(self) -> bytes:
        """Private key that signs the plans of rounds, created on first use."""
        return self._once("coordinator_key", partial(open_signing_key, self.home, COORDINATOR_KEY))

    @property
    def embedder(self) -> Embedder:
        """The run's embedder."""
        return self._once("embedder", partial(embedder_of, self.config.embedder))

    @property
    def private(self) -> PrivateRef:
        """The private dataset, closed; ConfigError in a run that has none."""
        config = self.config
        where = self.config.private
        if where is None:
            raise ConfigError(
                "private: not set, so no private rows can be opened. Set private.path."
            )
        private = private_ref(where, lambda: self.ledger, config.data_root, config.execution.seed)
        return replace(private, where=replace(private.where, names=self.class_names))

    def rows_ref(self, rows: Rows) -> RowsRef:
        """Return the reference to configured test, public or few-shot rows, whose labels are classes of the task."""
        return replace(rows_ref(rows, self.config.data_root), names=self.class_names)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the task's classes."""
        # Another machine has no task file, so that these names are pickled.
        if self._class_names is None:
            self._class_names = load_task(self.config.task).label_names
        return self._class_names

    @property
    def zone(self) -> PrivateZone:
        """Access to the private zone: opens private rows and computes their keyed fingerprint."""
        return self._once("zone", partial(open_zone, self.home))

    def model(self, name: str) -> LanguageModel:
        """Return a model whose completions are cached, so no request is sent twice."""
        scope = self.name.run_id if self.name else ""
        return self._once(f"model {self._plm(name)} {scope}", partial(self._open_model, name))

    def delegate(self, job: WriteJob) -> bool:
        """Let a model's own workers write its texts; False if it has none."""
        plm = self._plm(job.plm)
        if plm.deployment is None:
            return False
        # Without deployments: the workers write the texts themselves instead of delegating them again.
        alone = [model.model_copy(update={"deployment": None}) for model in self.config.plms]
        parameters = {
            "config": self.config.model_copy(update={"plms": alone}).model_dump(
                mode="json", exclude_none=True
            ),
            "run": asdict(self.run_name),
            "stores": asdict(shared(self.home)),
            "job": TypeAdapter(type(job)).dump_python(job, mode="json"),
        }
        run_to_end(f"plms '{plm.name}'", plm.deployment, parameters)
        return True

    def weights(self, name: str) -> Weights:
        """Return the files of a PLM; ConfigError unless the model is local."""
        plm = self._plm(name)
        files: Weights | None = getattr(self._raw_model(plm), "weights", None)
        if files is None:
            raise ConfigError(
                f"plms '{name}': a model of the connector '{plm.connector}' cannot be trained. Set connector: hf "
                "with the hub id or the folder of a causal language model, or model: embedded"
            )
        return files

    @property
    def cost_budget(self) -> CostBudget | None:
        """The cost limit of the run; None for a preview."""
        if self.name is None:
            return None
        # Workers of a cluster never call a paid model, so they need no costs of other machines.
        artifacts = None
        if self._parts is None:
            artifacts = self.artifacts
        limit = self.config.limits.max_dollars
        return self._once(
            f"cost budget {self.run_id}",
            lambda: open_cost_budget(self.home, self.run_id, limit, artifacts),
        )

    def read_rows(self, where: RowsRef) -> pd.DataFrame:
        """Read test or public rows, once per run; return a copy that the caller may change."""
        # A shallow copy: adding a column changes the copy alone, and large tables are in memory once.
        return self._once(f"rows {where}", lambda: read_rows(where)).copy(deep=False)

    def read_terms(self, where: TermsRef) -> tuple[str, ...]:
        """Read a public vocabulary."""
        return self._once(f"terms {where}", lambda: read_terms(where))

    @property
    def term_embedder(self) -> Embedder:
        """The embedder of the vocabulary; by default the run's embedder."""
        vocabulary = vocabulary_of(self.config)
        if vocabulary is None or vocabulary.embedder is None:
            return self.embedder
        return self._once("term embedder", partial(embedder_of, vocabulary.embedder))

    @property
    def tracker(self) -> MlflowRun:
        """The run in MLflow, described by a file in the run's folder."""
        uri = self.config.tracking.mlflow
        return self._once(
            f"tracker {self.run_id}", lambda: open_tracked(self.home, self.run_id, uri)
        )

    def progress(
        self, what: str, total: int, note: Callable[[], str] = str
    ) -> AbstractContextManager[Advance]:
        """Show the progress of an operation in the terminal and on the run's page, with the cost so far and `note`."""
        return shown(
            what, total, lambda: ", ".join(filter(None, (str(self.cost_budget or ""), note())))
        )

    def _plm(self, name: str) -> Plm:
        return next(model for model in self.config.models if model.name == name)

    def _raw_model(self, plm: Plm) -> LanguageModel:
        # Loading a model is slow: the checks and the run share one instance.
        return self._once(
            f"open {plm}", partial(open_model, model_spec(plm, self.config.data_root, self.home))
        )

    def _open_model(self, name: str) -> LanguageModel:
        plm = self._plm(name)
        if plm.key is not None:
            load_secret(plm.key)
        model = self._raw_model(plm)
        scope = self.name.run_id if self.name else "preview"
        return Recording(model, CompletionStore(self.home / "completions"), scope, self.cost_budget)


_REOPENED: dict[str, RunTools] = {}
_REOPENING = threading.Lock()


def reopened(
    config: AnyConfig,
    name: RunName | None,
    parts: SharedStores,
    class_names: tuple[str, ...] | None = None,
) -> RunTools:
    """Return the tools of a run in another process; they are opened once because loading a model is slow.

    Only the latest run's tools are cached, because a cluster may outlive the run.
    """
    # By value: each task unpickles its own copy of the same tools.
    key = digest([config.model_dump(mode="json"), name, parts])
    with _REOPENING:
        if key not in _REOPENED:
            _REOPENED.clear()
            _REOPENED[key] = RunTools(config, parts.here(), name, parts)
            _REOPENED[key]._class_names = class_names
        return _REOPENED[key]
