"""A query of a configuration reads rows and changes nothing, on real SQLite and real PostgreSQL."""

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError

from connectors.interfaces.errors import PlaceError
from connectors.rows.databases import _open, _reading, read_sql
from connectors.rows.queries import READING, check_query
from tests.support.servers.postgres import execute, postgres_server

ROWS = "SELECT text, label FROM notes ORDER BY text"
SQLITE, POSTGRES = "sqlite:///notes.db", "postgresql+psycopg2://db/ward"

WRITES = [
    (SQLITE, "drop table notes"),
    (SQLITE, "delete from notes returning *"),
    (SQLITE, "with a as (select 1) delete from notes"),
    (SQLITE, "select 1; drop table notes"),
    (SQLITE, "select ';'; drop table notes"),
    (SQLITE, "pragma writable_schema = 1"),
    (SQLITE, "attach 'other.db' as other"),
    (SQLITE, "vacuum into 'copy.db'"),
    (SQLITE, "-- a comment\ndrop table notes"),
    (SQLITE, "/* a */ /* b */ drop table notes"),
    (SQLITE, "select /* a /* b */ drop table notes -- */"),
    (SQLITE, ""),
    (POSTGRES, "with gone as (delete from notes returning *) select * from gone"),
    (POSTGRES, "select * into copied from notes"),
    (POSTGRES, "explain analyze delete from notes"),
    (POSTGRES, "select * from notes for update"),
    (POSTGRES, "select $a$ ; commit; drop table notes; $a$"),
    (POSTGRES, "copy notes to program 'id'"),
    (POSTGRES, "do $$ begin end $$"),
    ("mysql://db/ward", "select 1 /*! into outfile '/x' */"),
    ("mysql://db/ward", "select text into outfile '/x' from notes"),
    ("mssql+pyodbc://db/ward", "select 1 as x drop table notes"),
    ("mssql+pyodbc://db/ward", "exec xp_cmdshell 'dir'"),
    ("env:ROWS", "drop table notes"),
]

READS = [
    (SQLITE, ROWS),
    (SQLITE, "select text, label from notes;\n"),
    (SQLITE, "-- of the ward\nselect [text], label from notes where text <> '--' -- all"),
    (SQLITE, "(select text, label from notes)"),
    (
        SQLITE,
        "WITH a AS (SELECT text, label FROM notes) SELECT * FROM a UNION ALL SELECT * FROM a LIMIT 3",
    ),
    (SQLITE, "select replace(text, 'delete', 'drop') as text, label from notes"),
    (
        POSTGRES,
        "select body::text as text, meta #>> '{a,b}' as label from notes tablesample system (10)",
    ),
    (POSTGRES, "select distinct on (person) text, label from notes order by person, written desc"),
    ("mysql+pymysql://db/ward", "select `text`, label from notes where text regexp 'a|b'"),
    ("mssql+pyodbc://db/ward", "select top 5 text, label from [notes]"),
    ("oracle+oracledb://db/ward", "select text, label from notes where rownum < 10"),
    ("env:ROWS", "select top 5 text, label from [notes]"),
    ("env:ROWS", "select `text`, label from notes"),
]


@pytest.mark.parametrize(("address", "query"), WRITES)
def test_what_is_not_one_select_is_refused_before_a_database_is_opened(
    address: str, query: str
) -> None:
    with pytest.raises(ValueError, match="SELECT|MySQL|view"):
        check_query(query, address)
    with pytest.raises(PlaceError, match="query of there: "):
        read_sql(address, query, "there")


@pytest.mark.parametrize(("address", "query"), READS)
def test_a_select_is_accepted_in_the_language_of_its_database(address: str, query: str) -> None:
    check_query(query, address)
    assert re.search(READING, query)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a #1" / "notes%20.db"
    path.parent.mkdir()
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE notes (text, label)")
        database.executemany("INSERT INTO notes VALUES (?, ?)", [("a", "x"), ("b", "y")])
    database.close()
    return path


