"""Keeps private values, and error messages that may quote private records, inside the private zone."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from connectors.interfaces.errors import PrivateInputError, WaspError

if TYPE_CHECKING:
    import pandas as pd


class Unprintable:
    """A value that stays in the private zone: it cannot be pickled or copied, and its repr shows nothing."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a private value is never serialised")

    def __getstate__(self) -> NoReturn:
        raise TypeError("a private value is never serialised")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(hidden)"


@contextmanager
def sealed(folder: Path) -> Iterator[None]:
    """Replace an unknown error of the block by PRIVATE-STEP.

    Its text and traceback are written to `folder`. No error leaves the block with a cause or context: these would reach
    the process that waits for the step.
    """
    try:
        yield
    except WaspError as error:
        refusal: WaspError = error
    except Exception as error:  # noqa: BLE001  (the text of an unknown error may quote a record)
        refusal = PrivateInputError("PRIVATE-STEP", write_error_for_owner(folder, error))
    else:
        return
    try:
        raise refusal
    except WaspError:
        # Raising inside an except block sets the context of the error.
        refusal.__cause__ = refusal.__context__ = None
        raise


def write_for_owner(path: Path, content: str | bytes) -> None:
    """Write a text or bytes to `path` with mode 0600, in a folder with mode 0700."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # The mode belongs to the call that creates the file: a later chmod leaves a moment in which others can open it.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    if isinstance(content, str):
        # Texts of rows may contain surrogates, which UTF-8 cannot express.
        content = content.encode("utf-8", "backslashreplace")
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def write_table_for_owner(path: Path, table: pd.DataFrame) -> None:
    """Write a table as Parquet with mode 0600; an error may quote its values, so call it in a `sealed` block."""
    write_for_owner(path, table.to_parquet(index=False))


def write_error_for_owner(folder: Path, error: Exception) -> Path:
    """Write an error with its traceback to `folder`; return the file."""
    path = folder / f"failure-{time.time_ns()}.txt"
    try:
        write_for_owner(path, "".join(traceback.format_exception(error)))
    except OSError:
        # A full disk: this error would take the first one, with its message, out of the private zone.
        return folder
    return path
