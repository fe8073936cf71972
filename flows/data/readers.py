"""Read fetched files as rows: CSV, JSON lines, lines of a text, Excel, Parquet, archives of texts."""

import csv
import gzip
import hashlib
import io
import json
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from connectors.interfaces.errors import InputError
from flows.data.recipes import Source
from flows.data.rows import Cell, Row, Rows

GZIP = b"\x1f\x8b"


def read_file(source: Source, path: Path, name: str) -> Rows:
    """Return the rows of a fetched file.

    Args:
        source: its format.
        path: the file.
        name: its address, for messages.

    Raises:
        InputError: the file has another format.
    """
    try:
        return _READERS[source.format](source, path)
    except (
        ValueError,
        KeyError,
        LookupError,
        OSError,
        csv.Error,
        tarfile.TarError,
        zipfile.BadZipFile,
    ) as error:
        raise InputError(
            f"{name}: cannot be read as {source.format} ({error or type(error).__name__}). Correct its format in "
            "the recipe"
        ) from error


def members_digest(source: Source, path: Path, name: str) -> str:
    """Return the SHA-256 of the sorted list of an archive's selected members: digest and path of each."""
    lines = []
    try:
        for member, _, data in _members(source, path):
            lines.append(f"{hashlib.sha256(data).hexdigest()}  {member}\n")
    except (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile) as error:
        raise InputError(f"{name}: is not a whole archive ({error}). Fetch it again") from error
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()


def _text(path: Path) -> str:
    data = path.read_bytes()
    if data.startswith(GZIP):
        data = gzip.decompress(data)
    return data.decode("utf-8-sig")


def _read_csv(source: Source, path: Path) -> Rows:
    reader = csv.reader(io.StringIO(_text(path), newline=""), strict=True)
    header = source.header or next(reader)
    return [dict(zip(header, fields, strict=True)) for fields in reader if fields]


def _read_jsonl(_: Source, path: Path) -> Rows:
    # Not splitlines: a text may contain other line separators of Unicode.
    objects = [json.loads(line) for line in _text(path).split("\n") if line.strip()]
    return [{name: _cell(value) for name, value in row.items()} for row in objects]


def _cell(value: object) -> Cell:
    if value is None or isinstance(value, str | int | float):
        return value
    return json.dumps(value, ensure_ascii=False)


def _read_lines(_: Source, path: Path) -> Rows:
    return [{"line": line.rstrip("\r")} for line in _text(path).split("\n") if line.strip()]


def _read_xlsx(_: Source, path: Path) -> Rows:
    from openpyxl import load_workbook

    workbook = load_workbook(path, read_only=True, data_only=True)
    try:
        lines = workbook.worksheets[0].iter_rows(values_only=True)
        header = [str(value) for value in next(lines)]
        return [
            {name: _excel_cell(value) for name, value in zip(header, line, strict=False)}
            for line in lines
        ]
    finally:
        workbook.close()


def _excel_cell(value: object) -> Cell:
    if value is None or isinstance(value, str | int | float):
        return value
    return str(value)


def _read_parquet(_: Source, path: Path) -> Rows:
    import pyarrow.parquet as pq

    rows: Rows = pq.read_table(path, use_threads=False).to_pylist()
    return rows


def _read_archive(source: Source, path: Path) -> Rows:
    rows = []
    for member, columns, data in _members(source, path):
        if data.startswith(GZIP):
            data = gzip.decompress(data)
        text = data.decode(source.member_encoding, "replace")
        row: Row = {"path": member, "text": text, **columns}
        rows.append(row)
    # By name: an archive has any order.
    return sorted(rows, key=lambda row: str(row["path"]))


def _members(source: Source, path: Path) -> Iterator[tuple[str, dict[str, str], bytes]]:
    """Yield the part of each selected member's path that matches, its named groups and its bytes.

    Members are read and never extracted, so that no path in an archive can name another file.
    """
    pattern = re.compile(source.members or "")
    opened = _zip_members if zipfile.is_zipfile(path) else _tar_members
    for name, read in opened(path):
        match = pattern.search(name)
        if match:
            yield match[0], match.groupdict(), read()


def _tar_members(path: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    # A stream: random access in a compressed archive would unpack it again for each member.
    with tarfile.open(path, "r|*") as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            if file is not None:
                yield member.name, file.read


def _zip_members(path: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if not member.is_dir():
                yield member.filename, lambda member=member: archive.read(member)  # type: ignore[misc]


_READERS: dict[str, Callable[[Source, Path], Rows]] = {
    "csv": _read_csv,
    "jsonl": _read_jsonl,
    "lines": _read_lines,
    "xlsx": _read_xlsx,
    "parquet": _read_parquet,
    "archive": _read_archive,
}
