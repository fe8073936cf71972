"""Rows in preparation: their types, an order that a seed decides, and the digest of their contents."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence

Cell = str | int | float | None
Row = dict[str, Cell]
Rows = list[Row]


def aligned(rows: Sequence[Row]) -> Rows:
    """Return rows that all have all columns; a cell that a row has not is None."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [{name: row.get(name) for name in names} for row in rows]


def order_of(seed: int, values: Sequence[Cell]) -> bytes:
    """Return the sort key of values in an order that depends on the seed.

    A hash and no random generator: another version of a library would draw another order.
    """
    text = json.dumps([seed, *values], ensure_ascii=False)
    # A text may contain half of a surrogate pair, which UTF-8 cannot encode.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def ordered(rows: Iterable[Row], seed: int) -> Rows:
    """Return rows in the order of a seed, whatever order they have."""
    return sorted(rows, key=lambda row: order_of(seed, [row[name] for name in sorted(row)]))


def digest_of(rows: Iterable[Mapping[str, Cell]], columns: Sequence[str]) -> str:
    """Return the SHA-256 of the names of the columns and of the sorted rows.

    It depends on neither the order of rows and columns nor the file format, whose bytes vary with the writer.
    """
    names = sorted(columns)
    lines = sorted(
        json.dumps([_canonical(row[name]) for name in names], ensure_ascii=False) for row in rows
    )
    text = "\n".join([json.dumps(names, ensure_ascii=False), *lines])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _canonical(value: Cell) -> Cell:
    # Some readers return the integers of a column with missing cells as floats.
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
