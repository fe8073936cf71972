"""Checks that the SQL query of a configuration reads rows and does nothing else.

The check runs before a database is opened. `connectors.rows.databases` opens it read-only as well, because a parser
cannot know what a function of the database does.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

_COMMENT = r"--[^\n]*\n|/\*(?:[^*]|\*(?!/))*\*/"
READING = rf"^(?:\s|\(|{_COMMENT})*(?:[Ss][Ee][Ll][Ee][Cc][Tt]|[Ww][Ii][Tt][Hh])\b[^;]*;?\s*$"
"""The form of a query that the Prefect server checks; `check_query` also parses it.

A semicolon is allowed at the end only, also inside texts: where a text ends is up to the lexer of each database.
"""
DIALECTS = {
    "sqlite": "sqlite",
    "postgresql": "postgres",
    "mysql": "mysql",
    "mariadb": "mysql",
    "oracle": "oracle",
    "mssql": "tsql",
    "duckdb": "duckdb",
    "snowflake": "snowflake",
    "bigquery": "bigquery",
    "clickhouse": "clickhouse",
    "redshift": "redshift",
    "trino": "trino",
}
"""SQLAlchemy's name of a database -> the parser's name of its language."""
_UNKNOWN = ("", "postgres", "sqlite", "mysql", "tsql", "oracle")
"""Languages that are tried while the address is not known yet (`env:NAME`)."""


def check_query(query: str, address: str) -> None:
    """Raise ValueError unless the query is exactly one SELECT, or one WITH that ends in a SELECT.

    Args:
        query: the SQL text.
        address: the SQLAlchemy address, which decides the language; with `env:NAME` any known language will do.
    """
    if re.match(READING, query) is None:
        raise ValueError(
            "a query is one statement that begins with SELECT or WITH, and a semicolon stands at its end only. "
            "For anything else make a view in the database and select from it"
        )
    if re.search(r"/\*M?!", query):
        raise ValueError("MySQL executes what is inside /*! */; leave that comment out")
    kind = re.split(r"[+:]", address)[0]
    languages = _UNKNOWN if address.startswith("env:") else (DIALECTS.get(kind, ""),)
    problems = [_problem(query, language) for language in languages]
    if all(problems):
        raise ValueError(problems[0])


def _problem(query: str, language: str) -> str:
    """Return why a query is refused in one language; empty if it only reads."""
    import sqlglot
    from sqlglot import expressions as sql
    from sqlglot.errors import SqlglotError

    try:
        statements = [one for one in sqlglot.parse(query, read=language or None) if one is not None]
    except (SqlglotError, RecursionError):
        return f"cannot be read as {language or 'SQL'}; correct it, or make a view in the database and select from that"
    statements = [one for one in statements if not isinstance(one, sql.Semicolon)]
    if len(statements) != 1 or not isinstance(statements[0], sql.Query):
        return "write exactly one SELECT, or one WITH that ends in a SELECT"
    writing = _writing_part(statements[0])
    return (
        f"the query contains {writing}, which changes the database; write a SELECT that only reads" if writing else ""
    )


def _writing_part(statement: Expr) -> str:
    """Return the name of the first part that writes or locks rows; empty if there is none."""
    from sqlglot import expressions as sql

    writing = (sql.DML, sql.DDL, sql.Drop, sql.Alter, sql.TruncateTable, sql.Command, sql.Into, sql.Lock)
    for node in statement.walk():
        if isinstance(node, writing) and not isinstance(node, sql.Query):
            return str(node.key).upper()
    return ""
