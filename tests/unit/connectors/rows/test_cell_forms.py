"""A label or person has one canonical form, however it is typed and stored."""

import json
import math
import sqlite3
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.interfaces.rows import RowsRef
from connectors.interfaces.text_forms import cell_form, label_form
from connectors.rows.reader import check_public, read_rows

FORMS = {
    "pain": (
        "pain",
        "pain      ",
        "\u00a0pain\t",
        "\ufeffpain",
        "pa\u200bin",
        "pain\x00\x00",
        "\u2003pain\r\n",
    ),
    "Übelkeit": ("\u00dcbelkeit", "U\u0308belkeit", "U\u200b\u0308belkeit "),
    "skin rash": ("skin rash", "skin\u00a0rash", "skin  rash", "skin\u3000rash"),
    "3": ("3", "3.0", "3.00", " 3 ", "3.0e+0"),
    "-3": ("-3", "-3.0"),
    "0": ("0", "-0.0", "0.00"),
    "007": ("007",),
    "007.0": ("007.0",),
    "+3": ("+3",),
    "12E4": ("12E4",),
    "1,5": ("1,5",),
    "1.5": ("1.5", "1.50", "1.500"),
    "1.1": ("1.1", "1.10", "1.100000023841858"),
    "0.0000001": ("1e-07", "0.0000001"),
    "12000000000000000": ("1.2e+16", "12000000000000000"),
    "1073741824": ("1073741824", "1073741824.0"),
    "12345678901234567890": ("12345678901234567890",),
    "true": ("true", "True", "TRUE"),
    "false": ("false", "False", "FALSE"),
    "yes": ("yes",),
    "2024-01-01": (
        "2024-01-01",
        "2024-01-01 00:00:00",
        "2024-01-01T00:00:00.000",
        "2024-01-01 00:00:00.000000",
    ),
    "2024-01-01 10:30:00": ("2024-01-01 10:30", "2024-01-01T10:30:00", "2024-01-01 10:30:00.0"),
    "2024-01-01 09:30:00.5+00:00": ("2024-01-01T09:30:00.500Z", "2024-01-01 10:30:00.5+01:00"),
    "2024-13-01 00:00:00": ("2024-13-01 00:00:00",),
    "": ("", "   ", "\u00a0", "\u200b", "\ufeff"),
    "nan": ("nan",),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_spelling_of_a_value_has_its_form(form: str) -> None:
    assert {cell_form(spelling) for spelling in FORMS[form]} == {form}


ODD_TEXTS = st.one_of(
    st.text(),
    st.text(alphabet=" \u00a0\u200b\ufeff\u0301\u200d\x00\t\na1.0-+eTZ:"),
    st.floats(allow_nan=False).map(repr),
    st.floats(width=32, allow_nan=False).map(repr),
    st.decimals(allow_nan=False).map(str),
    st.datetimes(timezones=st.one_of(st.none(), st.just(UTC))).map(str),
)


@settings(max_examples=1000, deadline=None)
@given(ODD_TEXTS)
def test_the_form_of_a_form_is_itself(text: str) -> None:
    assert cell_form(cell_form(text)) == cell_form(text)
    assert label_form(label_form(text)) == label_form(text)
    assert cell_form(label_form(text)) == cell_form(text)


VALUES = {
    "whole numbers": st.integers(-(2**63), 2**63 - 1),
    "numbers": st.floats(allow_nan=False, allow_infinity=False, min_value=-1e15, max_value=1e15),
    "decimals": st.decimals(-(10**9), 10**9, places=3),
    "booleans": st.booleans(),
    "dates": st.dates(),
    "times": st.datetimes(),
    "texts": st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=20),
}


def stored_everywhere(folder: Path, values: Sequence[Any]) -> dict[str, RowsRef]:
    """Store values as labels and persons in each kind of source."""
    texts = [f"text {number}" for number in range(len(values))]
    columns = {"text": texts, "label": pa.array(values), "person": pa.array(values)}
    pq.write_table(pa.table(columns), folder / "rows.parquet")
    frame = pd.DataFrame({"text": texts, "label": pd.Series(values, dtype=object)}).assign(
        person=lambda f: f["label"]
    )
    frame.to_csv(folder / "rows.csv", index=False)
    kinds = (date, Decimal)
    plain = [str(value) if isinstance(value, kinds) else value for value in values]
    lines = zip(texts, plain, strict=True)
    (folder / "rows.jsonl").write_text(
        "\n".join(
            json.dumps({"text": text, "label": value, "person": value}) for text, value in lines
        )
    )
    (folder / "rows.db").unlink(missing_ok=True)
    with sqlite3.connect(folder / "rows.db") as database:
        database.execute("create table notes (text, label, person)")
        rows = [(text, str(value).lower() if value is True or value is False else value) for text, value in
                zip(texts, plain, strict=True)]  # fmt: skip
        database.executemany(
            "insert into notes values (?, ?, ?)", [(text, value, value) for text, value in rows]
        )
    database.close()
    sources = {
        name: RowsRef(str(folder / name), person="person")
        for name in ("rows.parquet", "rows.csv", "rows.jsonl")
    }
    query = "select text, label, person from notes"
    return sources | {"sql": RowsRef(f"sqlite:///{folder}/rows.db", query=query, person="person")}


