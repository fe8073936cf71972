"""Names of the files and tables that a reference reads: two views of one place contain the same people."""

import re
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from connectors.interfaces.errors import PlaceError
from connectors.interfaces.rows import RowsRef
from connectors.rows.queries import DIALECTS
from connectors.rows.sources import address_of, display_path, ending_of, inside_package, list_files


def places_of(where: RowsRef) -> tuple[str, ...]:
    """Return the files (links resolved), or tables of a reference, without user and password.

    A view of a database is a table of its own name: its people are recognised by their persons and rows.
    Raises PlaceError.
    """
    address = inside_package(address_of(where.path))
    if where.query is not None:
        return _tables(address, where.query)
    system, files, _ = list_files(address, display_path(where))
    protocol = system.protocol
    # One name or several, such as ("file", "local").
    if protocol == "file" or (isinstance(protocol, tuple) and "file" in protocol):
        return tuple(str(Path(file).resolve()) for file in files)
    return tuple(f"{protocol} {file}" for file in files)


def files_of(where: RowsRef) -> tuple[str, ...]:
    """Return the names of the files that a folder of rows has; empty for one file or a database. Raises PlaceError."""
    if where.query is not None:
        return ()
    _, files, folder = list_files(inside_package(address_of(where.path)), display_path(where))
    if not folder:
        return ()
    return tuple(str(PurePosixPath(file).relative_to(folder)) for file in files)


def require_one_kind(where: RowsRef) -> None:
    """Raise PlaceError for a folder with files of several kinds: they are rarely one table."""
    first = {ending_of(file): file for file in reversed(files_of(where))}
    if len(first) > 1:
        raise PlaceError(
            f"{display_path(where)} has data files of several kinds, such as {' and '.join(sorted(first.values()))}. "
            "All files of a folder are read as one table. Name one file, or a folder with files of one kind."
        )


def bases_of(where: RowsRef) -> tuple[str, ...]:
    """Return the files of a reference, or its database with all tables and views. Raises PlaceError."""
    if where.query is None:
        return places_of(where)
    return (_database(inside_package(address_of(where.path))),)


def _tables(address: str, query: str) -> tuple[str, ...]:
    """Return `database table` for each table of a query; the database alone if it names none."""
    import sqlglot
    from sqlglot import expressions as sql
    from sqlglot.optimizer.scope import traverse_scope

    statement = sqlglot.parse_one(query, read=DIALECTS.get(re.split(r"[+:]", address)[0]))
    common = {table.alias_or_name.casefold() for table in statement.find_all(sql.CTE)}
    named = {
        table
        for table in statement.find_all(sql.Table)
        if table.db or table.name.casefold() not in common
    }
    # A common table expression may have the name of the table that it reads.
    read = {source for scope in traverse_scope(statement) for source in scope.sources.values()}
    tables = {table.name.casefold() for table in named | read if isinstance(table, sql.Table)}
    return tuple(f"{_database(address)} {table}" for table in sorted(tables or {""}))


def _database(address: str) -> str:
    """Return kind, server and name of a database; of a database in a file its path, links resolved."""
    from sqlalchemy.engine import make_url

    url = make_url(address)
    kind = url.get_backend_name()
    database = str(url.database or "")
    if kind not in ("sqlite", "duckdb"):
        return f"{kind} {url.host or 'localhost'}/{database}"
    if database.startswith("file:"):
        database = unquote(urlsplit(database).path)
    if database[:1] not in ("", ":"):  # a database in memory has no path
        database = str(Path(database).resolve())
    return f"{kind} {database}"
