"""Names of the files and tables that a reference reads: two views of one place contain the same people."""

from __future__ import annotations

from pathlib import Path

from connectors.interfaces.rows import RowsRef
from connectors.rows.queries import DIALECTS
from connectors.rows.sources import address_of, display_path, inside_package, list_files


def places_of(where: RowsRef) -> tuple[str, ...]:
    """Return the files (links resolved), tables or hub dataset of a reference, without user and password.

    A view of a database is a table of its own name: its people are recognised by their persons and rows.
    Raises PlaceError.
    """
    address = inside_package(address_of(where.path))
    if where.query is not None:
        return _tables(address, where.query)
    if address.startswith("hf:") and "://" not in address:
        return (address.rpartition(":")[0],)
    system, files, _ = list_files(address, display_path(where))
    local = "file" in system.protocol if isinstance(system.protocol, tuple) else system.protocol == "file"
    return tuple(str(Path(file).resolve()) if local else f"{system.protocol} {file}" for file in files)


def _tables(address: str, query: str) -> tuple[str, ...]:
    """Return `database table` for each table of a query; the database alone if it names none."""
    import sqlglot
    from sqlalchemy.engine import make_url
    from sqlglot import expressions as sql

    url = make_url(address)
    file = url.get_backend_name() in ("sqlite", "duckdb")
    database = str(url.database or "")
    if file and database and not database.startswith((":", "file:")):
        database = str(Path(database).resolve())
    server = "" if file else f"{url.host or 'localhost'}/"
    statement = sqlglot.parse_one(query, read=DIALECTS.get(url.get_backend_name()))
    common = {table.alias_or_name.casefold() for table in statement.find_all(sql.CTE)}
    tables = {table.name.casefold() for table in statement.find_all(sql.Table)} - common
    return tuple(f"{url.get_backend_name()} {server}{database} {table}" for table in sorted(tables or {""}))
