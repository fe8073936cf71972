"""Task runner of a run, selected by its parameters: threads of this process, or Prefect's own runner for Dask."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from typing import Any, Self

from prefect.client.schemas.objects import RunInput
from prefect.context import FlowRunContext
from prefect.futures import PrefectFuture
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner
from prefect.tasks import Task
from prefect.utilities.annotations import BaseAnnotation

from connectors.interfaces.addresses import AddressKind, NamedAddress
from connectors.interfaces.errors import ConfigError
from connectors.interfaces.json_values import Json
from flows.config.execution import Execution
from flows.config.files import apply_changes, with_changes
from flows.runtime.server_policy import require_host

AnyRunner = TaskRunner[PrefectFuture[Any]]


class ConfiguredTaskRunner(TaskRunner[PrefectFuture[Any]]):
    """Task runner that follows `execution` of the flow run's parameters.

    It opens at the first step: a refused run starts no cluster. Steps that call a vendor under the run's cost limit, or
    send to MLflow, run in threads of this process.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._opened = ExitStack()
        self._lock = threading.Lock()
        self._threads: AnyRunner | None = None
        self._cluster: AnyRunner | None = None

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        # Locks and open runners do not pickle; the process that gets a copy opens its own.
        return type(self), ()

    def duplicate(self) -> Self:
        """Return a new task runner that is not open."""
        return type(self)()

    @property
    def in_threads(self) -> bool:
        """True if steps run in this process; the flow's own thread may then run steps too."""
        self._open()
        return self._cluster is None

    def submit(
        self,
        task: Task[..., Any],
        parameters: Json,
        wait_for: Iterable[PrefectFuture[Any]] | None = None,
        dependencies: dict[str, set[RunInput]] | None = None,
    ) -> PrefectFuture[Any]:
        """Start a step and return its future."""
        threads = self._open()
        # Prefect's annotations are tuples that each pickling nests once more: none may travel to a cluster.
        bare = {name: _bare(value) for name, value in parameters.items()}
        runs_in_flow_process = getattr(task.fn, "runs_in_flow_process", None)
        stays = runs_in_flow_process is not None and runs_in_flow_process(bare)
        if self._cluster is None or stays:
            return threads.submit(task, parameters, wait_for, dependencies)
        waits_for = [_bare(part) for part in wait_for or ()]
        with _server_for_workers():
            return self._cluster.submit(task, bare, waits_for, dependencies)

    def __exit__(self, *error: Any) -> None:
        """Close the runners; a cluster started for the run ends here."""
        self._opened.close()
        super().__exit__(*error)

    def _open(self) -> AnyRunner:
        # Steps are submitted from several threads, and only the first of them opens.
        with self._lock:
            if self._threads is None:
                execution = _execution()
                threads: Any = ThreadPoolTaskRunner(max_workers=execution.max_workers)
                threads = self._opened.enter_context(threads)
                if execution.task_runner == "dask":
                    self._cluster = _open_dask(self._opened, execution)
                self._threads = threads
            return self._threads


def _execution() -> Execution:
    """Return the execution settings of the flow run, with the changes that its parameters contain."""
    context = FlowRunContext.get()
    parameters: Json = {}
    if context is not None:
        parameters = context.parameters or {}
    config = parameters.get("config")
    changes = parameters.get("changes")
    if config is None:
        return Execution()
    if not isinstance(config, dict):
        execution: Execution = with_changes(config, changes).execution
        return execution
    # Flows that are no method have their settings at the top level.
    values = deepcopy(config)
    apply_changes(values, changes or [], "changes")
    if "execution" in values:
        return Execution.model_validate(values["execution"])
    if "workers" in values:
        return Execution(max_workers=values["workers"])
    return Execution()


def _bare(value: Any) -> Any:
    if isinstance(value, BaseAnnotation):
        return value.unwrap()
    return value


@contextmanager
def _server_for_workers() -> Iterator[None]:
    """Set the server's address for workers, which otherwise start their own server."""
    context = FlowRunContext.get()
    if PREFECT_API_URL.value() or context is None:
        yield
        return
    with temporary_settings({PREFECT_API_URL: str(context.client.api_url).rstrip("/")}):
        yield


def _open_dask(opened: ExitStack, execution: Execution) -> AnyRunner:
    """Open the runner of a cluster; its workers open private records, so a limited run names a listed one."""
    from prefect_dask.task_runners import DaskTaskRunner

    local = {
        "n_workers": execution.max_workers,
        "threads_per_worker": 1,
        "host": "127.0.0.1",
        "dashboard_address": None,
        "memory_limit": 0,  # an equal share per worker would kill the worker that loads a model
    }
    require_host(NamedAddress("execution.cluster", AddressKind.CLUSTER, execution.cluster))
    options = None if execution.cluster else local
    runner: Any = DaskTaskRunner(address=execution.cluster, cluster_kwargs=options)
    try:
        cluster: AnyRunner = opened.enter_context(runner)
        _ = runner.client  # connects; an error here names the cluster
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigError(
            f"execution.task_runner dask: no cluster at {execution.cluster or 'this machine'} "
            f"({type(error).__name__}: {error}). Start it, or set execution.task_runner to threads."
        ) from error
    return cluster