def test_a_sqlite_file_is_read_and_stays_as_it_is(file: Path) -> None:
    before = file.read_bytes()
    assert read_sql(f"sqlite:///{file}", ROWS, "notes") == {"text": ["a", "b"], "label": ["x", "y"]}
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE notes",
        "DELETE FROM notes",
        "CREATE TABLE copied (text)",
        "SELECT load_extension('made')",
    ],
)
def test_a_sqlite_connection_cannot_write_even_where_a_statement_gets_through(
    tmp_path: Path, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "notes.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE notes (text)")
    database.close()
    before = path.read_bytes()
    engine = _open(f"sqlite:///{path}")
    with _reading(engine) as connection, pytest.raises(DBAPIError, match="readonly|not authorized"):
        connection.exec_driver_sql(statement)
    engine.dispose()
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_sqlite_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(PlaceError, match="unable to open database file"):
        read_sql(f"sqlite:///{tmp_path}/absent.db", ROWS, "absent")
    assert not list(tmp_path.iterdir())


def test_views_json_and_full_text_of_sqlite_are_read(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "notes.db") as database:
        database.execute("CREATE TABLE raw (body)")
        database.execute("""INSERT INTO raw VALUES ('{"text": "a fever", "label": ["x"]}')""")
        database.execute("CREATE VIEW notes AS SELECT body ->> '$.text' AS text, j.value AS label "
                         "FROM raw, json_each(body, '$.label') AS j")  # fmt: skip
        database.execute("CREATE VIRTUAL TABLE words USING fts5(text, label)")
        database.execute("INSERT INTO words SELECT * FROM notes")
    database.close()
    address, row = f"sqlite:///{tmp_path}/notes.db", {"text": ["a fever"], "label": ["x"]}
    assert read_sql(address, ROWS, "notes") == row
    assert (
        read_sql(
            address,
            "SELECT text, label FROM words WHERE words MATCH 'fever' ORDER BY rank",
            "notes",
        )
        == row
    )


@pytest.fixture(scope="module")
def ward() -> Iterator[str]:
    with postgres_server() as url:
        execute(url, "CREATE TABLE notes (text text, label text)")
        execute(url, "INSERT INTO notes VALUES ('a', 'x'), ('b', 'y')")
        execute(url, "CREATE SEQUENCE numbers")
        execute(
            url,
            "CREATE FUNCTION clear() RETURNS text LANGUAGE plpgsql AS 'BEGIN DELETE FROM notes; RETURN 1; END'",
        )
        yield url


@pytest.mark.parametrize(
    "query",
    [
        "SELECT clear() AS text, 'x' AS label",
        "SELECT nextval('numbers')::text AS text, 'x' AS label",
        "SELECT set_config('transaction_read_only', 'off', false) || clear() AS text, 'x' AS label",
    ],
)
def test_a_function_of_postgresql_that_writes_is_stopped_by_the_transaction(
    ward: str, query: str
) -> None:
    with pytest.raises(PlaceError, match="the query failed"):
        read_sql(ward, query, "notes")
    assert read_sql(ward, ROWS, "notes") == {"text": ["a", "b"], "label": ["x", "y"]}
    with create_engine(ward).connect() as database:
        assert not database.execute(text("SELECT is_called FROM numbers")).scalar()


@pytest.mark.parametrize(
    "statement", ["DROP TABLE notes", "DELETE FROM notes", "CREATE TABLE copied (text text)"]
)
def test_a_transaction_of_postgresql_cannot_write_even_where_a_statement_gets_through(
    ward: str, statement: str
) -> None:
    engine = _open(ward)
    with _reading(engine) as connection, pytest.raises(DBAPIError, match="read-only transaction"):
        connection.exec_driver_sql(statement)
    engine.dispose()
    assert read_sql(ward, ROWS, "notes")["text"] == ["a", "b"]


@pytest.mark.parametrize(
    "at", ["timestamp '0044-03-15 BC'", "date '20000-01-01'", "timestamptz '0044-03-15 BC'"]
)
def test_a_date_of_postgresql_that_python_cannot_represent_is_text_in_a_lenient_table(
    ward: str, at: str
) -> None:
    query = f"SELECT 'odd' AS text, {at} AS at UNION ALL SELECT text, now() FROM notes"
    with pytest.raises(PlaceError, match="the query failed"):
        read_sql(ward, query, "notes")
    result = read_sql(ward, query, "notes", lenient=True)
    assert result["text"] == ["odd", "a", "b"]
    assert [isinstance(value, str) for value in result["at"]] == [True, False, False]
