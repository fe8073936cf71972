"""Cooperative cancellation: long work checks regularly if its process must stop.

The first request stops work: nothing new starts, and paid calls in flight are waited for. The second one cancels them.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_STOPPED = threading.Event()
_CANCELLED = threading.Event()
_LOCK = threading.Lock()
_open = 0
_paid = 0


class ProcessEnds(BaseException):
    """Raised in the work of a process that must stop; steps cannot handle it."""


def stop() -> None:
    """Stop all work in this process at its next check."""
    _STOPPED.set()


def interrupt() -> None:
    """Stop all work; if it has been stopped, cancel the calls in flight too."""
    if _STOPPED.is_set():
        _CANCELLED.set()
    _STOPPED.set()


@contextmanager
def work() -> Iterator[None]:
    """Count a unit of work as open.

    The first one clears an earlier stop: a process such as a notebook can outlive it.
    """
    global _open
    with _LOCK:
        if _open == 0:
            _STOPPED.clear()
            _CANCELLED.clear()
        _open += 1
    try:
        yield
    finally:
        with _LOCK:
            _open -= 1


@contextmanager
def paid_calls() -> Iterator[None]:
    """Count work that pays for calls: a process that must stop waits for those in flight."""
    global _paid
    with _LOCK:
        _paid += 1
    try:
        yield
    finally:
        with _LOCK:
            _paid -= 1


def has_paid_calls() -> bool:
    """Return True while calls may be in flight whose completions would be paid and lost."""
    return _paid > 0


def is_stopped() -> bool:
    """Return True if this process must stop."""
    return _STOPPED.is_set()


def is_cancelled() -> bool:
    """Return True if this process must stop without waiting for calls in flight."""
    return _CANCELLED.is_set()


def raise_if_stopped() -> None:
    """Raise ProcessEnds if this process must stop."""
    if _STOPPED.is_set():
        raise ProcessEnds("this process must stop")
