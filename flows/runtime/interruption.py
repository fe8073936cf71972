"""Ctrl-C and SIGTERM: what they end, within which time, and what is printed.

Everything that a run stores survives `kill -9`. A command that is interrupted may therefore end without waiting for
threads, servers and libraries: only paid calls in flight are worth a wait.
"""

import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from connectors.interfaces import cancellation
from flows.runtime.terminal_progress import display

GRACE_SECONDS = 3.0
"""Time in which an interrupted command ends in order, after its paid calls in flight."""
REPORT_SECONDS = 1.0
"""Time for the last lines of a command that did not end in order."""
CANCEL_SECONDS = 0.5
"""Time in which a second Ctrl-C cancels the calls in flight."""

Lines = Callable[[], Sequence[str]]


class _State:
    """The interruption of this process: its first signal, and what to print about it."""

    signal = 0
    is_command = False
    is_reported = False
    lines: Lines | None = None


@contextmanager
def described(lines: Lines) -> Iterator[None]:
    """Print these lines if the block is interrupted."""
    before = _State.lines
    _State.lines = lines
    _State.is_reported = False
    try:
        yield
    finally:
        _State.lines = before


def report_interruption() -> None:
    """Print once how to continue, and end the progress display."""
    if _State.is_reported:
        return
    _State.is_reported = True
    for line in (_State.lines or _start_again)():
        display().say(line)
    display().close()


def _start_again() -> list[str]:
    return [f"Interrupted. Start again with: {shlex.join(['wasp', *sys.argv[1:]])}"]


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Turn SIGTERM into a normal exit (143), which stops Prefect's temporary server.

    The first Ctrl-C or SIGTERM lets the paid calls of other threads end, the second one cancels them.
    """
    if _State.is_command or threading.current_thread() is not threading.main_thread():
        # Python sets signal handlers in the main thread only, and a command has set them.
        yield
        return
    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, _receive)}
    # A shell starts its background jobs with SIGINT ignored, and that must stay.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        before[signal.SIGINT] = signal.signal(signal.SIGINT, _receive)
    _State.signal = 0
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def interruptible_command() -> Iterator[None]:
    """End the process of an interrupted command soon, with exit code 130 (Ctrl-C) or 143 (SIGTERM).

    The first signal gives the command `GRACE_SECONDS` after its paid calls, the second one ends it at once. A notebook
    or script that calls the Python interface survives an interruption instead: it has `ended_in_order` alone.
    """
    with ended_in_order():
        _State.is_command = True
        try:
            yield
        except BaseException as error:
            is_success = isinstance(error, SystemExit) and not error.code
            if is_success or not _State.signal:
                raise
            report_interruption()
            # The exit code of a shell for a process that a signal ended.
            raise SystemExit(128 + _State.signal) from None
        finally:
            _State.is_command = False


def _receive(number: int, frame: FrameType | None) -> None:
    end = _end_at_once
    if _State.signal == 0:
        end = _end_late
        _State.signal = number
    cancellation.interrupt()
    # A thread, because the exception below may reach code that catches it or that waits in C.
    if _State.is_command:
        threading.Thread(target=end, daemon=True).start()
    if number == signal.SIGINT:
        signal.default_int_handler(number, frame)
    raise SystemExit(128 + number)


def _end_late() -> None:
    """End the process if the interrupted command has not ended in time."""
    while cancellation.has_paid_calls() and not cancellation.is_cancelled():
        time.sleep(0.05)
    time.sleep(GRACE_SECONDS)
    # Its own thread: the ledger or the terminal, which the lines need, may be held by what does not end.
    last_lines = threading.Thread(target=report_interruption, daemon=True)
    last_lines.start()
    last_lines.join(REPORT_SECONDS)
    # Not sys.exit: it would wait for threads and for the exit functions of libraries.
    os._exit(128 + _State.signal)


def _end_at_once() -> None:
    time.sleep(CANCEL_SECONDS)
    display().close()
    os._exit(128 + _State.signal)
