"""Report a wait for a lock of the privacy ledger that another process holds."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

WAIT_SECONDS = 600
"""Longest wait for a lock."""
NOTICE_SECONDS = 3.0
"""Wait after which the user is told why nothing happens."""

_log = logging.getLogger(__name__)


@contextmanager
def reported() -> Iterator[None]:
    """Log a warning if the block, which waits for a lock, takes longer than `NOTICE_SECONDS`."""
    line = "Another process has locked the privacy ledger. Waiting at most %d seconds."
    timer = threading.Timer(NOTICE_SECONDS, _log.warning, (line, WAIT_SECONDS))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # a thread that is left would run into the end of the interpreter
