"""Publishes artifacts to a run's page in Prefect, in order, from a background thread.

No step waits for the server. An artifact that cannot be published is reported in the log and does not fail the run.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Any

from prefect import get_run_logger, runtime
from prefect.exceptions import MissingContextError
from prefect.logging import get_logger

Show = Callable[[], Any]
PATIENCE_SECONDS = 60.0
"""Timeout of the last flush of a run; a server on SQLite can be that slow."""
IDLE_SECONDS = 30.0
"""Idle time after which the thread ends; a new thread per iteration would delay the step that starts it."""


class Page:
    """A queue of artifacts of this process's flow runs, published one by one in the background."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[str | None, Show]] = deque()
        self._left: Counter[str | None] = Counter()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def later(self, show: Show) -> None:
        """Queue the creation or update of an artifact of the current run or step."""
        # The owner of the artifact and its server are in the context, which threads do not inherit.
        run, publish = runtime.flow_run.id, partial(copy_context().run, _show, show)
        with self._changed:
            self._waiting.append((run, publish))
            self._left[run] += 1
            if self._thread is None:
                thread = threading.Thread(target=self._work, name="page", daemon=True)
                thread.start()
                self._thread = thread
            self._changed.notify_all()

    def flush(self, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until this run's artifacts are published; drop the rest after `seconds`."""
        run = runtime.flow_run.id
        with self._changed:
            if self._changed.wait_for(lambda: not self._left[run], seconds):
                return
            others = [entry for entry in self._waiting if entry[0] != run]
            self._left[run] -= len(self._waiting) - len(others)
            self._waiting = deque(others)
        _logger().warning("Prefect's page is slow; the last artifacts of this run are missing from it")

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._changed.wait_for(lambda: self._waiting, IDLE_SECONDS):
                    self._thread = None
                    return
                run, show = self._waiting.popleft()
            show()
            with self._changed:
                self._left[run] -= 1
                self._changed.notify_all()


_missed: set[str | None] = set()
"""Runs with an artifact that could not be published: each warns once."""


def _show(show: Show) -> None:
    run = runtime.flow_run.id
    try:
        show()
    except BaseException as error:  # noqa: BLE001  (neither the run nor later artifacts depend on this one)
        if run not in _missed:
            _missed.add(run)
            _logger().warning("Prefect's page is missing artifacts (%s); the run continues", type(error).__name__)


def _logger() -> Any:
    """Return the run's logger; outside a run, Prefect's."""
    try:
        return get_run_logger()
    except MissingContextError:
        return get_logger("page")


_page = Page()
later, flush = _page.later, _page.flush
