"""Error messages of a failed run: step, cause and next command."""

import errno
import shutil
import sqlite3
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from connectors.interfaces import cancellation
from connectors.interfaces.errors import ApprovalError, ArtifactError, WaspError, step_of
from connectors.interfaces.redaction import guard_logs, redact

DISK_FULL = {errno.ENOSPC, errno.EDQUOT}
LITTLE_BYTES = 1_000_000
SERVER_TOO_SLOW = "attempting to connect to ephemeral Prefect API server"
"""Part of Prefect's error if its temporary server does not start in time."""


class UnexpectedError(WaspError):
    """An unexpected exception; the message contains it and the path of its traceback."""


@dataclass(slots=True)
class ErrorContext:
    """Progress of a run, for its error messages.

    Attributes:
        folder: the run's folder, if it exists.
        has_started: True once the run calls models, draws noise or writes files.
    """

    folder: Path | None = None
    has_started: bool = False


@contextmanager
def explained_errors(context: ErrorContext) -> Iterator[None]:
    """Re-raise errors of the block with the next command; a WaspError keeps its class.

    SIGTERM, Ctrl-C and a cancellation pass unchanged. If the process ends, steps in other threads are cancelled:
    Prefect waits for them, which takes hours for a large model.
    """
    guard_logs()
    try:
        with cancellation.work(), kept_interruption():
            yield
    # The message of a refusal already says who refused and what was not done.
    except ApprovalError:
        raise
    except WaspError as error:
        error.args = (describe_error(error, context),)
        raise
    except Exception as error:
        if disk_is_full(error):
            full = "The disk is full. Free space, or set WASP_HOME to a folder on another disk."
            raise ArtifactError(
                describe_error(ArtifactError(full), context, step_of(error))
            ) from error
        raise UnexpectedError(
            describe_error(error, context) + _save_traceback(error, context)
        ) from error
    except BaseException as error:
        if ends_the_process(error):
            cancellation.stop()
        raise


@contextmanager
def kept_interruption() -> Iterator[None]:
    """Raise Ctrl-C or SIGTERM again where an error of its handling took its place.

    Prefect does so if the signal comes while a task run is being created: "Task run is not set".
    """
    try:
        yield
    except Exception as error:
        for cause in _chain(error):
            if ends_the_process(cause):
                raise cause from None
        raise


def ends_the_process(error: BaseException) -> bool:
    """Return True for Ctrl-C, an exit and SIGTERM, but not for a Prefect pause."""
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        return True
    # A command that is interrupted before Prefect starts must not wait for its import.
    prefect = sys.modules.get("prefect.exceptions")
    return prefect is not None and isinstance(error, prefect.TerminationSignal)


def describe_error(error: Exception, context: ErrorContext, step: str = "") -> str:
    """Return a message with step, cause and next command."""
    text = str(error)
    if not isinstance(error, WaspError):
        text = f"{type(error).__name__}: {error}"
    step = step or step_of(error)
    if step:
        text = f"Step '{step}' failed: {text}"
    text = redact(text)
    if not text.endswith((".", "!", "?")):
        text += "."
    if context.has_started and context.folder is not None:
        return f"{text} Next: wasp resume {context.folder.name}, or Retry in the Prefect UI. Finished steps are reused."
    # Some messages already name what was not done: "Nothing was opened or spent."
    if "othing was" in text:
        return text
    return f"{text} Nothing was spent."


def disk_is_full(error: BaseException | None) -> bool:
    """Return True if an error, or one in its chain, reports a full disk."""
    for cause in _chain(error):
        if isinstance(cause, OSError) and cause.errno in DISK_FULL:
            return True
        # SQLite reports "database or disk is full" without an error number of the system.
        if isinstance(cause, sqlite3.OperationalError) and "full" in str(cause):
            return True
    return False


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and those that it wraps: libraries do so with or without `raise from`."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


@contextmanager
def explain_prefect_failure(home: Path) -> Iterator[None]:
    """Report a full disk, or a machine too busy for Prefect's temporary server, where Prefect fails first."""
    try:
        yield
    except WaspError:
        raise
    except Exception as error:
        if SERVER_TOO_SLOW in str(error):
            raise WaspError(
                "Prefect's temporary server did not start in time: the machine is busy. Nothing was spent. Repeat the "
                "command, or set PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS=600 to wait longer."
            ) from error
        if not disk_is_full(error) and shutil.disk_usage(home).free > LITTLE_BYTES:
            raise
        raise ArtifactError(
            f"The disk of {home} is full, and Prefect failed ({type(error).__name__}). Free space, or set WASP_HOME to "
            "a folder on another disk. Then repeat the command: finished steps are reused."
        ) from error


def _save_traceback(error: Exception, context: ErrorContext) -> str:
    """Save the traceback in the run's folder; it contains no private details."""
    if context.folder is None or not context.folder.is_dir():
        return ""
    path = context.folder / "failure.txt"
    try:
        path.write_text(redact("".join(traceback.format_exception(error))), encoding="utf-8")
    except OSError:
        return ""
    return f" This error is unexpected. Its traceback is in {path}."
