"""Sources of rows as columns of plain Python values. Errors never quote a row."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from connectors.interfaces.counts import counted
from connectors.interfaces.errors import EncodingError, InputError, PlaceError
from connectors.interfaces.json_values import Json
from connectors.interfaces.redaction import redact
from connectors.interfaces.rows import RowsRef
from connectors.rows.cells import Columns, decode_any, distinct, refuse_repeated
from connectors.rows.databases import read_sql
from connectors.rows.other_forms import (
    EXCEL,
    KNOWN,
    SUFFIXES,
    advice_on,
    describe_value,
    explain_suffix,
    refuse_one_object,
)
from connectors.rows.recipe_outputs import missing_hint
from connectors.rows.spreadsheets import read_sheet

if TYPE_CHECKING:
    import pyarrow as pa
    from fsspec import AbstractFileSystem

DATA = Path(__file__).parents[1] / "data"
_NO_PYTHON_VALUE = (ValueError, OverflowError, LookupError)
"""Errors of a cell that Python cannot represent: a year above 9999, an unknown time zone, bytes that are no text."""
SEPARATORS = (",", ";", "\t", "|")
SEPARATOR_LINE = re.compile(r"""\s*"?sep=([^\w"\r\n])"?[ ,;\t]*[\r\n]""", re.I)
"""A line above the header in which Excel names the separator, such as `sep=;`."""
FIRST_CHARACTERS = 1 << 16
"""Characters in which the first line of a file is searched."""
MAX_DIGITS = 4000
"""Longest integer of JSON that is read as a number; Python converts at most 4300 digits."""
# By default the rest of a longer cell would be read as further rows.
csv.field_size_limit(2**31 - 1)


def display_path(where: RowsRef) -> str:
    """Return the location of rows without a password, for messages."""
    return redact(where.path)


def open_source(where: RowsRef) -> Columns:
    """Read the required columns of a reference, or all of them (`whole`).

    InputError with the file and line that cannot be read.
    """
    where = replace(where, path=address_of(where.path))
    if where.query is not None:
        required = tuple(column_names(where).values())
        if (
            where.lenient
        ):  # private rows are checked at their registration and never refused at a run
            required = ()
        return read_sql(where.path, where.query, display_path(where), where.any_cells, required)
    return _from_files(inside_package(where.path), where)


def column_names(where: RowsRef) -> dict[str, str]:
    """Return the columns of a reference by what they contain: text, label, person."""
    named = {"text": where.text, "label": where.label, "person": where.person}
    return {name: column for name, column in named.items() if column}


def inside_package(path: str) -> str:
    """Return the path of a file in this package; other paths unchanged."""
    if not path.startswith("builtin:"):
        return path
    inside = PurePosixPath(path.removeprefix("builtin:"))
    if ".." in inside.parts or inside.is_absolute():
        raise PlaceError(
            f"{path}: invalid path. Use a file that comes with the package: builtin:support_desk/test.parquet"
        )
    return str(DATA / inside)


def address_of(path: str) -> str:
    """Return the address of a path; for `env:NAME` the variable's value."""
    kind, separator, variable = path.partition(":")
    if kind == "hf" and "://" not in path:
        raise PlaceError(
            f"{path}: removed in 0.3. Write the address of a file on the hub: hf://datasets/NAME/FILE"
        )
    if (kind, separator) != ("env", ":"):
        return path
    address = os.environ.get(variable, "").strip()
    if not address:
        raise PlaceError(
            f"{path}: the environment variable {variable} is not set. Set it to the address."
        )
    return address


# --- files and folders, local or remote
def _from_files(path: str, where: RowsRef) -> Columns:
    name = display_path(where)
    required = [*column_names(where).values()]
    system, files, folder = list_files(path, name)
    parts = []
    for file in files:
        title = name
        if folder:
            title = f"{name}/{PurePosixPath(file).relative_to(folder)}"
        parts.append((title, _read_file(system, file, title, where)))
    if len(parts) == 1:
        return parts[0][1]
    return _join_files(parts, required, where.all_columns)


