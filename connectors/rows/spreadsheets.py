"""Rows of Excel files, by pandas and openpyxl (extra `data`). Errors never quote a cell."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

from connectors.interfaces.errors import InputError, MissingPackageError

PACKAGE: Final = "openpyxl"
EXTRA: Final = "data"

Cells = Sequence[object]
"""Values of a row: text, number, date or True/False; None for an empty cell."""


def require_reader(name: str) -> None:
    """Raise MissingPackageError, which also names the way without a package, if Excel files cannot be read."""
    if find_spec(PACKAGE) is None:
        error = MissingPackageError(PACKAGE, EXTRA)
        error.args = (f"{name}: {error} Or save the sheet as CSV (UTF-8)",)
        raise error


def read_sheet(data: bytes, name: str) -> list[Cells]:
    """Return the rows of the only sheet that has some, header first, without blank rows.

    Raises:
        InputError: not an Excel file, protected by a password, or several sheets have rows.
        MissingPackageError: openpyxl is not installed.
    """
    require_reader(name)
    import pandas as pd

    try:
        # openpyxl warns about parts of a file that no cell needs, such as colours of a rule.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Values as stored: pandas would read an empty cell, or one with "NA", as a number.
            sheets = pd.read_excel(
                io.BytesIO(data),
                sheet_name=None,
                header=None,
                dtype=object,
                na_filter=False,
                engine=PACKAGE,
            )
    # The readers of a file format from outside have no common error.
    except Exception:  # noqa: BLE001
        sheets = None
    # Raised outside the block: the error of a reader may quote a cell.
    if sheets is None:
        raise InputError(
            f"{name} is not a readable Excel file: it is damaged, protected by a password, or has another format. "
            "Save the sheet as CSV (UTF-8)."
        )
    filled = [
        rows for frame in sheets.values() if (rows := _filled_rows(frame.to_numpy().tolist()))
    ]
    if len(filled) > 1:
        raise InputError(
            f"{name}: {len(filled)} sheets have rows. Save the sheet with the records as a separate file."
        )
    return next(iter(filled), [])


def _filled_rows(rows: Sequence[Sequence[object]]) -> list[Cells]:
    cells = [[_cell(value) for value in row] for row in rows]
    return [row for row in cells if any(value is not None for value in row)]


def _cell(value: object) -> object:
    # A cell of blanks is an empty one. An error of a formula, such as #N/A, is NaN, which only differs from itself.
    if value is None or value != value or (isinstance(value, str) and not value.strip()):
        return None
    return value
