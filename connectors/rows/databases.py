"""Rows of SQL databases, from a SQLAlchemy address and a query, read-only."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from connectors.interfaces.errors import MissingPackageError, NoRowsError, PlaceError
from connectors.rows.cells import Columns, decode_any, refuse_repeated
from connectors.rows.queries import check_query

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine

Caster = Callable[[str | None, object], object]
"""A function of psycopg2 from the text of a cell and its cursor to a value."""

_PUBLIC_PREFIXES = (
    "no such table",
    "no such column",
    "near ",
    "unable to open database",
    "connection to server",
    "could not",
)
"""Prefixes of database messages about the query or the server, which never contain row values."""


_READ_ONLY = {
    "mysql": "SET SESSION TRANSACTION READ ONLY",
    "mariadb": "SET SESSION TRANSACTION READ ONLY",
    "oracle": "SET TRANSACTION READ ONLY",
}
"""Statements that make a new connection or transaction read-only, in addition to the options of `_open`."""


def read_sql(
    address: str, query: str, name: str, lenient: bool = False, required: Sequence[str] = ()
) -> Columns:
    """Return the columns of a query's result, with rows in the database's order.

    The query is one SELECT (`check_query`). The connection is read-only: a SQLite file is opened with mode=ro;
    transactions of PostgreSQL, MySQL, MariaDB and Oracle are READ ONLY; DuckDB is opened read-only. Other
    databases have no such mode, and nothing is committed there; use an account with read permission only.

    Raises InputError if two columns have the name of a `required` one. With `lenient`, bytes of SQLite that are not
    UTF-8 are Windows-1252, and dates of PostgreSQL that Python cannot represent are text. Raises PlaceError and
    MissingPackageError; with `lenient` NoRowsError if a valid query fails on the values of rows.
    """
    import sqlalchemy
    from sqlalchemy.exc import SQLAlchemyError

    try:
        check_query(query, address)
    except ValueError as error:
        raise PlaceError(f"query of {name}: {error}.") from None
    check_database(address, name)
    engine = _open(address)
    try:
        with _reading(engine) as connection:
            if lenient:
                _accept_all_values(connection)
            result = connection.execute(sqlalchemy.text(query))
            columns = list(result.keys())
            rows = result.fetchall()
    except (SQLAlchemyError, ValueError, OverflowError) as error:
        problem = _public_message(error)
        # A query that fails on the values of private rows must not look like a wrong configuration, and the reverse.
        if lenient and _is_valid(engine, query):
            raise NoRowsError(f"{name}: the query failed on its rows ({problem}).") from None
    else:
        refuse_repeated(columns, required, name)
        return {column: [row[position] for row in rows] for position, column in enumerate(columns)}
    finally:
        engine.dispose()
    # Raised outside the block: the driver's error, which can quote rows, is not in its context.
    raise PlaceError(f"{name}: the query failed ({problem}). Test it in the database's client.")


def check_database(address: str, name: str) -> None:
    """Check an address, its driver and, for SQLite, its file, without connecting.

    Raises PlaceError, MissingPackageError.
    """
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError

    try:
        url = make_url(address)
        dialect = url.get_dialect()
        dialect.import_dbapi()
    except (ArgumentError, NoSuchModuleError):
        raise PlaceError(
            f"{name}: not a database address. Use for example sqlite:///rows.db"
        ) from None
    except ImportError as error:
        if address.startswith("postgresql"):
            raise MissingPackageError("psycopg2-binary", "postgres") from None
        raise PlaceError(
            f"{name}: this database needs another package ({error}). Install it."
        ) from None
    file = url.database or ""
    if (
        dialect.name == "sqlite"
        and file
        and not file.startswith((":", "file:"))
        and not Path(file).is_file()
    ):
        raise PlaceError(
            f"{name}: unable to open database file: {file} does not exist. Use the file of a database."
        )


def _open(address: str) -> Engine:
    """Return the engine of an address, read-only if the driver has such an option."""
    import sqlalchemy

    url = sqlalchemy.make_url(address)
    kind = url.get_backend_name()
    if kind == "sqlite":
        url = _read_only_file(url)
    connect: dict[str, bool] = {}
    if kind == "duckdb":
        connect["read_only"] = True
    return sqlalchemy.create_engine(url, connect_args=connect)


def _read_only_file(url: URL) -> URL:
    """Return a SQLite file's address as a URI with mode=ro, which creates no file."""
    file = url.database or ""
    if not file.startswith("file:"):
        # Quoted: a ? or % of the path would begin the options of the URI.
        file = f"file:{quote(str(Path(file).absolute()))}"
    return url.set(database=file, query={**url.query, "mode": "ro", "uri": "true"})


@contextmanager
def _reading(engine: Engine) -> Iterator[Connection]:
    """Open a connection with a read-only transaction, if the database supports it."""
    kind = engine.dialect.name
    with engine.connect() as connection:
        if kind == "postgresql":
            connection = connection.execution_options(postgresql_readonly=True)
        if kind in _READ_ONLY:
            connection.exec_driver_sql(_READ_ONLY[kind])
        yield connection


def _accept_all_values(connection: Connection) -> None:
    """Let the driver return a value for every cell: one row's cell must not make the query fail for all rows."""
    driver: Any = connection.connection.driver_connection
    if isinstance(driver, sqlite3.Connection):
        driver.text_factory = decode_any
    elif connection.engine.driver == "psycopg2":
        from psycopg2 import extensions

        for name in ("DATE", "DATETIME", "DATETIMETZ", "TIME", "INTERVAL"):
            caster = getattr(extensions, f"PY{name}")
            extensions.register_type(
                extensions.new_type(caster.values, name, _cast_or_text(caster)), driver
            )


def _cast_or_text(caster: Caster) -> Caster:
    def cast(value: str | None, cursor: object) -> object:
        try:
            return caster(value, cursor)
        except (ValueError, OverflowError):
            return value

    return cast


def _is_valid(engine: Engine, query: str) -> bool:
    """Return whether a query runs without its rows: database, tables and columns are right."""
    import sqlalchemy
    from sqlalchemy.exc import SQLAlchemyError

    alias = "AS wasp_rows"
    if engine.dialect.name == "oracle":  # it refuses AS before the alias of a table
        alias = "wasp_rows"
    # On a separate line: the query can end in a comment.
    probe = f"SELECT * FROM ({query.strip().rstrip(';')}\n) {alias} WHERE 1 = 0"  # noqa: S608  (checked by check_query)
    try:
        with _reading(engine) as connection:
            connection.execute(sqlalchemy.text(probe)).fetchall()
    except SQLAlchemyError:
        return False
    return True


def _public_message(error: Exception) -> str:
    message = str(getattr(error, "orig", None) or "").strip().split("\n")[0]
    # Others can quote values: a failed cast of SQL names the text that it could not convert.
    if not message.startswith(_PUBLIC_PREFIXES):
        return type(error).__name__
    return message
