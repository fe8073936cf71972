"""What steps show on a run's page in Prefect, told in order by a thread of its own: no step waits for the server.

The page is not the run: what cannot be shown there is told in the log, and the run goes on.
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
"""How long the end of a run waits for a page that is slow: a server on SQLite may be that far behind."""
IDLE_SECONDS = 30.0
"""How long the thread waits for more: a new one for each iteration would hold up whoever starts it."""


class Page:
    """Artifacts of this process' flow runs, made one after another while their steps go on."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[str | None, Show]] = deque()
        self._left: Counter[str | None] = Counter()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def later(self, show: Show) -> None:
        """Make or change an artifact of the run, or step, that asks for it: soon, and after what was asked before."""
        # Whose artifact it is and where its server is lies in the context, which threads do not inherit.
        run, told = runtime.flow_run.id, partial(copy_context().run, _show, show)
        with self._changed:
            self._waiting.append((run, told))
            self._left[run] += 1
            if self._thread is None:
                thread = threading.Thread(target=self._work, name="page", daemon=True)
                thread.start()
                self._thread = thread
            self._changed.notify_all()

    def flush(self, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until everything that this flow run asked for is shown; what takes longer is left out."""
        run = runtime.flow_run.id
        with self._changed:
            if self._changed.wait_for(lambda: not self._left[run], seconds):
                return
            others = [one for one in self._waiting if one[0] != run]
            self._left[run] -= len(self._waiting) - len(others)
            self._waiting = deque(others)
        _logger().warning("Prefect's page is slow and does not show the last of this run")

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


def _show(show: Show) -> None:
    try:
        show()
    except BaseException as error:  # noqa: BLE001  (whatever the page's trouble is, the run goes on, and so does its page)
        _logger().warning("Prefect's page does not show something (%s); the run goes on", type(error).__name__)


def _logger() -> Any:
    """Return the log of the run, or Prefect's own outside of one."""
    try:
        return get_run_logger()
    except MissingContextError:
        return get_logger("page")


_page = Page()
later, flush = _page.later, _page.flush