def _join_files(
    parts: Sequence[tuple[str, Columns]], required: Sequence[str], whole: bool
) -> Columns:
    existing = dict.fromkeys(c for _, columns in parts for c in columns)
    names = [column for column in existing if whole or column in required]
    for column in names:
        for title, columns in parts:
            if column in required and column not in columns:
                raise InputError(
                    f"{title} has no column '{column}', which other files of the folder have."
                )
    lengths = [max(map(len, columns.values()), default=0) for _, columns in parts]
    return {
        column: [
            value
            for (_, columns), length in zip(parts, lengths, strict=True)
            for value in columns.get(column, (None,) * length)
        ]
        for column in names
    }


def list_files(path: str, name: str) -> tuple[AbstractFileSystem, list[str], str]:
    """Return the storage system, data files and folder (if several files) of a path.

    PlaceError if there are none.
    """
    import fsspec

    if "::" in path:  # a cache or archive around a file would hide which file is read
        raise PlaceError(
            f"{name}: chained addresses (::) are not supported. Write the address of the file itself."
        )
    try:
        system, root = fsspec.core.url_to_fs(path)
    except ImportError as error:
        raise PlaceError(
            f"{name}: this kind of address needs another package ({error}). Install it."
        ) from None
    except ValueError as error:
        raise PlaceError(
            f"{name}: {error}. A database also needs 'query' in the configuration."
        ) from None
    with _reachable(name, PlaceError):
        if not system.exists(root):
            raise PlaceError(f"{name} does not exist. {missing_hint(path)}")
        if not system.isdir(root):
            # Checked before any file is read: the error of a reader could quote its content.
            if ending_of(root) not in (*KNOWN, *EXCEL):
                raise PlaceError(f"{name}: {explain_suffix(ending_of(root))}")
            return system, [root], ""
        folder = root.rstrip("/")
        # Sorted: the positions of rows must not depend on the order in which a system lists files.
        files = [
            f for f in sorted(system.find(root)) if _is_data(PurePosixPath(f).relative_to(folder))
        ]
    if not files:
        raise PlaceError(f"{name} is a folder without data files. {SUFFIXES}")
    return system, files, folder


@contextmanager
def _reachable(name: str, kind: type[InputError] = InputError) -> Iterator[None]:
    """Turn errors of a storage system into `kind`; they may quote content."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        # Every storage system has its own errors.
        raise kind(f"{name} cannot be read ({type(error).__name__}: {error}).") from error


def _is_data(path: PurePosixPath) -> bool:
    # Excel files are read by name alone: among data files they are notes about them more often than rows.
    hidden = any(part.startswith(("_", ".")) for part in path.parts)
    return not hidden and ending_of(str(path)) in KNOWN


def ending_of(file: str) -> str:
    """Return the suffix of a file's format, without .gz."""
    return PurePosixPath(file.removesuffix(".gz")).suffix.lower()


def _read_file(system: AbstractFileSystem, file: str, name: str, where: RowsRef) -> Columns:
    ending = ending_of(file)
    required = [*column_names(where).values()]
    with _reachable(name), system.open(file, "rb", compression="infer") as opened:
        data = opened.read()
    if not data.strip():
        return _no_rows(name, where)
    if ending == ".parquet":
        return _parse_parquet(data, name, required, where)
    if ending in EXCEL:
        return _parse_excel(data, name, where)
    text = decode_any(data) if where.lenient or where.any_bytes else _decode(data, name)
    if ending in (".csv", ".tsv"):
        return _parse_csv(text, name, ending, where)
    return _parse_json(text, name, where, is_array=ending == ".json")


def _no_rows(name: str, where: RowsRef) -> Columns:
    if where.lenient:  # the file of a table without rows
        return dict.fromkeys(column_names(where).values(), ())
    raise InputError(f"{name} is empty. Use a file with rows.")


