"""Task runner of a run, selected by its parameters: threads, Dask or Ray."""

from __future__ import annotations

import copyreg
import logging
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Self

from prefect.client.schemas.objects import RunInput
from prefect.context import FlowRunContext
from prefect.futures import PrefectFuture
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner
from prefect.tasks import Task
from prefect.utilities.annotations import BaseAnnotation, allow_failure, opaque, quote, unmapped
from prefect.utilities.collections import visit_collection

from connectors.interfaces.errors import ConfigError
from flows.config.execution import Execution

AnyRunner = TaskRunner[PrefectFuture[Any]]
Futures = Iterable[PrefectFuture[Any]]


def _rebuild_annotation(annotation: Any) -> tuple[Any, ...]:
    """Return pickle's arguments for an annotation: its value, not the tuple around it."""
    return type(annotation), (annotation.unwrap(),)


# Prefect's annotations are tuples without `__getnewargs__`, and each pickling adds a level (Prefect 3.8): `opaque(job)`
# reaches a Dask or Ray worker as `opaque((job,))`, and the step gets a tuple.
for _annotation in (opaque, quote, unmapped, allow_failure):
    copyreg.pickle(_annotation, _rebuild_annotation)


class ConfiguredTaskRunner(TaskRunner[PrefectFuture[Any]]):
    """Task runner that follows `execution` of the flow run's parameters.

    It opens at the first step: a refused run starts no cluster. Steps that call a vendor under the run's cost limit, or
    write its journal, run in threads of this process. At most `max_workers` steps run at a time, also on a shared
    cluster.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._opened = ExitStack()
        self._lock = threading.Lock()
        self._threads: AnyRunner | None = None
        self._cluster: AnyRunner | None = None
        self._turns = threading.Semaphore()

    def __reduce__(self) -> tuple[Any, ...]:
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
        parameters: dict[str, Any],
        wait_for: Futures | None = None,
        dependencies: dict[str, set[RunInput]] | None = None,
    ) -> PrefectFuture[Any]:
        """Start a step and return its future."""
        threads = self._open()
        if self._cluster is None:
            return threads.submit(task, parameters, wait_for, dependencies)
        stays = getattr(task.fn, "stays", None)
        runner = threads if stays is not None and stays(_bare(parameters)) else self._cluster
        parameters, wait_for = visit_collection((parameters, wait_for), _settled(runner), return_data=True)
        self._turns.acquire()
        try:
            with _server_for_workers():
                future = runner.submit(task, parameters, wait_for, dependencies)
        except BaseException:
            self._turns.release()
            raise
        future.add_done_callback(lambda _: self._turns.release())
        return future

    def __exit__(self, *error: Any) -> None:
        """Close the runners; a cluster started for the run ends here."""
        self._opened.close()
        super().__exit__(*error)

    def _open(self) -> AnyRunner:
        with self._lock:
            if self._threads is None:
                execution = _execution()
                threads: Any = ThreadPoolTaskRunner(max_workers=execution.max_workers)
                threads = self._opened.enter_context(threads)
                if execution.task_runner != "threads":
                    self._turns = threading.Semaphore(execution.max_workers)
                    self._cluster = _open_cluster(self._opened, execution)
                self._threads = threads
            return self._threads


def _execution() -> Execution:
    context = FlowRunContext.get()
    config = (context.parameters or {}).get("config") if context is not None else None
    if isinstance(config, dict):
        workers = {"max_workers": config["workers"]} if "workers" in config else {}
        return Execution.model_validate(config.get("execution", workers))
    return config.execution if config is not None else Execution()


def _bare(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return parameters without Prefect's annotations."""
    return {name: value.unwrap() if isinstance(value, BaseAnnotation) else value for name, value in parameters.items()}


def _settled(runner: AnyRunner) -> Any:
    """Return a visitor that resolves futures which `runner` cannot wait for."""
    own_threads = isinstance(runner, ThreadPoolTaskRunner)

    def settle(value: Any) -> Any:
        if isinstance(value, PrefectFuture) and own_threads != _of_threads(value):
            return value.result()
        return value

    return settle


def _of_threads(future: PrefectFuture[Any]) -> bool:
    from prefect.futures import PrefectConcurrentFuture

    return isinstance(future, PrefectConcurrentFuture)


@contextmanager
def _server_for_workers() -> Iterator[None]:
    """Set the server's address for workers, which otherwise start their own server."""
    context = FlowRunContext.get()
    if PREFECT_API_URL.value() or context is None:
        yield
        return
    address = str(context.client.api_url).rstrip("/")
    with temporary_settings({PREFECT_API_URL: address}):
        yield


def _open_cluster(opened: ExitStack, execution: Execution) -> AnyRunner:
    try:
        runner = _dask(execution) if execution.task_runner == "dask" else _ray(execution)
        cluster: AnyRunner = opened.enter_context(runner)
        getattr(cluster, "client", None)  # Dask connects on this access; an error here names the cluster
        return cluster
    except (OSError, ConnectionError, RuntimeError, ValueError) as error:
        raise ConfigError(
            f"execution.task_runner {execution.task_runner}: no cluster at {execution.cluster or 'this machine'} "
            f"({type(error).__name__}: {error}). Start it, or set execution.task_runner to threads."
        ) from error


def _dask(execution: Execution) -> Any:
    from prefect_dask.task_runners import DaskTaskRunner

    if execution.cluster:
        return DaskTaskRunner(address=execution.cluster)
    own = {
        "n_workers": execution.max_workers,
        "threads_per_worker": 1,
        "processes": True,
        "host": "127.0.0.1",
        "dashboard_address": None,
        "memory_limit": 0,  # an equal share per worker would kill the worker that loads a model
    }
    return DaskTaskRunner(cluster_kwargs=own)


def _ray(execution: Execution) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    from prefect_ray.task_runners import RayTaskRunner

    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    if execution.cluster:
        return RayTaskRunner(address=execution.cluster, init_kwargs=quiet)
    own = quiet | {
        "num_cpus": execution.max_workers,
        "include_dashboard": False,
        "_node_ip_address": "127.0.0.1",
    }
    return RayTaskRunner(init_kwargs=own)
