"""Rows from SQL databases, by SQLAlchemy address and query."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from connectors.base import MissingPackageError, PlaceError

if TYPE_CHECKING:
    from sqlalchemy.exc import SQLAlchemyError

    from connectors.sources import Columns

_HARMLESS = ("no such table", "no such column", "near ", "unable to open database", "connection to server", "could not")
"""Beginnings of database messages that are about the query or the server, never about what stands in a row."""


def read_sql(address: str, query: str, name: str) -> Columns:
    """Return the columns of a query's result, in the order in which the database gives its rows.

    Nothing is committed, so a query cannot change the rows. Errors: PlaceError, MissingPackageError.
    """
    import sqlalchemy
    from sqlalchemy.exc import SQLAlchemyError

    check_database(address, name)
    engine = sqlalchemy.create_engine(address)
    try:
        with engine.connect() as connection:
            result = connection.execute(sqlalchemy.text(query))
            columns = list(result.keys())
            rows = result.fetchall()
    except SQLAlchemyError as error:
        problem = _harmless(error)
    else:
        return {column: [row[position] for row in rows] for position, column in enumerate(columns)}
    finally:
        engine.dispose()
    raise PlaceError(f"{name}: the query failed ({problem}). Try it in the database's own client.")


def check_database(address: str, name: str) -> None:
    """Check an address, its driver and, for SQLite, its file; nothing is connected and no query is run.

    Raises PlaceError, MissingPackageError.
    """
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError

    try:
        url = make_url(address)
        dialect = url.get_dialect()
        dialect.import_dbapi()
    except (ArgumentError, NoSuchModuleError):
        raise PlaceError(f"{name}: not a database address. Write for example sqlite:///rows.db") from None
    except ImportError as error:
        if address.startswith("postgresql"):
            raise MissingPackageError("psycopg2-binary", "postgres") from None
        raise PlaceError(f"{name}: this database needs one more package: {error}") from None
    file = url.database or ""
    if dialect.name == "sqlite" and file and not file.startswith((":", "file:")) and not Path(file).is_file():
        raise PlaceError(f"{name}: unable to open database file: {file} does not exist. Name the file of a database.")


def _harmless(error: SQLAlchemyError) -> str:
    message = str(getattr(error, "orig", None) or "").strip().split("\n")[0]
    return message if message.startswith(_HARMLESS) else type(error).__name__
