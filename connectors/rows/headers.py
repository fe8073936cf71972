"""The columns that a source of rows names apart from its rows, for checks before anything is read. Quotes no row."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from connectors.interfaces.errors import PlaceError, WaspError
from connectors.interfaces.rows import Header, RowsRef
from connectors.rows.sources import (
    address_of,
    ending_of,
    hub_parts,
    inside_package,
    list_files,
    packing_of,
    separator_of,
    shown,
    wanted_columns,
)

HEADER_BYTES = 1 << 16
"""What is read of a file for its first line."""
_UNDECODED = re.compile("[\udc80-\udcff]")
"""Bytes that are not UTF-8, as `surrogateescape` decodes them."""


def read_header(where: RowsRef) -> Header | None:
    """Return the columns that a source names apart from its rows; None where only its rows would show them.

    Place, permission and kind are checked, packages too. Of Parquet the schema is read, of CSV and TSV the first line
    (of the first file of a folder); JSON, databases and hubs have no header. Raises PlaceError, MissingPackageError.
    """
    place = inside_package(address_of(where.path))
    if where.query is not None:
        from connectors.rows.databases import check_database

        check_database(place, shown(where))
        return None
    if place.startswith("hf:") and "://" not in place:
        hub_parts(place)
        return None
    system, files, _ = list_files(place, shown(where))
    with _readable(shown(where)), system.open(files[0], "rb", compression=packing_of(files[0])) as opened:
        ending = ending_of(files[0])
        if ending == ".parquet":
            return Header(_parquet_columns(opened, shown(where)), is_schema=True)
        if ending not in (".csv", ".tsv"):
            return None
        return _first_line(opened.read(HEADER_BYTES), where, "\t" if ending == ".tsv" else "")


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """Turn errors of opening a file into PlaceError, without words that may come from inside it."""
    try:
        yield
    except WaspError:
        raise
    except Exception as error:  # noqa: BLE001  (every storage system has errors of its own)
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise PlaceError(f"{name} cannot be read ({reason}). Check the file and who may read it.") from None


def _first_line(start: bytes, where: RowsRef, separator: str) -> Header | None:
    """Return the columns of a first line; None where it does not parse or does not end within `start`."""
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise PlaceError(f"{shown(where)} is UTF-16. Save the file as UTF-8: iconv -f utf-16 -t utf-8 OLD > NEW")
    text = start.decode("utf-8-sig", "surrogateescape")
    lines = io.StringIO(text, newline="")
    try:
        reader = csv.reader(lines, delimiter=separator or separator_of(text, wanted_columns(where)), strict=True)
        columns = next((tuple(fields) for fields in reader if fields), None)
    except csv.Error:
        return None
    if columns is None:
        raise PlaceError(f"{shown(where)} is empty. Name a file with rows in it.")
    if any(map(_UNDECODED.search, columns)):
        raise PlaceError(
            f"{shown(where)}: the first line is not UTF-8. Save the file as UTF-8: iconv -f latin1 -t utf-8 OLD > NEW"
        )
    return None if len(start) == HEADER_BYTES and lines.tell() == len(text) else Header(columns, is_schema=False)


def _parquet_columns(opened: BinaryIO, name: str) -> tuple[str, ...]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return tuple(pq.read_schema(opened).names)
    except pa.ArrowException:
        raise PlaceError(f"{name} is not a readable Parquet file: it is damaged or of another kind.") from None
