"""Tables of other libraries as private records: their cells arrive, and no error shows one."""

from pathlib import Path
from typing import Any

import datasets
import duckdb
import pandas as pd
import pyarrow as pa
import pytest

from connectors.interfaces.rows import RowsRef
from connectors.rows.reader import read_rows
from flows.engine.datasets import store_frame

ROWS = [{"text": f"pain of kind {i}", "label": i % 2} for i in range(6)]


class ArrowStream:
    """A table that only has the stream of Arrow, as polars has it."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


def classed() -> datasets.Dataset:
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["skin", "pain"])}
    )
    return datasets.Dataset.from_list(ROWS, features=features)


TABLES: dict[str, tuple[Any, list[str]]] = {
    "pandas": (pd.DataFrame(ROWS), ["0", "1"]),
    "list": (ROWS, ["0", "1"]),
    "pyarrow": (pa.Table.from_pylist(ROWS), ["0", "1"]),
    "record batch": (pa.RecordBatch.from_pylist(ROWS), ["0", "1"]),
    "stream of Arrow": (ArrowStream(pa.Table.from_pylist(ROWS)), ["0", "1"]),
    "datasets": (datasets.Dataset.from_list(ROWS), ["0", "1"]),
    "classes of datasets": (classed(), ["skin", "pain"]),
    "rows of datasets": (classed().select([5, 4, 3, 2, 1, 0]), ["pain", "skin"]),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_stored_with_its_cells(tmp_path: Path, name: str) -> None:
    table, labels = TABLES[name]
    frame = read_rows(RowsRef(str(store_frame(tmp_path, "clinic", table))))
    assert frame["label"].tolist() == labels * 3
    texts = [row["text"] for row in ROWS]
    assert frame["text"].tolist() in (texts, texts[::-1])


def test_a_relation_of_duckdb_is_a_table(tmp_path: Path) -> None:
    relation = duckdb.sql("SELECT 'pain ' || i AS text, i % 2 AS label FROM range(6) t(i)")
    frame = read_rows(RowsRef(str(store_frame(tmp_path, "clinic", relation))))
    assert sorted(frame["label"]) == ["0", "0", "0", "1", "1", "1"]


def test_an_integer_label_with_a_missing_one_stays_one(tmp_path: Path) -> None:
    table = pa.table({"text": ["a", "b"], "label": pa.array([3, None], pa.int64())})
    path = store_frame(tmp_path, "clinic", table)
    assert pd.read_parquet(path)["label"].tolist()[0] == 3
    assert pa.parquet.read_schema(path).field("label").type == pa.int64()


WRONG = [
    ([], "list is not supported"),
    ([1, 2], "list is not supported"),
    (pd.Series(["a very private note"]), "Series is not supported"),
    ({"train": pd.DataFrame(ROWS)}, r"dict is not supported.*rows\['train'\]"),
    (7, "int is not supported. Use a path, a database URL, a list of dictionaries, or a table"),
]


@pytest.mark.parametrize(("rows", "message"), WRONG)
def test_other_values_are_named_without_their_content(
    tmp_path: Path, rows: object, message: str
) -> None:
    with pytest.raises(TypeError, match=message) as error:
        store_frame(tmp_path, "clinic", rows)
    assert "private note" not in str(error.value)
    assert not list(tmp_path.rglob("*.parquet"))
