"""What steps show on a run's page in Prefect, told in order by a thread of its own: no step waits for the server.

The page is not the run: what cannot be shown there is told in the log, and the run goes on.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Any

from prefect import get_run_logger

Show = Callable[[], Any]
PATIENCE_SECONDS = 60.0
"""How long the end of a run waits for a page that is slow: a server on SQLite may be that far behind."""


class Page:
    """Artifacts of this process' flow runs, made one after another while their steps go on."""

    def __init__(self) -> None:
        self._waiting: deque[Show] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def later(self, show: Show) -> None:
        """Make or change an artifact of the run, or step, that asks for it: soon, and after what was asked before."""
        # Whose artifact it is and where its server is lies in the context, which threads do not inherit.
        told = partial(copy_context().run, _show, show)
        with self._changed:
            self._waiting.append(told)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="page", daemon=True)
                self._thread.start()

    def flush(self, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until everything that was asked for is shown; what takes longer is left out."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._thread is None, seconds):
                get_run_logger().warning("Prefect's page is slow and does not show the last of this run")
                self._waiting.clear()

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._thread = None
                    self._changed.notify_all()
                    return
                show = self._waiting.popleft()
            show()


def _show(show: Show) -> None:
    try:
        show()
    except Exception as error:  # noqa: BLE001  (whatever the page's trouble is, the run goes on)
        get_run_logger().warning("Prefect's page does not show something (%s); the run goes on", type(error).__name__)


_page = Page()
later, flush = _page.later, _page.flush
