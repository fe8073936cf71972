"""Whether this process was told to end: long work asks now and then, so that nobody waits until a step is done."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_TOLD = threading.Event()
_LOCK = threading.Lock()
_open = 0


class ProcessEnds(BaseException):
    """Ends work in a process that was told to end. Like a cancellation, it is no error that a step could handle."""


def stop() -> None:
    """Let every piece of work in this process end where it next asks."""
    _TOLD.set()


@contextmanager
def work() -> Iterator[None]:
    """Hold a piece of work open. The first one of a process that goes on all the same (a notebook) begins anew."""
    global _open
    with _LOCK:
        if _open == 0:
            _TOLD.clear()
        _open += 1
    try:
        yield
    finally:
        with _LOCK:
            _open -= 1


def go_on() -> None:
    """Return at once, or raise ProcessEnds if this process was told to end."""
    if _TOLD.is_set():
        raise ProcessEnds("this process was told to end")
