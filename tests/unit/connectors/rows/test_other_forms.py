"""Tables as spreadsheets, notebooks and web services write them: read, or explained."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from connectors.interfaces.errors import InputError
from connectors.interfaces.rows import RowsRef
from connectors.rows.headers import first_columns, read_header
from connectors.rows.reader import read_rows

TEXTS, LABELS = ["one, two", "three"], ["a", "b"]

TABLES = {
    "Excel's unnamed columns and rows": b"text;label;;\n;;;\none, two;a;;\n;;;\nthree;b;;\n;;;\n ; ;;\n",
    "blank lines above the header": b";;\ntext;label;\none, two;a;\nthree;b;\n",
    "a line that names the separator": b"\xef\xbb\xbfsep=;\r\ntext;label\r\none, two;a\r\nthree;b\r\n",
    "the same in quotes": b'"sep=;"\n"text";"label"\n"one, two";"a"\n"three";"b"\n',
    "a rare separator": b"SEP=^\ntext^label\none, two^a\nthree^b\n",
    "two columns of one name that nobody reads": b"day;text;day;label\n1;one, two;2;a\n3;three;4;b\n",
    "a name with a line end": b'"a\nb";text;label\n1;one, two;a\n2;three;b\n',
}


@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize("content", TABLES.values(), ids=TABLES)
def test_what_spreadsheets_add_is_no_row_and_no_column(
    tmp_path: Path, content: bytes, lenient: bool
) -> None:
    (tmp_path / "rows.csv").write_bytes(content)
    where = RowsRef(str(tmp_path / "rows.csv"), lenient=lenient, whole=True)
    rows = read_rows(where)
    assert (rows["text"].tolist(), rows["label"].tolist(), rows["row"].tolist()) == (
        TEXTS,
        LABELS,
        [0, 1],
    )
    header = read_header(where)
    assert header is not None
    assert {"text", "label"} <= set(header.columns)


def test_a_column_without_a_name_but_with_values_is_part_of_the_row(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(",text,label\n0,one,a\n")
    assert "0" in read_rows(RowsRef(str(tmp_path / "rows.csv"), whole=True))["whole"][0].split(
        "\x1f"
    )


def test_a_repeated_column_is_refused_only_if_it_is_named(tmp_path: Path) -> None:
    arrays = [pa.array(["x"]), pa.array(["y"]), pa.array(["z"])]
    pq.write_table(
        pa.Table.from_arrays(arrays, names=["text", "label", "text"]), tmp_path / "rows.parquet"
    )
    with pytest.raises(InputError, match="column 'text' more than once"):
        read_rows(RowsRef(str(tmp_path / "rows.parquet")))
    pq.write_table(
        pa.Table.from_arrays(arrays[::-1], names=["day", "day", "text"]), tmp_path / "days.parquet"
    )
    rows = read_rows(RowsRef(str(tmp_path / "days.parquet"), label="", whole=True))
    assert rows["whole"].tolist() == ["x\x1fy\x1fz"]
    (tmp_path / "rows.db").touch()
    with pytest.raises(InputError, match="column 'text' more than once"):
        read_rows(
            RowsRef(f"sqlite:///{tmp_path}/rows.db", label="", query="SELECT 1 AS text, 2 AS text")
        )


FRAME = pd.DataFrame({"text": TEXTS, "label": LABELS})
ROWS = FRAME.to_dict("records")
FORMS: dict[str, tuple[Any, str]] = {
    "columns": (
        FRAME.to_dict(),
        "contains one object with the keys 'text', 'label', not one object per row. Write one",
    ),
    "lists of columns": (FRAME.to_dict("list"), "one object per row"),
    "split": (
        FRAME.to_dict("split"),
        "with the keys 'index', 'columns', 'data', not one object per row",
    ),
    "rows below a key": (
        {"status": "ok", "data": ROWS},
        "Write the list of 'data' as a file of its own",
    ),
    "arrays": (FRAME.to_numpy().tolist(), "row 1: contains a list, not an object with columns"),
    "a text": ("hello", "contains a single value, not an object with columns"),
    "nested text": (
        [{"text": {"en": "x", "de": "y"}, "label": "a"}],
        "row 0, column 'text': contains an object with the keys 'en', 'de', not text. Write one text per row",
    ),
    "list of texts": (
        [{"text": ["x", "y"], "label": "a"}],
        "column 'text': contains a list, not text. Write one text",
    ),
}


@pytest.mark.parametrize("for_owner", [False, True])
@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize(("value", "message"), FORMS.values(), ids=FORMS)
def test_json_of_another_form_is_named_with_the_form_that_is_read(
    tmp_path: Path, value: Any, message: str, indent: int | None, for_owner: bool
) -> None:
    (tmp_path / "rows.json").write_text(json.dumps(value, indent=indent))
    with pytest.raises(InputError) as refused:
        read_rows(RowsRef(str(tmp_path / "rows.json"), for_owner=for_owner))
    assert message in str(refused.value)


def test_one_row_with_a_list_next_to_its_text_is_a_row(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(json.dumps({"text": "x", "label": "a", "tags": ["t"]}))
    assert read_rows(RowsRef(str(tmp_path / "rows.json")))["text"].tolist() == ["x"]


def test_a_struct_of_parquet_is_named_for_the_owner(tmp_path: Path) -> None:
    pd.DataFrame({"text": [{"en": "x"}], "label": ["a"]}).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(
        InputError, match="column 'text': contains struct<en: .*>, not text. Write one text per row"
    ):
        read_rows(RowsRef(str(tmp_path / "rows.parquet"), for_owner=True))


@pytest.mark.parametrize("name", ["r.csv", "r.jsonl", "r.json", "r.parquet"])
def test_the_columns_of_each_kind_of_file_are_listed(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "r.csv":
        path.write_text("text;label;;\nx;a;;\n")
    elif name == "r.parquet":
        FRAME.to_parquet(path)
    else:
        FRAME.to_json(path, orient="records", lines=name == "r.jsonl")
    assert first_columns(RowsRef(str(path))) == ("text", "label")
