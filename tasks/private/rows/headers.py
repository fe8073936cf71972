"""Check the columns of a row source against the configuration before reading rows."""

from connectors.interfaces.errors import InputError, PlaceError, ProblemsError, nearest
from connectors.interfaces.redaction import redact
from connectors.interfaces.rows import Header, HeaderReader, RowsRef

COLUMNS = ("text", "label", "person")
"""Fields of a configuration that name a column."""


def check_header(field: str, where: RowsRef, read: HeaderReader, is_public: bool) -> None:
    """Refuse a source that is unreachable or lacks a column named under `field`, or has it twice.

    A first line that may be a private row is not quoted, unless `is_public`: the rows are public, or only their owner
    sees the message. Raises PlaceError or InputError, and ProblemsError for several missing or duplicate columns.
    """
    try:
        header = read(where)
    except PlaceError as error:
        raise PlaceError(f"{field}.path: {error}") from None
    if header is None:
        return
    named = {name: getattr(where, name) for name in COLUMNS}
    missing = {
        name: column for name, column in named.items() if column and column not in header.columns
    }
    problems = [
        _describe(f"{field}.{name}", column, where, header, is_public)
        for name, column in missing.items()
    ]
    problems += _duplicates(field, where, header)
    if len(problems) == 1:
        raise InputError(problems[0])
    if problems:
        raise ProblemsError(problems)


def _describe(field: str, column: str, where: RowsRef, header: Header, is_public: bool) -> str:
    start = f"{field}: {redact(where.path)} has no column '{column}'"
    if is_public or header.is_schema:
        listed = ", ".join(f"'{name}'" for name in header.columns) or "none"
        return (
            f"{start}. Columns: {listed}.{nearest(column, header.columns, 0.5)} Name one of them."
        )
    # The first line may be a row. A name of it is quoted only if it is the configured one but for case and blanks.
    same = [name for name in header.columns if _plain(name) == _plain(column)]
    hint = nearest(column, same, 0.0)
    return f"{start} in its first line.{hint} Write the name as the first line has it; a file needs a header."


def _duplicates(field: str, where: RowsRef, header: Header) -> list[str]:
    """Return a problem for each named column that the source has several times; other columns are not read."""
    problems = []
    for name in COLUMNS:
        column = getattr(where, name)
        numbers = [
            str(number) for number, other in enumerate(header.columns, start=1) if other == column
        ]
        if column and len(numbers) > 1:
            listed = " and ".join(numbers)
            problems.append(
                f"{field}.{name}: {redact(where.path)} has one name '{column}' for columns {listed}. Rename one."
            )
    return problems


def _plain(name: str) -> str:
    return name.strip().casefold()
