"""Excel files and objects inside JSON rows, as people export them. All content is made up."""

import datetime
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from connectors.interfaces.errors import InputError, MissingPackageError, PlaceError
from connectors.interfaces.rows import RowsRef
from connectors.rows import spreadsheets
from connectors.rows.headers import first_columns
from connectors.rows.reader import read_rows

openpyxl = pytest.importorskip("openpyxl")
SECRET = "a very private note"
ROWS: list[list[Any]] = [
    [None, None, None, None],
    ["Notiz", "Fach", None, "Datum"],
    [SECRET, 1, None, datetime.datetime(2024, 1, 31)],
    [None, None, None, None],
    ["NA", 2.0, None, None],
    [7, True, None, "  "],
]


def book(folder: Path, **sheets: list[list[Any]]) -> str:
    """Write an Excel file; return its path."""
    file = openpyxl.Workbook()
    file.remove(file.active)
    for title, rows in sheets.items():
        sheet = file.create_sheet(title)
        for row in rows:
            sheet.append(row)
    path = folder / "rows.xlsx"
    file.save(path)
    return str(path)


def test_a_sheet_is_read_as_the_cells_are_stored(tmp_path: Path) -> None:
    where = RowsRef(book(tmp_path, A=ROWS, B=[[None, " "]]), text="Notiz", label="Fach")
    frame = read_rows(where)
    assert frame["text"].tolist() == [SECRET, "NA", "7"]
    assert frame["label"].tolist() == ["1", "2", "true"]
    assert first_columns(where) == ("Notiz", "Fach", "Datum")
    dated = read_rows(RowsRef(where.path, text="Notiz", label="Datum"))
    assert dated["label"].tolist()[0] == "2024-01-31"
    assert dated["label"].isna().tolist() == [False, True, True]


def test_the_same_rows_are_those_of_a_csv(tmp_path: Path) -> None:
    rows = [["text", "label"], *([f"note {i}", "ab"[i % 2]] for i in range(9))]
    pd.DataFrame(rows[1:], columns=rows[0]).to_csv(tmp_path / "rows.csv", index=False)
    pair = [read_rows(RowsRef(path)) for path in (book(tmp_path, A=rows), f"{tmp_path}/rows.csv")]
    pd.testing.assert_frame_equal(*pair)


BROKEN: list[tuple[dict[str, list[list[Any]]], str]] = [
    ({"A": ROWS, "B": ROWS}, "2 sheets have rows"),
    ({"A": [[None]]}, "is empty"),
    ({"A": [["Notiz", "Notiz"], [SECRET, SECRET]]}, "'Notiz' more than once"),
]


@pytest.mark.parametrize(("sheets", "message"), BROKEN)
def test_a_sheet_that_is_no_table_is_refused(
    tmp_path: Path, sheets: dict[str, list[list[Any]]], message: str
) -> None:
    where = RowsRef(book(tmp_path, **sheets), text="Notiz", label="Fach")
    with pytest.raises(InputError, match=message) as error:
        read_rows(where)
    assert SECRET not in str(error.value)


def test_a_damaged_file_is_named_without_its_content(tmp_path: Path) -> None:
    path = tmp_path / "rows.xlsx"
    path.write_text(SECRET)
    for read in (read_rows, first_columns):
        with pytest.raises(InputError, match="is not a readable Excel file") as error:
            read(RowsRef(str(path)))
        assert SECRET not in str(error.value)
        assert error.value.__context__ is None


@pytest.mark.parametrize("suffix", ["xls", "ods", "xlsb", "numbers"])
def test_other_spreadsheets_are_refused_with_what_to_do(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"rows.{suffix}"
    file.write_bytes(b"content")
    advice = (
        r"this is a spreadsheet\. Save it as \.xlsx, or the sheet with the rows as CSV \(UTF-8\)"
    )
    for read in (read_rows, first_columns):
        with pytest.raises(PlaceError, match=advice):
            read(RowsRef(str(file)))


def test_without_openpyxl_the_message_has_two_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = RowsRef(book(tmp_path, A=ROWS))
    monkeypatch.setattr(spreadsheets, "find_spec", lambda _: None)
    for read in (read_rows, first_columns):
        with pytest.raises(MissingPackageError, match=r"\[data\]'? Or save the sheet as CSV"):
            read(where)


def test_a_folder_of_csv_keeps_its_rows_next_to_an_excel_file(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("text,label\nnote,a\n")
    book(tmp_path, A=ROWS)
    assert read_rows(RowsRef(str(tmp_path)))["text"].tolist() == ["note"]


NESTED = [{"note": {"body": f"pain {i}", "by": {"id": i % 3}}, "kind": "a"} for i in range(4)]


@pytest.mark.parametrize("file", ["rows.jsonl", "rows.json"])
def test_names_with_dots_lead_into_objects(tmp_path: Path, file: str) -> None:
    lines = json.dumps(NESTED) if file == "rows.json" else "\n".join(map(json.dumps, NESTED))
    (tmp_path / file).write_text(lines)
    where = RowsRef(str(tmp_path / file), text="note.body", label="kind", person="note.by.id")
    assert first_columns(where) == ("note.body", "note.by.id", "kind")
    frame = read_rows(where)
    assert frame["text"].tolist() == [f"pain {i}" for i in range(4)]
    assert frame["person"].tolist() == ["0", "1", "2", "0"]
    with pytest.raises(InputError, match=r"no column 'note\.text'"):
        read_rows(RowsRef(where.path, text="note.text", label="kind"))
    with pytest.raises(InputError, match="contains an object with the keys 'body', 'by'"):
        read_rows(RowsRef(where.path, text="note", label="kind"))


def test_a_column_whose_own_name_has_a_dot_goes_first(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text('{"a.b": "own", "a": {"b": "inner"}, "label": "x"}\n')
    where = RowsRef(str(tmp_path / "r.jsonl"), text="a.b", label="label")
    assert read_rows(where)["text"].tolist() == ["own"]


def test_a_list_of_labels_has_an_advice_of_its_own(tmp_path: Path) -> None:
    frame = pd.DataFrame({"text": ["a note", "another"], "label": [["pain", "skin"], ["pain"]]})
    frame.to_parquet(tmp_path / "rows.parquet")
    frame.to_json(tmp_path / "rows.jsonl", orient="records", lines=True)
    for file in ("rows.parquet", "rows.jsonl"):
        for owner in (False, True):
            where = RowsRef(str(tmp_path / file), for_owner=owner)
            with pytest.raises(InputError, match="A record has one class: keep its first label"):
                read_rows(where)
