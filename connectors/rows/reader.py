"""Private, test and public rows: read, checked and sampled by seed.

Sources are files, object stores and databases. Messages contain file and column names, lines and row numbers,
never row content. Only `check_public` may quote labels.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

from connectors.interfaces.errors import InputError, NoRowsError, nearest
from connectors.interfaces.rows import NO_CLASS, OTHERS, RowsRef
from connectors.interfaces.text_forms import cell_form, encodable, label_form, plain_text
from connectors.rows.cells import Columns
from connectors.rows.other_forms import advice_on, describe_value
from connectors.rows.sources import column_names, display_path, open_source

if TYPE_CHECKING:
    import pandas as pd


def read_rows(where: RowsRef) -> pd.DataFrame:
    """Return the rows of a reference as a frame.

    Columns: row (int64, position in the source), text, label and, if the reference names it, person;
    with `where.whole` also all values of the source's row, sorted, as one text, with `where.for_owner` all columns.
    All but row are strings, missing values are NaN. Labels and persons have their canonical form (`cell_form`), or the
    name of `where.names` with that form; texts are as stored.

    `where.path`: csv, tsv, jsonl, json or parquet file, a folder of them, any fsspec address (s3://...), a SQLAlchemy
    address with `query`, or `builtin:name/file`. With `where.rows`, that many rows are chosen by a
    seeded hash of their content, so the choice is independent of row order and file name. The number is fixed, so an
    additional row in the source can replace another one. Raises InputError (MissingPackageError).
    """
    import numpy as np
    import pandas as pd

    source = open_source(where)
    names = column_names(where)
    columns = {name: _texts(where, column, source) for name, column in names.items()}
    count = len(columns["text"])
    if count == 0:
        raise NoRowsError(f"{display_path(where)} has no rows. Use a file with rows.")
    frame = pd.DataFrame({"row": np.arange(count, dtype=np.int64)})
    for name, values in columns.items():
        frame[name] = pd.Series(values, dtype="str")
    if not where.label:
        frame["label"] = pd.Series(NO_CLASS, index=frame.index, dtype="str")
    if where.plain_text:
        frame["text"] = frame["text"].map(plain_text, na_action="ignore")
    for name in source:
        if where.for_owner and name not in names.values():
            frame[f"other {name}"] = pd.Series(map(_text, source[name]), dtype="str")
    if where.whole:
        # Columns of a Parquet file that were not read have no values.
        cells = (values for values in source.values() if len(values) == count)
        frame["whole"] = pd.Series(
            ["\x1f".join(_cells(row)) for row in zip(*cells, strict=True)], dtype="str"
        )
    if where.classes:
        frame = _assign_classes(where, frame)
    # Chosen by the cells as stored: earlier versions chose by them, and a stored run must get its rows again.
    if where.rows is not None:
        frame = _choose(where, frame, where.rows)
    return _in_canonical_form(where, frame)


def _in_canonical_form(where: RowsRef, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with labels and persons in their canonical form, and as stored if cells are private."""
    forms: dict[str, Callable[[str], str]] = {"label": namer(where.names), "person": cell_form}
    for column, form in forms.items():
        if column in frame:
            stored = frame[column]
            of = {value: form(value) for value in stored.dropna().unique()}
            frame[column] = stored.map(of).astype("str")
            if where.any_cells:
                frame[f"stored {column}"] = stored
    return frame


def namer(names: Sequence[str]) -> Callable[[str], str]:
    """Return a function of a label: the name with its canonical form, else that form.

    A name that is written as the label goes first: a task with the classes 1.1 and 1.10 can tell them apart.
    """
    by_form: dict[str, str] = {}
    for name in names:
        by_form.setdefault(cell_form(name), name)
    written = {label_form(name): name for name in names}

    def name_of(label: str) -> str:
        form = cell_form(label)
        return written.get(label_form(label)) or by_form.get(form, form)

    return name_of


def _assign_classes(where: RowsRef, frame: pd.DataFrame) -> pd.DataFrame:
    """Replace each row's code by its class (longest prefix wins, then OTHERS); drop other rows."""
    normal = partial(unicodedata.normalize, "NFC")
    prefixes = [
        (normal(prefix), name)
        for name, prefixes_of_class in where.classes
        for prefix in prefixes_of_class
    ]
    others = next((name for prefix, name in prefixes if prefix == OTHERS), None)
    prefixes = sorted(
        (pair for pair in prefixes if pair[0] != OTHERS), key=lambda pair: -len(pair[0])
    )

    def of(code: object) -> str | None:
        plain = ""
        if isinstance(code, str):
            plain = label_form(code)  # a code is no number: 250.10 is not 250.1
        for prefix, name in prefixes:
            if plain.startswith(prefix):
                return name
        if not plain:
            return None
        return others

    classed = frame.assign(label=frame["label"].map(of).astype("str"))
    selected = classed[classed["label"].notna()].reset_index(drop=True)
    if selected.empty:
        raise NoRowsError(
            f"{display_path(where)} has no row whose '{where.label}' starts with a prefix of `classes`."
        )
    return selected


def _texts(where: RowsRef, column: str, source: Columns) -> list[str | None]:
    if column not in source:
        exist = ", ".join(f"'{name}'" for name in source) or "none"
        raise InputError(
            f"{display_path(where)} has no column '{column}'. Columns: {exist}.{nearest(column, source, 0.5)}"
        )
    values = source[column]
    if not where.lenient:
        _refuse_containers(where, column, values)
    return [_text(value) for value in values]


def _refuse_containers(where: RowsRef, column: str, values: Sequence[object]) -> None:
    """Raise InputError for a column of objects or lists; for the owner, who sees what is left out, only if all are."""
    containers = [
        (position, value) for position, value in enumerate(values) if _is_container(value)
    ]
    has_others = len(containers) < sum(value is not None for value in values)
    if containers and not (where.for_owner and has_others):
        position, value = containers[0]
        raise InputError(
            f"{display_path(where)}, row {position}, column '{column}': contains {describe_value(value)}, not text. "
            f"{advice_on(column == where.label)}"
        )


def _cells(row: Sequence[object]) -> list[str]:
    """Return the values of a row as sorted texts: the same row under other column names has the same ones."""
    return sorted(text for text in map(_text, row) if text is not None)


def _is_container(value: object) -> bool:
    return isinstance(value, (bytes, list, dict, tuple, set)) or hasattr(value, "__array__")


def _text(value: object) -> str | None:
    if value is None or _is_container(value):
        return None
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, (float, Decimal)) and value != value:  # only NaN differs from itself
        return None
    return str(value)


