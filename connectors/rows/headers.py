"""Column names of a source, for checks before any row is read. Quotes no row."""

import csv
import io
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import BinaryIO

from connectors.interfaces.errors import InputError, PlaceError, WaspError
from connectors.interfaces.rows import Header, RowsRef
from connectors.rows.cells import decode_any
from connectors.rows.databases import check_database
from connectors.rows.other_forms import EXCEL, refuse_one_object
from connectors.rows.sources import (
    address_of,
    column_names,
    csv_form,
    display_path,
    ending_of,
    excel_names,
    first_line,
    inside_package,
    is_filled,
    list_files,
)
from connectors.rows.spreadsheets import read_sheet

HEADER_BYTES = 1 << 16
"""Bytes read to find the first line of a file."""
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f]")
"""Characters that no text file has; not tab, line feed, vertical tab, form feed and carriage return."""


def read_header(where: RowsRef) -> Header | None:
    """Return a source's columns without reading its rows, None if that is impossible.

    Checks location, permission, kind and packages. Reads the schema of Parquet, and the first line of CSV and TSV (of
    the first file of a folder). JSON and databases have no header. Raises PlaceError, MissingPackageError.
    """
    address = inside_package(address_of(where.path))
    if where.query is not None:
        check_database(address, display_path(where))
        return None
    system, files, _ = list_files(address, display_path(where))
    with _readable(display_path(where)), system.open(files[0], "rb", compression="infer") as opened:
        ending = ending_of(files[0])
        if ending == ".parquet":
            return Header(_parquet_columns(opened, display_path(where)), is_schema=True)
        if ending in EXCEL:
            return _excel_header(opened.read(), display_path(where))
        if ending not in (".csv", ".tsv"):
            return None
        return _first_line(opened.read(HEADER_BYTES), where, ending)


def first_columns(where: RowsRef) -> tuple[str, ...]:
    """Return the columns that the owner of a source chooses from; empty for a database.

    Unlike `read_header`, which decides whether a column exists, this also reads the first object of JSON, which may
    lack a column of a later one. Raises PlaceError, InputError.
    """
    header = read_header(where)
    if header is not None:
        return tuple(column for column in header.columns if column.strip())
    if where.query is not None:
        return ()
    name = display_path(where)
    system, files, _ = list_files(inside_package(address_of(where.path)), name)
    if ending_of(files[0]) in (".csv", ".tsv"):  # a first line that is invalid or too long
        return ()
    with _readable(name), system.open(files[0], "rb", compression="infer") as opened:
        first = _first_object(decode_any(opened.read()), name)
    return tuple(_paths(first))


def _paths(value: dict[str, object]) -> Iterator[str]:
    """Yield the names of an object, and for each object in it the names with a dot between."""
    for name, part in value.items():
        if isinstance(part, dict):
            yield from (f"{name}.{inner}" for inner in _paths(part))
        else:
            yield name


def _first_object(text: str, name: str) -> dict[str, object]:
    """Return the first object of JSON, or of a JSON array, and decode no other one."""
    start = text.lstrip().removeprefix("[").lstrip()
    if not start:
        raise PlaceError(f"{name} is empty. Use a file with rows.")
    try:
        value, end = json.JSONDecoder().raw_decode(start)  # ignores what follows the first value
    except (ValueError, RecursionError):
        return {}
    if not start[end:].strip():
        refuse_one_object(value, (), name)
    if not isinstance(value, dict):
        return {}
    return value


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """Turn errors of opening a file into PlaceError, without content of the file."""
    try:
        yield
    except WaspError:
        raise
    except Exception as error:  # noqa: BLE001  (every storage system has its own errors)
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise PlaceError(
            f"{name} cannot be read ({reason}). Check the file and its permissions."
        ) from None


def _first_line(start: bytes, where: RowsRef, ending: str) -> Header | None:
    """Return the columns of a first line, None if invalid or longer than `start`."""
    text = decode_any(start)
    if _CONTROL.search(first_line(text)):
        raise PlaceError(
            f"{display_path(where)} is not a text file: its first line has control characters, as in archives, "
            "spreadsheets and UTF-16. Save the rows as CSV in UTF-8"
        )
    lines = io.StringIO(text, newline="")
    separator, above = csv_form(text, ending, [*column_names(where).values()])
    try:
        filled = (
            tuple(fields)
            for fields in csv.reader(lines, delimiter=separator, strict=True)
            if is_filled(fields)
        )
        columns = next(islice(filled, above, None), None)
    except csv.Error:
        return None
    if columns is None:
        raise PlaceError(f"{display_path(where)} is empty. Use a file with rows.")
    # The line can continue behind the bytes that were read.
    if len(start) == HEADER_BYTES and lines.tell() == len(text):
        return None
    return Header(columns, is_schema=False)


def _excel_header(data: bytes, name: str) -> Header:
    """Return the first row of a sheet that is not blank."""
    try:
        rows = read_sheet(data, name)
    except InputError as error:
        reason = str(error)
    else:
        if not rows:
            raise PlaceError(f"{name} is empty. Use a file with rows.")
        return Header(tuple(excel_names(rows[0])), is_schema=False)
    raise PlaceError(reason)


def _parquet_columns(opened: BinaryIO, name: str) -> tuple[str, ...]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return tuple(pq.read_schema(opened).names)
    except pa.ArrowException:
        raise PlaceError(
            f"{name} is not a readable Parquet file: it is damaged or has another format."
        ) from None
