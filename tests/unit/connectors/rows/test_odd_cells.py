"""A row more, however odd, changes no other row of a private source and never makes its reading fail."""

import csv
import json
import sqlite3
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from connectors.interfaces.rows import RowsRef
from connectors.rows.reader import read_rows

Row = tuple[str | None, str | None]
ROWS: list[Row] = [("hello", "a"), ('he said "no"\nreally', "b"), ("third", "a")]


def read(path: object, query: str | None = None) -> list[Row]:
    frame = read_rows(RowsRef(str(path), whole=True, lenient=True, query=query))
    return [
        (text if isinstance(text, str) else None, label)
        for text, label in zip(frame.text, frame.label, strict=True)
    ]


CELLS = {
    "long": "x" * 200_000,
    "long and ends with a line": "x" * 200_000 + "\n",
    "many lines": ("y" * 1000 + "\n") * 200,
    "quoted lines": ('"q" ' * 400 + '\n"start of a line\n') * 100,
}


@pytest.mark.parametrize("text", CELLS.values(), ids=CELLS)
def test_a_long_cell_of_csv_is_one_cell(tmp_path: Path, text: str) -> None:
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), ROWS[0], (text, "a"), *ROWS[1:]])
    assert read(tmp_path / "rows.csv") == [ROWS[0], (text, "a"), *ROWS[1:]]


LINES = {
    "integer of 5000 digits": '{"text": "odd", "label": "a", "n": ' + "1" * 5000 + "}",
    "cut": '{"text": oh',
    "bracket": "[",
    "list for a text": '{"text": ["x"], "label": "a"}',
    "array": "[1, 2]",
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_an_odd_line_of_json_changes_no_other(tmp_path: Path, line: str, first: bool) -> None:
    lines = [json.dumps({"text": text, "label": label}) for text, label in ROWS]
    (tmp_path / "rows.jsonl").write_text("\n".join([line, *lines] if first else [*lines, line]))
    result = read(tmp_path / "rows.jsonl")
    assert (result[1:] if first else result[:-1]) == ROWS


def test_a_line_of_csv_with_other_fields_changes_no_other(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text('text,label\ngood,a\n"ba"d",x,y,z\nfine,b\n')
    good, (text, _), fine = read(tmp_path / "rows.csv")
    assert (good, text, fine) == (("good", "a"), None, ("fine", "b"))


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_a_file_with_one_odd_line_is_a_table_of_rows_without_text(
    tmp_path: Path, line: str
) -> None:
    (tmp_path / "rows.jsonl").write_text(line)
    assert {text for text, _ in read(tmp_path / "rows.jsonl")} <= {None, "odd"}


COLUMNS = {
    "timestamp": (pa.timestamp("us"), 2**60),
    "date": (pa.date32(), 2**30),
    "duration": (pa.duration("s"), 2**60),
    "time zone": (pa.timestamp("us", tz="Mars/Phobos"), 1),
}


@pytest.mark.parametrize(("kind", "odd"), COLUMNS.values(), ids=COLUMNS)
def test_a_value_of_parquet_that_python_cannot_represent_is_missing(
    tmp_path: Path, kind: pa.DataType, odd: int
) -> None:
    texts, labels = (pa.array([*column, "odd"]) for column in zip(*ROWS, strict=True))
    table = {"text": texts, "label": labels, "at": pa.array([None, None, None, odd], type=kind)}
    pq.write_table(pa.table(table), tmp_path / "rows.parquet")
    assert read(tmp_path / "rows.parquet") == [*ROWS, ("odd", "odd")]


def test_bytes_of_parquet_and_sqlite_that_are_not_utf8_are_windows_1252(tmp_path: Path) -> None:
    texts = pa.array([*(str(text).encode() for text, _ in ROWS), b"\xff odd"], pa.binary())
    labels = pa.array([*(label for _, label in ROWS), "a"])
    table = {"text": pa.Array.from_buffers(pa.string(), 4, texts.buffers()), "label": labels}
    pq.write_table(pa.table(table), tmp_path / "rows.parquet")
    with sqlite3.connect(tmp_path / "rows.db") as database:
        database.execute("create table notes (text, label)")
        database.executemany("insert into notes values (?, ?)", ROWS)
        database.execute("insert into notes values (cast(x'ff206f6464' as text), 'a')")
    expected = [*ROWS, ("ÿ odd", "a")]
    assert read(tmp_path / "rows.parquet") == expected
    assert read(f"sqlite:///{tmp_path}/rows.db", "select text, label from notes") == expected
