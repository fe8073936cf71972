"""Output of libraries during a command: hidden, except with `wasp -v`.

Progress bars, warnings and tracebacks of libraries go to standard error. While a command works, Python's standard
error is the null device, and only the display and the last messages write to the terminal. An unexpected error still
ends with its traceback. Such output may quote rows, hence it is not stored either.
"""

import atexit
import contextlib
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TextIO

CONSOLE_LEVEL = "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"
"""Variable that `wasp -v`, or the user, sets to a lower level to see the log of libraries."""
HIDDEN_LEVEL = "CRITICAL"


class _Terminal:
    """The standard error of the command while that of libraries is hidden."""

    stream: TextIO | None = None


def terminal() -> TextIO:
    """Return standard error as the user sees it."""
    return _Terminal.stream or sys.stderr


def is_hidden() -> bool:
    """Return True unless the user wants to see the log of libraries."""
    return os.environ.get(CONSOLE_LEVEL, HIDDEN_LEVEL) == HIDDEN_LEVEL


@contextlib.contextmanager
def hidden_library_output() -> Iterator[None]:
    """Hide what libraries write to standard error in the block."""
    # An inner block would take the null device for the terminal.
    if _Terminal.stream is not None or not is_hidden():
        yield
        return
    _Terminal.stream = sys.stderr
    try:
        with contextlib.redirect_stderr(_null()):
            yield
    finally:
        _Terminal.stream = None


def hide_at_exit() -> None:
    """Hide what libraries write when the process ends, such as errors of their threads."""
    # Registered last, hence called first.
    atexit.register(_hide)


def _hide() -> None:
    if is_hidden():
        sys.stderr = _null()


@cache
def _null() -> TextIO:
    # Never closed: threads of libraries write to it until the process ends.
    return Path(os.devnull).open("w", encoding="utf-8")
