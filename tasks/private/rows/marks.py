"""Marks of private rows: keyed hashes that show the ledger which people two datasets share."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from connectors.interfaces.ledger import Marks
from connectors.interfaces.rows import BUILTIN, PrivateRef, RowsRef
from connectors.interfaces.text_forms import normal_form

if TYPE_CHECKING:
    import pandas as pd


_DECIMALS = re.compile(r"(?<=\d)\.0+$")
"""Decimals of a number that a table with missing values stores as 7.0 instead of 7."""
TELLING = 40
"""Characters from which a text rarely occurs among other people by chance."""


@dataclass(frozen=True, slots=True)
class Marker:
    """Hash functions of marks.

    `mark`: (kind, value) -> keyed hash. `places`: names of the files or tables of a reference.
    """

    mark: Callable[[str, str], str]
    places: Callable[[RowsRef], Sequence[str]]


def marks_of(
    marker: Marker | None, private: PrivateRef, frame: pd.DataFrame, records: Mapping[str, str]
) -> Marks:
    """Return the marks of all rows of a source; public rows have none.

    `frame` has the column `whole`, the text of all columns of a row, if the reader can see them. `records`: the texts
    of the rows by their hash.
    """
    where = private.where
    separate = private.separate
    # Public rows join no group: everybody's experiments use the same ones.
    if where.public or where.path.startswith(BUILTIN):
        return Marks(public=True)
    short = {hash_ for hash_, text in records.items() if len(" ".join(text.split())) < TELLING}
    if marker is None:
        return Marks(short=tuple(sorted(short)), separate=separate)

    def marked(kind: str, *columns: str) -> dict[str, str]:
        values = (value for column in columns for value in frame.get(column, ()))
        # One person is 7 in a table with all values and 7.0 in one with missing values.
        plain = {
            _DECIMALS.sub("", normal_form(value)) for value in values if isinstance(value, str)
        } - {""}
        return {marker.mark(kind, value): value for value in plain}

    rows = marked("row", "whole")
    short |= {hash_ for hash_, value in rows.items() if len(value) < TELLING}
    return Marks(
        places=tuple(sorted(marker.mark("place", address) for address in marker.places(where))),
        # The ledgers of earlier versions have marks of persons as stored.
        persons=tuple(sorted(marked("person", "person", "stored person"))),
        rows=tuple(sorted(rows)),
        short=tuple(sorted(short)),
        separate=separate,
    )