def _decode(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
    # Raised outside the block: the decoder's error contains the whole content.
    raise EncodingError(
        f"{name}, line {line}: not UTF-8. Save it as UTF-8, e.g. iconv -f cp1252 -t utf-8 OLD > NEW"
    )


def _parse_parquet(data: bytes, name: str, required: Sequence[str], where: RowsRef) -> Columns:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        names = file.schema_arrow.names
        refuse_repeated(names, required, name)
        read = None  # all
        if not where.all_columns:
            read = [column for column in names if column in required]
        # Only on this thread: one of Arrow's may drop the last reference to a Python object after the caller has its
        # table, and a command that exits at that moment dies of SIGABRT.
        table = file.read(columns=read, use_threads=False)
    except (pa.ArrowException, OSError):
        raise InputError(
            f"{name} is not a readable Parquet file: it is damaged or has another format."
        ) from None
    # Here by the type, because the cells of such a table are not checked one by one.
    for column in table.schema:
        is_text = not (pa.types.is_nested(column.type) or pa.types.is_binary(column.type))
        if where.any_cells and column.name in required and not is_text:
            raise InputError(
                f"{name}, column '{column.name}': contains {column.type}, not text. "
                f"{advice_on(column.name == where.label)}"
            )
    cells = [_cells(column, where.any_cells) for column in table.columns]
    # The other columns' names are needed for error messages.
    return dict.fromkeys(names, ()) | dict(zip(distinct(table.schema.names), cells, strict=True))


def _cells(column: pa.ChunkedArray, lenient: bool) -> list[object]:
    """Return the values of a Parquet column; cells that Python cannot represent are missing if `lenient`."""
    try:
        return list(column.to_pylist())
    except _NO_PYTHON_VALUE:
        if not lenient:
            raise
    return [_cell(value) for value in column]


def _cell(value: pa.Scalar) -> object:
    try:
        return value.as_py()
    except UnicodeDecodeError:
        return decode_any(value.as_buffer().to_pybytes())
    except _NO_PYTHON_VALUE:
        return None


def csv_form(text: str, ending: str, required: Sequence[str]) -> tuple[str, int]:
    """Return the separator of a CSV file, and the number of lines above its header.

    Excel names the separator in a line above the header. Otherwise it is a comma, or the first separator that yields
    the required columns, or the one that yields most columns. `.tsv` has tabs.
    """
    named = SEPARATOR_LINE.match(text)
    if named:
        return named[1], 1
    if ending == ".tsv":
        return "\t", 0
    columns = {separator: first_record(text, separator) for separator in SEPARATORS}
    fits = [separator for separator, names in columns.items() if set(required) <= set(names)]
    # Without a required column every separator fits.
    if required and fits:
        return fits[0], 0
    return max(SEPARATORS, key=lambda separator: _count_columns(columns[separator])), 0


def _count_columns(fields: Sequence[str]) -> int:
    """Return the number of columns; 0 if a separator cuts a quoted name, of which each part has one quote."""
    if any(field.count('"') % 2 for field in fields):
        return 0
    return len(fields)


def first_record(text: str, separator: str) -> list[str]:
    """Return the fields of the first line that is not blank, without errors; it ends at a line end outside quotes."""
    start = io.StringIO(text[:FIRST_CHARACTERS], newline="")
    return next(
        (fields for fields in csv.reader(start, delimiter=separator) if is_filled(fields)), []
    )


def is_filled(fields: Sequence[str | None]) -> bool:
    """Return True if a line or column has any character; Excel writes lines and columns of separators alone."""
    return any(field and field.strip() for field in fields)


def first_line(text: str) -> str:
    """Return the first line that is not empty; lines end with any of LF, CR LF and CR."""
    return re.split("[\r\n]", text.lstrip("\r\n"), maxsplit=1)[0]


def _parse_csv(text: str, name: str, ending: str, where: RowsRef) -> Columns:
    required = [*column_names(where).values()]
    separator, above = csv_form(text, ending, required)
    header, *rows = _csv_rows(text, name, separator, above, where.lenient) or [()]
    if not header:
        return _no_rows(name, where)
    names = [str(column) for column in header]
    refuse_repeated(names, required, name)
    columns: dict[str, Sequence[str | None]] = {}
    for position, (column, unique) in enumerate(zip(names, distinct(names), strict=True)):
        cells = [row[position] for row in rows]
        if column.strip() or is_filled(cells):
            columns[unique] = cells
    return columns


def _parse_excel(data: bytes, name: str, where: RowsRef) -> Columns:
    header, *rows = read_sheet(data, name) or [()]
    if not header:
        return _no_rows(name, where)
    names = excel_names(header)
    refuse_repeated(names, [*column_names(where).values()], name)
    columns: dict[str, Sequence[object]] = {}
    for position, (column, unique) in enumerate(zip(names, distinct(names), strict=True)):
        cells = [row[position] for row in rows]
        if column or any(cell is not None for cell in cells):
            columns[unique] = cells
    return columns


def excel_names(header: Sequence[object]) -> list[str]:
    """Return the names of the columns of a sheet; empty for one without a name."""
    return ["" if cell is None else str(cell) for cell in header]


def _csv_rows(
    text: str, name: str, separator: str, above: int, lenient: bool
) -> list[Sequence[str | None]]:
    """Return the header and the rows below it, without blank lines.

    Args:
        text: the content of the file.
        name: the file, for messages.
        separator: the character between columns.
        above: lines above the header.
        lenient: a malformed row is a row of missing cells.
    """
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=not lenient)
    rows: list[Sequence[str | None]] = []
    while True:
        problem = ""
        # `next` and no loop: after the error of a line, the reader continues with the next one.
        try:
            fields = next(reader)
            if rows and is_filled(fields) and len(fields) != len(rows[0]):
                problem = f"has {counted(len(fields), 'field')}, the first line has {len(rows[0])}"
        except StopIteration:
            return rows
        except csv.Error as error:
            fields = []
            problem = str(error)
        if problem and not (lenient and rows):
            raise InputError(
                f"{name}, line {reader.line_num}: {problem}. Correct the line, or write Parquet or JSON lines."
            )
        if problem:
            # The row stays, as missing cells: a row that disappears would move the positions of all later ones.
            rows.append([None] * len(rows[0]))
        elif above and is_filled(fields):
            above -= 1
        elif is_filled(fields):
            rows.append(fields)


