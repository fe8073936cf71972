"""Publishes artifacts to a run's page in Prefect, in order, from a background thread.

No step waits for the server. An artifact that cannot be published is reported in the log and does not fail the run.
"""

import threading
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from logging import Logger, LoggerAdapter

from prefect import get_run_logger, runtime
from prefect.exceptions import MissingContextError
from prefect.logging import get_logger

Show = Callable[[], object]
FLUSH_TIMEOUT_SECONDS = 60.0
"""Timeout of the last flush of a run; a server on SQLite can be that slow."""


class Page:
    """A queue of artifacts of this process's flow runs, published one by one in the background."""

    def __init__(self) -> None:
        # One thread: artifacts appear in the order in which the run has made them.
        self._publisher = ThreadPoolExecutor(1, "page")
        self._waiting: defaultdict[str | None, list[Future[None]]] = defaultdict(list)
        self._lock = threading.Lock()

    def defer(self, show: Show) -> None:
        """Queue the creation or update of an artifact of the current run or step."""
        with self._lock:
            run = runtime.flow_run.id
            waiting = [future for future in self._waiting[run] if not future.done()]
            # The owner of the artifact and its server are in the context, which threads do not inherit.
            self._waiting[run] = [*waiting, self._publisher.submit(copy_context().run, _show, show)]

    def flush(self, seconds: float = FLUSH_TIMEOUT_SECONDS) -> None:
        """Wait until this run's artifacts are published; drop the rest after `seconds`."""
        with self._lock:
            waiting = self._waiting.pop(runtime.flow_run.id, [])
        late = wait(waiting, seconds).not_done
        # Queued ones are dropped; the one that is being published cannot be stopped.
        for future in late:
            future.cancel()
        if late:
            _logger().warning(
                "Prefect's page is slow; the last artifacts of this run are missing from it"
            )


_missed: set[str | None] = set()
"""Runs with an artifact that could not be published: each warns once."""


def _show(show: Show) -> None:
    run = runtime.flow_run.id
    try:
        show()
    except BaseException as error:  # noqa: BLE001  (neither the run nor later artifacts depend on this one)
        if run not in _missed:
            _missed.add(run)
            _logger().warning(
                "Prefect's page is missing artifacts (%s); the run continues", type(error).__name__
            )


def _logger() -> Logger | LoggerAdapter[Logger]:
    """Return the run's logger; outside a run, Prefect's."""
    try:
        return get_run_logger()
    except MissingContextError:
        return get_logger("page")


_page = Page()
defer = _page.defer
flush = _page.flush
