"""Private, test and public rows: read from files, object stores, databases and hubs, checked, and chosen by seed.

Messages name files, columns, lines and row numbers, never what stands in a row; `check_public` alone may quote labels.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from connectors.interfaces.errors import InputError, NoRowsError
from connectors.interfaces.rows import RowsRef
from connectors.interfaces.text_forms import encodable
from connectors.rows.sources import Columns, open_source, shown

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class RowProblem:
    """One thing that is wrong with one row. `reason` may quote the row's label: private ones stay in private/."""

    row: int
    field: str
    reason: str


def read_rows(where: RowsRef) -> pd.DataFrame:
    """Return the rows of a reference: row (int64, position in the source), text, label, and, where named, attribute,
    person; all strings, missing values as NaN (a missing attribute is an empty one).

    `where.path`: csv, tsv, jsonl, json or parquet file, a folder of them, any fsspec address (s3://...), a SQLAlchemy
    address with `query`, `builtin:name/file` or `hf:dataset:split`. With `where.rows` that many rows are chosen by a
    seeded hash of their content: the choice depends neither on the order of the rows nor on the file's name. Its size
    is fixed, so one row more in the source may push another one out. Raises InputError (MissingPackageError).
    """
    import numpy as np
    import pandas as pd

    source = open_source(where)
    wanted = _wanted(where)
    columns = {name: _texts(where, column, source) for name, column in wanted.items()}
    count = len(columns["text"])
    if count == 0:
        raise NoRowsError(f"{shown(where)} has no rows. Name a file with rows in it.")
    frame = pd.DataFrame({"row": np.arange(count, dtype=np.int64)})
    for name, values in columns.items():
        frame[name] = pd.Series(values, dtype="str")
    if "attribute" in frame:
        frame["attribute"] = frame["attribute"].fillna("")
    frame = _classed(where, frame) if where.classes else frame
    return frame if where.rows is None else _choose(where, frame, where.rows)


def _classed(where: RowsRef, frame: pd.DataFrame) -> pd.DataFrame:
    """Put the class of each row in place of its code: that of the longest beginning; rows of no class are left out."""
    known = [(one, name) for name, beginnings in where.classes for one in beginnings]
    known.sort(key=lambda pair: -len(pair[0]))

    def of(code: object) -> str | None:
        written = code.strip() if isinstance(code, str) else ""
        return next((name for one, name in known if written.startswith(one)), None)

    found = frame.assign(label=frame["label"].map(of).astype("str"))
    kept = found[found["label"].notna()].reset_index(drop=True)
    if kept.empty:
        raise NoRowsError(f"{shown(where)} has no row whose '{where.label}' begins as one of `classes` says.")
    return kept


def _wanted(where: RowsRef) -> dict[str, str]:
    named = {"text": where.text, "label": where.label, "attribute": where.attribute, "person": where.person}
    return {name: column for name, column in named.items() if column}


def _texts(where: RowsRef, column: str, source: Columns) -> list[str | None]:
    if column not in source:
        near = difflib.get_close_matches(column, list(source), n=1, cutoff=0.5)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        exist = ", ".join(f"'{name}'" for name in source) or "none"
        raise InputError(f"{shown(where)} has no column '{column}'. Columns: {exist}.{hint}")
    values = source[column]
    for position, value in enumerate(values):
        if isinstance(value, (bytes, list, dict, tuple, set)) or hasattr(value, "__array__"):
            kind = type(value).__name__
            raise InputError(f"{shown(where)}, row {position}, column '{column}': holds {kind}, not text.")
    return [_text(value) for value in values]


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, (float, Decimal)) and value != value:  # NaN alone differs from itself
        return None
    return str(value)


def _choose(where: RowsRef, frame: pd.DataFrame, rows: int) -> pd.DataFrame:
    if rows < 1:
        raise InputError(f"{shown(where)}: rows must be at least 1, not {rows}.")
    if rows > len(frame):
        # Their number is not told: that of private rows is private.
        raise InputError(f"{shown(where)} has fewer than the {rows} rows asked for. Lower 'rows', or leave it empty.")
    content = frame.drop(columns="row").fillna("\0")
    lines = zip(*(content[name] for name in content.columns), strict=True)
    order = [hashlib.sha256(repr((where.seed, *line)).encode("utf-8", "surrogatepass")).digest() for line in lines]
    chosen = sorted(range(len(frame)), key=lambda i: (order[i], i))[:rows]
    return frame.iloc[sorted(chosen)].reset_index(drop=True)


def find_problems(frame: pd.DataFrame, labels: Sequence[str]) -> list[RowProblem]:
    """Return what is wrong with rows read by `read_rows`, in their order; equal rows are no problem."""
    known = set(labels)
    problems = []
    named = [name for name in ("text", "label", "person") if name in frame]
    for row, *values in zip(frame["row"], *(frame[name] for name in named), strict=True):
        for name, value in zip(named, values, strict=True):
            reason = _reason(name, value, known, labels)
            if reason:
                problems.append(RowProblem(int(row), name, reason))
    return problems


def _reason(name: str, value: Any, known: set[str], labels: Sequence[str]) -> str:
    if not isinstance(value, str):
        return "is null"
    if not value.strip():
        return "is empty"
    if name == "label" and value not in known:
        near = difflib.get_close_matches(value, labels, n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        return f"unknown label '{value}'; known labels: {', '.join(labels)}{hint}"
    return ""


def check_public(where: RowsRef, frame: pd.DataFrame, labels: Sequence[str]) -> None:
    """Raise InputError with the first five problems of test or public rows. Never call it with private rows."""
    problems = find_problems(frame, labels)
    if not problems:
        return
    columns = _wanted(where)
    lines = [f"row {p.row}, column '{columns[p.field]}': {p.reason}" for p in problems[:5]]
    more = f"\n  and {len(problems) - 5} more" if len(problems) > 5 else ""
    raise InputError(
        f"{shown(where)} has {len(problems)} problem(s). Correct the rows or the task's labels:\n  "
        + "\n  ".join(lines)
        + more
    )