def _parse_json(text: str, name: str, where: RowsRef, is_array: bool) -> Columns:
    """Return the columns of JSON lines; `is_array`: of a JSON array, if the text begins with a bracket."""
    lenient = where.lenient
    only = None
    if not lenient:
        only = _only_object(text)
    rows: list[tuple[int, Any]]
    if only is not None:
        refuse_one_object(only, [*column_names(where).values()], name)
        rows = [(1, only)]
        unit = "row"
    elif is_array and text.lstrip().startswith("["):
        rows = list(enumerate(_loaded(text, name), start=1))
        unit = "row"
    else:
        lines = (
            (number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()
        )
        rows = [(number, _loaded_line(line, name, number, lenient)) for number, line in lines]
        unit = "line"
    for position, (number, row) in enumerate(rows):
        if lenient and not isinstance(row, dict):
            rows[position] = (number, {})
        elif not isinstance(row, dict):
            hint = ""
            if isinstance(row, list):
                hint = " A file with one list of rows has the suffix .json."
            raise InputError(
                f"{name}, {unit} {number}: contains {describe_value(row)}, not an object with columns.{hint}"
            )
    names = dict.fromkeys(column for _, row in rows for column in row)
    if lenient and not names:  # no line is an object: as if the file were empty
        names = dict.fromkeys(column_names(where).values())
    return _columns_of([row for _, row in rows], names, [*column_names(where).values()])


def _columns_of(rows: Sequence[Json], names: Iterable[str], required: Sequence[str]) -> Columns:
    """Return the columns of objects; a required name with dots may lead into objects of a row."""
    columns = {column: [row.get(column) for row in rows] for column in names}
    # Only those that are named: a new column of each object would change what identifies earlier datasets.
    for column in required:
        if column not in columns and any(has_path(row, column) for row in rows):
            columns[column] = [value_at(row, column) for row in rows]
    return columns


def has_path(row: Json, path: str) -> bool:
    """Return True if the names between the dots of a path lead into objects: `note.text` is text of the object note."""
    return "." in path and value_at(row, path) is not None


def value_at(row: Json, path: str) -> object:
    """Return the value at a path of names with dots; None if there is none."""
    value: object = row
    for name in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def _only_object(text: str) -> Json | None:
    """Return the object of a file that contains one JSON object and nothing else, on one line or several."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        value: Json = json.loads(text, parse_int=_integer)
    except (json.JSONDecodeError, RecursionError):  # JSON lines, or a value nested too deeply
        return None
    return value


def _loaded_line(line: str, name: str, number: int, lenient: bool) -> Any:
    try:
        return _loaded(line, name, number)
    except (InputError, RecursionError):
        if not lenient:
            raise
        return None


def _loaded(text: str, name: str, first: int = 1) -> Any:
    """Return a JSON value that begins in line `first` of a file."""
    try:
        return json.loads(text, parse_int=_integer)
    except json.JSONDecodeError as error:
        line = first + error.lineno - 1
        reason = error.msg
    raise InputError(f"{name}, line {line}: not JSON ({reason}). Correct the line.")


def _integer(digits: str) -> int | str:
    if len(digits) > MAX_DIGITS:
        return digits
    return int(digits)
