"""One file or table has one place, under any address."""

import sqlite3
from pathlib import Path

import pytest

from connectors.interfaces.errors import PlaceError
from connectors.interfaces.rows import RowsRef
from connectors.rows.places import bases_of, places_of
from connectors.rows.reader import read_rows

QUERY = "select text, label from notes"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rows.csv").write_text("text,label\nhello,a\n")
    (tmp_path / "link.csv").symlink_to(tmp_path / "rows.csv")
    with sqlite3.connect(tmp_path / "rows.db") as database:
        database.execute("create table notes (text, label)")
        database.execute("insert into notes values ('hello', 'a')")
        database.execute("create view copies as select * from notes")
    return tmp_path


@pytest.mark.parametrize(
    "address", ["{}/link.csv", "file://{}/rows.csv", "/proc/self/root{}/rows.csv", "{}/./rows.csv"]
)
def test_every_address_of_a_file_is_its_place(folder: Path, address: str) -> None:
    where = RowsRef(address.format(folder))
    assert len(read_rows(where)) == 1
    assert places_of(where) == places_of(RowsRef(str(folder / "rows.csv")))


@pytest.mark.parametrize(
    "address", ["simplecache::{}", "filecache::file://{}", "blockcache::{}", "dir://rows.csv::{}"]
)
def test_an_address_that_hides_its_file_is_refused(folder: Path, address: str) -> None:
    for function in (places_of, read_rows):
        with pytest.raises(PlaceError, match="chained addresses"):
            function(RowsRef(address.format(folder / "rows.csv")))


@pytest.mark.parametrize(
    "address", ["sqlite:///{}", "sqlite:///file:{}?uri=true", "sqlite:///file:{}?mode=ro&uri=true"]
)
@pytest.mark.parametrize(
    "query",
    [
        QUERY,
        "select text, label from main.NOTES",
        "with notes as (select * from main.notes) select text, label from notes",
        "with mine as (select * from notes) select text, label from mine",
    ],
)
def test_every_address_and_query_of_a_table_is_its_place(
    folder: Path, address: str, query: str
) -> None:
    where = RowsRef(address.format(folder / "rows.db"), query=query)
    assert len(read_rows(where)) == 1
    assert set(places_of(RowsRef(f"sqlite:///{folder}/rows.db", query=QUERY))) <= set(
        places_of(where)
    )


def test_an_expression_of_postgresql_with_the_name_of_its_table_is_the_table() -> None:
    query = "with notes as (select * from notes) select text, label from notes"
    assert places_of(RowsRef("postgresql://host/clinic", query=query)) == (
        "postgresql host/clinic notes",
    )


def test_a_view_is_in_the_database_of_its_table(folder: Path) -> None:
    table, view = (
        RowsRef(f"sqlite:///{folder}/rows.db", query=QUERY.replace("notes", n))
        for n in ("notes", "copies")
    )
    assert places_of(table) != places_of(view)
    assert bases_of(table) == bases_of(view)
