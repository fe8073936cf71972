"""What a failed run says: the step, the cause and the next move, in the terminal, in Prefect and in the manifest."""

from __future__ import annotations

import errno
import shutil
import sqlite3
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


class UnexpectedError(WaspError):
    """Something that nobody foresaw: the message names it and says where its traceback is."""


@dataclass(slots=True)
class Story:
    """How far a run has come: its folder once it has one, and whether it has begun to ask, draw or write."""

    folder: Path | None = None
    begun: bool = False


@contextmanager
def told(story: Story) -> Iterator[None]:
    """Let every error of the block end in words that say what to do; a WaspError stays what it is.

    Whatever stops a run on purpose (SIGTERM, Ctrl-C, a cancellation) passes as it is; where the process ends, steps in
    other threads are told, since Prefect waits for them: hours for a large model.
    """
    guard_logs()
    try:
        with cancellation.work():
            yield
    except ApprovalError:
        raise
    except WaspError as error:
        error.args = (in_words(error, story),)
        raise
    except Exception as error:
        if disk_is_full(error):
            full = "The disk is full: free space, or set WASP_HOME to a folder on another disk."
            raise ArtifactError(in_words(ArtifactError(full), story, step_of(error))) from error
        raise UnexpectedError(in_words(error, story) + _kept(error, story)) from error
    except BaseException as error:
        if _ends_the_process(error):
            cancellation.stop()
        raise


def _ends_the_process(error: BaseException) -> bool:
    """Say so of Ctrl-C, an exit, and what Prefect makes of SIGTERM; a pause of Prefect's is none of these."""
    from prefect.exceptions import TerminationSignal  # loaded by now; a command that only plans does not need it

    return isinstance(error, (KeyboardInterrupt, SystemExit, TerminationSignal))


def in_words(error: Exception, story: Story, step: str = "") -> str:
    """Return step, cause and next move."""
    cause = str(error) if isinstance(error, WaspError) else f"{type(error).__name__}: {error}"
    step = step or step_of(error)
    text = redact(f"Step '{step}' failed: {cause}" if step else cause)
    text = text if text.endswith((".", "!", "?")) else f"{text}."
    if story.begun and story.folder is not None:
        return f"{text} Next: wasp resume {story.folder.name}, or Retry in the Prefect UI; what is finished is reused."
    return text if "othing was" in text else f"{text} Nothing was spent."


def disk_is_full(error: BaseException | None) -> bool:
    """Say whether an error, or one that it arose from, is about a full disk."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in DISK_FULL:
            return True
        if isinstance(error, sqlite3.OperationalError) and "full" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


@contextmanager
def full_disk_told(home: Path) -> Iterator[None]:
    """Say so when the disk of the state folder is full and it was Prefect, not the run, that stumbled over it."""
    try:
        yield
    except WaspError:
        raise
    except Exception as error:
        if not disk_is_full(error) and shutil.disk_usage(home).free > LITTLE_BYTES:
            raise
        raise ArtifactError(
            f"The disk of {home} is full, and Prefect could not go on ({type(error).__name__}). Free space, or set "
            "WASP_HOME to a folder on another disk; then type the same command again: what is finished is reused."
        ) from error


def _kept(error: Exception, story: Story) -> str:
    """Keep the traceback beside the run's files; what comes from the private zone was sealed there."""
    if story.folder is None or not story.folder.is_dir():
        return ""
    path = story.folder / "failure.txt"
    try:
        path.write_text(redact("".join(traceback.format_exception(error))), encoding="utf-8")
    except OSError:
        return ""
    return f" This was not foreseen; the traceback is in {path}."
