"""Where the words of an error go that may quote a private row: to the rows' owner, into the private zone."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from connectors.interfaces.errors import PrivateInputError, WaspError


@contextmanager
def sealed(folder: Path) -> Iterator[None]:
    """Turn an unknown error of the block into PRIVATE-STEP; its text and traceback go into `folder`.

    No error leaves with the ones before it: they would travel with it to the process that waits for the step.
    """
    try:
        yield
    except WaspError as error:
        refusal: WaspError = error
    except Exception as error:  # noqa: BLE001  (the text of an unknown error may quote a row)
        refusal = PrivateInputError("PRIVATE-STEP", tell_owner(folder, error))
    else:
        return
    try:
        raise refusal
    except WaspError:
        # Raising in a block that handles an error is what ties it to that one.
        refusal.__cause__ = refusal.__context__ = None
        raise


def write_for_owner(path: Path, text: str) -> None:
    """Write `text` to `path` with mode 0600, its folder 0700."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)


def tell_owner(folder: Path, error: Exception) -> Path:
    """Write an error with its traceback into `folder` for the rows' owner; return the file."""
    path = folder / f"failure-{time.time_ns()}.txt"
    try:
        write_for_owner(path, "".join(traceback.format_exception(error)))
    except OSError:
        # A full disk: this error would carry the first one, and its words, out of the zone.
        return folder
    return path
