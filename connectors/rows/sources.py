"""Where rows come from: every source becomes columns of plain Python values. Errors never quote a row."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from connectors.interfaces.errors import InputError, MissingPackageError, PlaceError
from connectors.interfaces.redaction import redact
from connectors.interfaces.rows import RowsRef

Columns = Mapping[str, Sequence[Any]]
"""Column name -> values, all of one length."""

DATA = Path(__file__).parents[1] / "data"
KNOWN = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")
MOST_BYTES = 4 * 1000**3
"""Of one file, unpacked."""
SEPARATORS = (",", ";", "\t", "|")


def shown(where: RowsRef) -> str:
    """Return the place of rows as messages show it: without a password."""
    return redact(where.path)


def open_source(where: RowsRef) -> Columns:
    """Read the wanted columns of a reference; InputError says which file and line cannot be read."""
    where = replace(where, path=address_of(where.path))
    if where.query is not None:
        from connectors.rows.databases import read_sql

        return read_sql(where.path, where.query, shown(where))
    if where.path.startswith("hf:") and "://" not in where.path:
        return _from_hub(where.path)
    return _from_files(inside_package(where.path), shown(where), wanted_columns(where))


def wanted_columns(where: RowsRef) -> list[str]:
    """Return the columns that a reference names."""
    return [column for column in (where.text, where.label, where.attribute, where.person) if column]


def inside_package(path: str) -> str:
    """Return the place of a file that comes with the package; other paths as they are."""
    if not path.startswith("builtin:"):
        return path
    inside = PurePosixPath(path.removeprefix("builtin:"))
    if ".." in inside.parts or inside.is_absolute():
        raise PlaceError(f"{path}: name a file that comes with the package, such as builtin:support_desk/test.parquet")
    return str(DATA / inside)


def address_of(path: str) -> str:
    """Return the address that a path stands for: `env:NAME` is what the variable holds."""
    kind, separator, variable = path.partition(":")
    if (kind, separator) != ("env", ":"):
        return path
    address = os.environ.get(variable, "").strip()
    if not address:
        raise PlaceError(f"{path}: the environment variable {variable} is not set here; put the address into it")
    return address


# --- files and folders, here or behind an address
def _from_files(path: str, name: str, wanted: Sequence[str]) -> Columns:
    system, files, folder = list_files(path, name)
    parts = []
    for file in files:
        title = f"{name}/{PurePosixPath(file).relative_to(folder)}" if folder else name
        parts.append((title, _read_file(system, file, title, wanted)))
    return parts[0][1] if len(parts) == 1 else _joined(parts, wanted)


def _joined(parts: Sequence[tuple[str, Columns]], wanted: Sequence[str]) -> Columns:
    names = [column for column in dict.fromkeys(c for _, columns in parts for c in columns) if column in wanted]
    for column in names:
        for title, columns in parts:
            if column not in columns:
                raise InputError(f"{title} has no column '{column}', which other files of the folder have.")
    return {column: [value for _, columns in parts for value in columns[column]] for column in names}


def list_files(path: str, name: str) -> tuple[Any, list[str], str]:
    """Return the storage system, the data files of a path and, for several, their folder; PlaceError for none."""
    import fsspec

    try:
        system, root = fsspec.core.url_to_fs(path)
    except ImportError as error:
        raise PlaceError(f"{name}: this kind of address needs one more package: {error}") from None
    except ValueError as error:
        raise PlaceError(f"{name}: {error}. A database needs 'query' beside its path in the configuration.") from None
    with _reachable(name, PlaceError):
        if not system.exists(root):
            raise PlaceError(f"{name} does not exist. Relative paths start at data_root, else at the working folder.")
        if not system.isdir(root):
            if ending_of(root) not in KNOWN:
                raise PlaceError(f"{name}: unknown kind of file. Known endings: {', '.join(KNOWN)} (and .gz).")
            return system, [root], ""
        folder = root.rstrip("/")
        files = [f for f in sorted(system.find(root)) if _is_data(PurePosixPath(f).relative_to(folder))]
    if not files:
        raise PlaceError(f"{name} is a folder without data files. Known endings: {', '.join(KNOWN)} (and .gz).")
    return system, files, folder


@contextmanager
def _reachable(name: str, kind: type[InputError] = InputError) -> Iterator[None]:
    """Turn errors of a storage system or a hub into `kind`; those of opened content may quote it."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        # Every storage system has errors of its own.
        raise kind(f"{name} cannot be read ({type(error).__name__}: {error}).") from error


def _is_data(path: PurePosixPath) -> bool:
    hidden = any(part.startswith(("_", ".")) for part in path.parts)
    return not hidden and ending_of(str(path)) in KNOWN


def packing_of(file: str) -> str | None:
    """Return how a file is packed, None if it is not."""
    return "gzip" if file.endswith(".gz") else None


