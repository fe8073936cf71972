"""Sources of rows as columns of plain Python values. Errors never quote a row."""

import codecs
import csv
import io
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from connectors.interfaces.errors import EncodingError, InputError, PlaceError
from connectors.interfaces.redaction import redact
from connectors.interfaces.rows import RowsRef

Columns = Mapping[str, Sequence[Any]]
"""Column name -> values, all of the same length."""

DATA = Path(__file__).parents[1] / "data"
KNOWN = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")
_NO_PYTHON_VALUE = (ValueError, OverflowError, LookupError)
"""Errors of a cell that Python cannot represent: a year above 9999, an unknown time zone, bytes that are no text."""
SEPARATORS = (",", ";", "\t", "|")
MOST_DIGITS = 4000
"""Longest integer of JSON that is read as a number; Python converts at most 4300 digits."""
csv.field_size_limit(2**31 - 1)  # by default the rest of a longer cell would be read as rows of its own


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


def display_path(where: RowsRef) -> str:
    """Return the location of rows without a password, for messages."""
    return redact(where.path)


def open_source(where: RowsRef) -> Columns:
    """Read the required columns of a reference, or all of them (`whole`).

    InputError with the file and line that cannot be read.
    """
    where = replace(where, path=address_of(where.path))
    if where.query is not None:
        from connectors.rows.databases import read_sql

        return read_sql(where.path, where.query, display_path(where), where.any_cells)
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
        raise PlaceError(f"{path}: removed in 0.3. Write the address of a file on the hub: hf://datasets/NAME/FILE")
    if (kind, separator) != ("env", ":"):
        return path
    address = os.environ.get(variable, "").strip()
    if not address:
        raise PlaceError(f"{path}: the environment variable {variable} is not set. Set it to the address.")
    return address


# --- files and folders, local or remote
def _from_files(path: str, where: RowsRef) -> Columns:
    name, required = display_path(where), [*column_names(where).values()]
    system, files, folder = list_files(path, name)
    parts = []
    for file in files:
        title = f"{name}/{PurePosixPath(file).relative_to(folder)}" if folder else name
        parts.append((title, _read_file(system, file, title, where)))
    return parts[0][1] if len(parts) == 1 else _join_files(parts, required, where.all_columns)


def _join_files(parts: Sequence[tuple[str, Columns]], required: Sequence[str], whole: bool) -> Columns:
    existing = dict.fromkeys(c for _, columns in parts for c in columns)
    names = [column for column in existing if whole or column in required]
    for column in names:
        for title, columns in parts:
            if column in required and column not in columns:
                raise InputError(f"{title} has no column '{column}', which other files of the folder have.")
    lengths = [max(map(len, columns.values()), default=0) for _, columns in parts]
    return {
        column: [
            value
            for (_, columns), length in zip(parts, lengths, strict=True)
            for value in columns.get(column, (None,) * length)
        ]
        for column in names
    }


def list_files(path: str, name: str) -> tuple[Any, list[str], str]:
    """Return the storage system, data files and folder (if several files) of a path.

    PlaceError if there are none.
    """
    import fsspec

    if "::" in path:  # a cache or archive around a file would hide which file is read
        raise PlaceError(f"{name}: chained addresses (::) are not supported. Write the address of the file itself.")
    try:
        system, root = fsspec.core.url_to_fs(path)
    except ImportError as error:
        raise PlaceError(f"{name}: this kind of address needs another package ({error}). Install it.") from None
    except ValueError as error:
        raise PlaceError(f"{name}: {error}. A database also needs 'query' in the configuration.") from None
    with _reachable(name, PlaceError):
        if not system.exists(root):
            hint = "Relative paths start at data_root or the working folder."
            if "://" in path:
                hint = "Check the address and your access, or download the file and name its path."
            raise PlaceError(f"{name} does not exist. {hint}")
        if not system.isdir(root):
            if ending_of(root) not in KNOWN:
                raise PlaceError(f"{name}: unknown kind of file. Supported suffixes: {', '.join(KNOWN)} (and .gz).")
            return system, [root], ""
        folder = root.rstrip("/")
        files = [f for f in sorted(system.find(root)) if _is_data(PurePosixPath(f).relative_to(folder))]
    if not files:
        raise PlaceError(f"{name} is a folder without data files. Supported suffixes: {', '.join(KNOWN)} (and .gz).")
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
    hidden = any(part.startswith(("_", ".")) for part in path.parts)
    return not hidden and ending_of(str(path)) in KNOWN


def ending_of(file: str) -> str:
    """Return the suffix of a file's format, without .gz."""
    return PurePosixPath(file.removesuffix(".gz")).suffix.lower()


def _read_file(system: Any, file: str, name: str, where: RowsRef) -> Columns:
    ending, required = ending_of(file), [*column_names(where).values()]
    with _reachable(name), system.open(file, "rb", compression="infer") as opened:
        data = opened.read()
    if not data.strip():
        if where.lenient:  # the file of a table without rows
            return dict.fromkeys(required, ())
        raise InputError(f"{name} is empty. Use a file with rows.")
    if ending == ".parquet":
        return _parse_parquet(data, name, required, where)
    text = decode_any(data) if where.lenient or where.any_bytes else _decode(data, name)
    if ending in (".csv", ".tsv"):
        return _parse_csv(text, name, "\t" if ending == ".tsv" else separator_of(text, required), where.lenient)
    return _parse_json(text, name, where, is_array=ending == ".json")


