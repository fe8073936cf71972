"""Whether this process was told to end: long work asks now and then, so that nobody waits until a step is done."""

from __future__ import annotations

import threading

_TOLD = threading.Event()


class ProcessEnds(BaseException):
    """Ends work in a process that was told to end. Like a cancellation, it is no error that a step could handle."""


def stop() -> None:
    """Let every piece of work in this process end where it next asks."""
    _TOLD.set()


def forget() -> None:
    """Let work go on: what was told to end has ended."""
    _TOLD.clear()


def go_on() -> None:
    """Return at once, or raise ProcessEnds if this process was told to end."""
    if _TOLD.is_set():
        raise ProcessEnds("this process was told to end")