def ending_of(file: str) -> str:
    """Return the ending that says what kind of file it is, without .gz."""
    return PurePosixPath(file.removesuffix(".gz")).suffix.lower()


def _read_file(system: Any, file: str, name: str, wanted: Sequence[str]) -> Columns:
    ending = ending_of(file)
    with _reachable(name), system.open(file, "rb", compression=packing_of(file)) as opened:
        data = opened.read(MOST_BYTES + 1)
    _require_size(len(data), name)
    if not data.strip():
        raise InputError(f"{name} is empty. Name a file with rows in it.")
    if ending == ".parquet":
        return _parse_parquet(data, name, wanted)
    text = _decode(data, name)
    if ending in (".csv", ".tsv"):
        return _parse_csv(text, name, "\t" if ending == ".tsv" else separator_of(text, wanted))
    return _parse_json(text, name)


def _require_size(size: int, name: str) -> None:
    """Refuse a file that would fill the memory: a small packed one may hold very much."""
    if size > MOST_BYTES:
        most = f"{MOST_BYTES / 1e9:.0f} GB"
        raise InputError(f"{name} holds more than {most} once unpacked; split it into several files of one folder.")


def _decode(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
    # Raised outside the block: the decoder's error carries the whole content with it.
    raise InputError(f"{name}, line {line}: not UTF-8. Save the file as UTF-8, e.g. iconv -f latin1 -t utf-8 OLD > NEW")


def _parse_parquet(data: bytes, name: str, wanted: Sequence[str]) -> Columns:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        _require_size(sum(file.metadata.row_group(i).total_byte_size for i in range(file.num_row_groups)), name)
        names = list(dict.fromkeys(file.schema_arrow.names))
        # On this thread alone, see `connectors.artifacts.parquet.parse_table`.
        table = file.read(columns=[column for column in names if column in wanted], use_threads=False)
    except (pa.ArrowException, OSError):
        raise InputError(f"{name} is not a readable Parquet file: it is damaged or of another kind.") from None
    # Columns that are not wanted are named for the error message only.
    return {column: table.column(column).to_pylist() if column in wanted else () for column in names}


def separator_of(text: str, wanted: Sequence[str]) -> str:
    """Return what parts the columns: a comma, unless only another sign makes a first line with the wanted columns."""
    first = text.lstrip("\r\n").partition("\n")[0]
    for separator in SEPARATORS:
        if set(wanted) <= set(next(csv.reader([first], delimiter=separator), [])):
            return separator
    return SEPARATORS[0]


def _parse_csv(text: str, name: str, separator: str) -> Columns:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    rows: list[list[str]] = []
    problem = ""
    try:
        for fields in reader:
            if rows and fields and len(fields) != len(rows[0]):
                problem = f"has {len(fields)} fields, the first line has {len(rows[0])}"
                break
            if fields:
                rows.append(fields)
    except csv.Error as error:
        problem = str(error)
    if problem:
        raise InputError(
            f"{name}, line {reader.line_num}: {problem}. Correct the line, or write Parquet or JSON lines."
        )
    header = rows[0]
    twice = sorted({column for column in header if header.count(column) > 1})
    if twice:
        raise InputError(f"{name}: the first line names column '{twice[0]}' more than once.")
    return {column: [row[position] for row in rows[1:]] for position, column in enumerate(header)}


def _parse_json(text: str, name: str) -> Columns:
    if text.lstrip().startswith("["):
        rows = list(enumerate(_loaded(text, name, lambda line: line), start=1))
        place = "row"
    else:
        lines = ((number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip())
        rows = [(number, _loaded(line, name, _shifted(number))) for number, line in lines]
        place = "line"
    for number, row in rows:
        if not isinstance(row, dict):
            raise InputError(f"{name}, {place} {number}: holds {type(row).__name__}, not an object with columns.")
    names = dict.fromkeys(column for _, row in rows for column in row)
    return {column: [row.get(column) for _, row in rows] for column in names}


def _shifted(number: int) -> Callable[[int], int]:
    return lambda line: number + line - 1


def _loaded(text: str, name: str, line_of: Callable[[int], int]) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line, reason = line_of(error.lineno), error.msg
    raise InputError(f"{name}, line {line}: not JSON ({reason}).")


# --- hub
def _from_hub(path: str) -> Columns:
    dataset, split = hub_parts(path)
    with _reachable(path):
        found = importlib.import_module("datasets").load_dataset(dataset, split=split)
        return {column: list(found[column]) for column in found.column_names}


def hub_parts(path: str) -> tuple[str, str]:
    """Return data set and split of an address; MissingPackageError without the package that reads them."""
    parts = path.split(":")
    if len(parts) != 3 or not all(parts):
        raise PlaceError(f"{path}: write hf:DATASET:SPLIT, for example hf:imdb:test")
    if importlib.util.find_spec("datasets") is None:
        raise MissingPackageError("datasets", "hub")
    return parts[1], parts[2]