@pytest.mark.parametrize("kind", VALUES)
def test_a_value_has_one_form_in_every_source(tmp_path: Path, kind: str) -> None:
    @settings(max_examples=25, deadline=None)
    @given(st.lists(VALUES[kind], min_size=1, max_size=5))
    def check(values: list[Any]) -> None:
        read = {
            name: read_rows(where) for name, where in stored_everywhere(tmp_path, values).items()
        }
        forms = {name: frame["label"].tolist() for name, frame in read.items()}
        assert len({tuple(labels) for labels in forms.values()}) == 1, forms
        for frame in read.values():
            assert frame["person"].tolist() == frame["label"].tolist()

    check()


FRAMES = {
    "int64": (pd.Series([1, 2, 3]), ["1", "2", "3"]),
    "double, one missing": (pd.Series([1, 2, None]), ["1", "2", None]),
    "Int64, one missing": (pd.array([1, 2, pd.NA], dtype="Int64"), ["1", "2", None]),
    "float32": (pd.Series([1.1, 4.5, 3.0], dtype="float32"), ["1.1", "4.5", "3"]),
    "numpy bool": (np.array([True, False, True]), ["true", "false", "true"]),
    "boolean, one missing": (
        pd.array([True, None, False], dtype="boolean"),
        ["true", None, "false"],
    ),
    "category": (pd.Categorical(["b ", "a", None]), ["b", "a", None]),
    "category of numbers": (pd.Categorical([1.0, 2.0, 1.0]), ["1", "2", "1"]),
    "Decimal": ([Decimal("1.50"), Decimal("3.00"), None], ["1.5", "3", None]),
    "dates": (
        pd.to_datetime(["2024-01-01", "2024-02-01", None]),
        ["2024-01-01", "2024-02-01", None],
    ),
    "texts": (["pain ", None, ""], ["pain", None, ""]),
}


@pytest.mark.parametrize(("values", "forms"), FRAMES.values(), ids=FRAMES)
def test_columns_of_a_data_frame_are_read_in_their_form(
    tmp_path: Path, values: Any, forms: list[str | None]
) -> None:
    pd.DataFrame({"text": ["x", "y", "z"], "label": values}).to_parquet(tmp_path / "rows.parquet")
    read = read_rows(RowsRef(str(tmp_path / "rows.parquet")))["label"]
    assert read.astype(object).where(read.notna(), None).tolist() == forms


def test_a_label_is_read_as_the_name_of_the_task_and_a_text_stays_as_it_is(tmp_path: Path) -> None:
    table = pd.DataFrame(
        {"text": [" a\u00a0", "U\u0308", "3.0"], "label": ["True", "U\u0308bel ", "4.0"]}
    )
    table.to_csv(tmp_path / "rows.csv", index=False)
    where = RowsRef(str(tmp_path / "rows.csv"), names=("TRUE", "\u00dcbel", "4.00"))
    rows = read_rows(where)
    assert rows["label"].tolist() == ["TRUE", "\u00dcbel", "4.00"]
    assert rows["text"].tolist() == table["text"].tolist()
    check_public(where, rows, where.names)


def test_names_that_are_one_number_are_distinguished_by_their_spelling(tmp_path: Path) -> None:
    pd.DataFrame({"text": ["x", "y", "z"], "label": ["1.1", "1.10", "1.100"]}).to_csv(
        tmp_path / "r.csv", index=False
    )
    where = RowsRef(str(tmp_path / "r.csv"), names=("1.1", "1.10"))
    assert read_rows(where)["label"].tolist() == ["1.1", "1.10", "1.1"]


def test_a_code_is_no_number(tmp_path: Path) -> None:
    pd.DataFrame({"text": ["x", "y", "z"], "label": ["250.10", "250.1 ", "U\u0308 1"]}).to_csv(
        tmp_path / "r.csv", index=False
    )
    classes = (("long", ("250.10",)), ("short", ("250.1",)), ("umlaut", ("\u00dc",)))
    assert read_rows(RowsRef(str(tmp_path / "r.csv"), classes=classes))["label"].tolist() == [
        "long",
        "short",
        "umlaut",
    ]


def test_rows_are_chosen_as_before_regardless_of_the_form_of_their_labels(tmp_path: Path) -> None:
    rows = pd.DataFrame(
        {"text": [f"text {number}" for number in range(40)], "label": [1.0, 2.0] * 20}
    )
    rows.to_parquet(tmp_path / "rows.parquet")
    chosen = read_rows(RowsRef(str(tmp_path / "rows.parquet"), rows=5, seed=3))
    assert chosen["row"].tolist() == CHOSEN
    assert set(chosen["label"]) <= {"1", "2"}


CHOSEN = [3, 7, 13, 17, 38]
"""Rows that the version before canonical forms chose."""


def test_a_number_of_32_bits_changes_no_whole_number() -> None:
    for number in (2**30, 2**24 + 2, 1_001_000_064):
        assert cell_form(str(number)) == cell_form(f"{number}.0") == str(number)
    assert cell_form(repr(math.pi)) == repr(math.pi)


def test_a_zone_is_the_same_moment() -> None:
    moment = datetime(2024, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    assert (
        cell_form(str(moment))
        == cell_form(str(moment.astimezone(UTC)))
        == "2024-01-01 00:00:00+00:00"
    )