def _choose(where: RowsRef, frame: pd.DataFrame, rows: int) -> pd.DataFrame:
    if rows > len(frame):
        # The error omits the number of rows: for private rows it is private.
        raise InputError(
            f"{display_path(where)} has fewer than the {rows} requested rows. Lower 'rows', or remove it."
        )
    content = frame.drop(columns="row").fillna("\0")
    lines = zip(*(content[name] for name in content.columns), strict=True)
    # By content: the same rows are chosen from a copy in another order, under another name or in another format.
    order = [
        hashlib.sha256(repr((where.seed, *line)).encode("utf-8", "surrogatepass")).digest()
        for line in lines
    ]
    positions = sorted(range(len(frame)), key=lambda i: (order[i], i))[:rows]
    return frame.iloc[sorted(positions)].reset_index(drop=True)


def check_public(where: RowsRef, frame: pd.DataFrame, labels: Sequence[str]) -> None:
    """Raise InputError with the first five problems of test or public rows; duplicates are allowed.

    Never call it with private rows.
    """
    named = column_names(where)
    columns = {
        name: named[name] for name in ("text", "label", "person") if name in named and name in frame
    }
    problems = [
        f"row {row}, column '{column}': {reason}"
        for row, *values in zip(frame["row"], *(frame[name] for name in columns), strict=True)
        for (name, column), value in zip(columns.items(), values, strict=True)
        if (reason := _reason(name, value, labels))
    ]
    if problems:
        shown = problems[:5]
        if len(problems) > 5:
            shown.append(f"and {len(problems) - 5} more")
        raise InputError(
            f"{display_path(where)} has {len(problems)} problem(s). Correct the rows or the task's labels:\n  "
            + "\n  ".join(shown)
        )


def _reason(name: str, value: object, labels: Sequence[str]) -> str:
    if not isinstance(value, str):
        return "is null"
    if not value.strip():
        return "is empty"
    if name == "label" and value not in labels:
        return (
            f"unknown label '{value}'; known labels: {', '.join(labels)}.{nearest(value, labels)}"
        )
    return ""
