"""Columns of plain Python values, into which files and databases are read."""

import codecs
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from connectors.interfaces.errors import InputError

Columns = Mapping[str, Sequence[Any]]
"""Column name -> values, all of the same length."""


def _as_windows(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return error.object[error.start : error.end].decode("cp1252", "replace"), error.end


codecs.register_error("wasp-windows", _as_windows)


def decode_any(data: bytes) -> str:
    """Return bytes as UTF-8 text; bytes that are not UTF-8 are characters of Windows-1252, as Excel writes.

    The encoding is chosen for each invalid byte, not for the file, so that no row changes how another one is read.
    Line ends, quotes and separators are the same in both encodings.
    """
    return data.decode("utf-8-sig", "wasp-windows")


def refuse_repeated(names: Sequence[str], required: Sequence[str], name: str) -> None:
    """Raise InputError if several columns have the name of a required one."""
    repeated = [column for column in required if names.count(column) > 1]
    if repeated:
        raise InputError(f"{name}: has column '{repeated[0]}' more than once. Rename one.")


def distinct(names: Sequence[str]) -> list[str]:
    """Return the names of columns; several columns of one name get their numbers."""
    counts = Counter(names)
    unique = list(names)
    for position, column in enumerate(names):
        if counts[column] > 1:
            unique[position] = f"{column} (column {position + 1})"
    return unique