def _decode(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
    # Raised outside the block: the decoder's error contains the whole content.
    raise EncodingError(f"{name}, line {line}: not UTF-8. Save it as UTF-8, e.g. iconv -f cp1252 -t utf-8 OLD > NEW")


def _parse_parquet(data: bytes, name: str, required: Sequence[str], where: RowsRef) -> Columns:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        names = list(dict.fromkeys(file.schema_arrow.names))
        # Only on this thread: one of Arrow's may drop the last reference to a Python object after the caller has its
        # table, and a command that exits at that moment dies of SIGABRT.
        table = file.read(
            columns=[column for column in names if where.all_columns or column in required], use_threads=False
        )
    except (pa.ArrowException, OSError):
        raise InputError(f"{name} is not a readable Parquet file: it is damaged or has another format.") from None
    for column in table.schema if where.any_cells else ():  # the cells of a lenient table are not checked
        if column.name in required and (pa.types.is_nested(column.type) or pa.types.is_binary(column.type)):
            raise InputError(f"{name}, column '{column.name}': contains {column.type}, not text.")
    # The other columns' names are needed for error messages.
    return {
        column: _cells(table.column(column), where.any_cells) if where.all_columns or column in required else ()
        for column in names
    }


def _cells(column: Any, lenient: bool) -> list[Any]:
    """Return the values of a Parquet column; cells that Python cannot represent are missing if `lenient`."""
    try:
        return list(column.to_pylist())
    except _NO_PYTHON_VALUE:
        if not lenient:
            raise
    return [_cell(value) for value in column]


def _cell(value: Any) -> Any:
    try:
        return value.as_py()
    except UnicodeDecodeError:
        return decode_any(value.as_buffer().to_pybytes())
    except _NO_PYTHON_VALUE:
        return None


def separator_of(text: str, required: Sequence[str]) -> str:
    """Return the column separator.

    It is a comma, unless only another separator yields a first line with the required columns.
    """
    first = first_line(text)
    for separator in SEPARATORS:
        if set(required) <= set(next(csv.reader([first], delimiter=separator), [])):
            return separator
    return SEPARATORS[0]


def first_line(text: str) -> str:
    """Return the first line that is not empty; lines end with any of LF, CR LF and CR."""
    return re.split("[\r\n]", text.lstrip("\r\n"), maxsplit=1)[0]


def _parse_csv(text: str, name: str, separator: str, lenient: bool) -> Columns:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=not lenient)
    rows: list[Sequence[str | None]] = []
    while True:
        try:
            fields = next(reader)
            wrong = bool(rows and fields) and len(fields) != len(rows[0])
            problem = f"has {len(fields)} fields, the first line has {len(rows[0])}" if wrong else ""
        except StopIteration:
            break
        except csv.Error as error:
            fields, problem = [], str(error)
        if problem and not (lenient and rows):
            raise InputError(
                f"{name}, line {reader.line_num}: {problem}. Correct the line, or write Parquet or JSON lines."
            )
        if problem:
            rows.append([None] * len(rows[0]))
        elif fields:
            rows.append(fields)
    header = [str(column) for column in rows[0]]
    duplicates = sorted({column for column in header if header.count(column) > 1})
    if duplicates:
        raise InputError(f"{name}: the first line contains column '{duplicates[0]}' more than once. Rename one.")
    return {column: [row[position] for row in rows[1:]] for position, column in enumerate(header)}


def _parse_json(text: str, name: str, where: RowsRef, is_array: bool) -> Columns:
    """Return the columns of JSON lines; `is_array`: of a JSON array, if the text begins with a bracket."""
    lenient = where.lenient
    if is_array and text.lstrip().startswith("["):
        rows, unit = list(enumerate(_loaded(text, name), start=1)), "row"
    else:
        lines = ((number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip())
        rows, unit = [(number, _loaded_line(line, name, number, lenient)) for number, line in lines], "line"
    if lenient:
        rows = [(number, row if isinstance(row, dict) else {}) for number, row in rows]
    for number, row in rows:
        if not isinstance(row, dict):
            raise InputError(f"{name}, {unit} {number}: contains {type(row).__name__}, not an object with columns.")
    names = dict.fromkeys(column for _, row in rows for column in row)
    if lenient and not names:  # no line is an object: as if the file were empty
        names = dict.fromkeys(column_names(where).values())
    return {column: [row.get(column) for _, row in rows] for column in names}


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
        line, reason = first + error.lineno - 1, error.msg
    raise InputError(f"{name}, line {line}: not JSON ({reason}). Correct the line.")


def _integer(digits: str) -> int | str:
    return int(digits) if len(digits) <= MOST_DIGITS else digits
