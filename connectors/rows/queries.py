"""Check that the SQL query of a configuration only reads rows.

The check runs before a database is opened. `connectors.rows.databases` also opens it read-only, because a parser does
not know the effects of the database's functions.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

_COMMENT = r"--[^\n]*\n|/\*(?:[^*]|\*(?!/))*\*/"
READING = rf"^(?:\s|\(|{_COMMENT})*(?:[Ss][Ee][Ll][Ee][Cc][Tt]|[Ww][Ii][Tt][Hh])\b[^;]*;?\s*$"
"""The form of a query that the Prefect server checks; `check_query` also parses it.

A semicolon is allowed only at the end, even within string literals: each database has its own lexer.
"""
DIALECTS = {
    "sqlite": "sqlite",
    "postgresql": "postgres",
    "mysql": "mysql",
    "mariadb": "mysql",
    "oracle": "oracle",
    "mssql": "tsql",
    "duckdb": "duckdb",
}
"""SQLAlchemy's name of a database -> the parser's name of its SQL dialect."""


def check_query(query: str, address: str) -> None:
    """Raise ValueError unless the query is exactly one SELECT, or one WITH ... SELECT.

    Args:
        query: the SQL text.
        address: the SQLAlchemy address, which determines the dialect; a query for `env:NAME` is parsed when it is read.
    """
    if re.match(READING, query) is None:
        raise ValueError(
            "a query must be one statement that starts with SELECT or WITH, with a semicolon only at its end. "
            "For anything else create a view in the database and select from it"
        )
    if re.search(r"/\*M?!", query):
        raise ValueError("MySQL executes the content of /*! */. Remove that comment")
    kind = re.split(r"[+:]", address)[0]
    if kind == "env":
        return
    if problem := _problem(query, DIALECTS.get(kind, "")):
        raise ValueError(problem)


def _problem(query: str, dialect: str) -> str:
    """Return why a query is refused in a dialect, '' if it only reads."""
    import sqlglot
    from sqlglot import expressions as sql
    from sqlglot.errors import SqlglotError

    try:
        statements = [
            statement
            for statement in sqlglot.parse(query, read=dialect or None)
            if statement is not None
        ]
    except (SqlglotError, RecursionError):
        return f"not valid {dialect or 'SQL'}. Correct it, or create a view in the database and select from it"
    statements = [statement for statement in statements if not isinstance(statement, sql.Semicolon)]
    if len(statements) != 1 or not isinstance(statements[0], sql.Query):
        return "the query must be exactly one SELECT, or one WITH that ends in a SELECT"
    if writing := _writing_part(statements[0]):
        return f"the query contains {writing}, which changes the database. Use a SELECT that only reads"
    return ""


def _writing_part(statement: Expr) -> str:
    """Return the name of the first part that writes or locks rows, '' if none."""
    from sqlglot import expressions as sql

    writing = (
        sql.DML,
        sql.DDL,
        sql.Drop,
        sql.Alter,
        sql.TruncateTable,
        sql.Command,
        sql.Into,
        sql.Lock,
    )
    # At any depth: PostgreSQL executes an UPDATE within WITH.
    for node in statement.walk():
        if isinstance(node, writing) and not isinstance(node, sql.Query):
            return str(node.key).upper()
    return ""
