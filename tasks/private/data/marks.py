"""Marks of private rows: keyed hashes that show the ledger which people two datasets share."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from connectors.interfaces.ledger import Marks
from connectors.interfaces.rows import BUILTIN, PrivateRef, RowsRef
from connectors.interfaces.text_forms import normal_form
from tasks.private.data.near_copies import sketch

if TYPE_CHECKING:
    import pandas as pd


_DECIMALS = re.compile(r"(?<=\d)\.0+$")
"""Decimals of a number that a table with missing values stores as 7.0 instead of 7."""


@dataclass(frozen=True, slots=True)
class Marker:
    """Hash functions of marks.

    `mark`: (kind, value) -> keyed hash. `places`: names of the files or tables of a reference. `sketch_key`: key of the
    sketches of near copies, which have at most `sketch_size` hashes.
    """

    mark: Callable[[str, str], str]
    places: Callable[[RowsRef], Sequence[str]]
    sketch_key: bytes
    sketch_size: int


def marks_of(marker: Marker | None, private: PrivateRef, frame: pd.DataFrame) -> Marks:
    """Return the marks of all rows of a source; public rows have none.

    `frame` has the column `whole`, the text of all columns of a row, if the reader can see them.
    """
    where, separate = private.where, private.separate
    if where.public or where.path.startswith(BUILTIN):
        return Marks(public=True)
    if marker is None:
        return Marks(separate=separate)

    def hashes(kind: str, column: str) -> tuple[str, ...]:
        values = frame.get(column, ())
        plain = {_DECIMALS.sub("", normal_form(value)) for value in values if isinstance(value, str)} - {""}
        return tuple(sorted(marker.mark(kind, value) for value in plain))

    texts = [text for text in frame["text"] if isinstance(text, str) and text.strip()]
    return Marks(
        places=tuple(sorted(marker.mark("place", address) for address in marker.places(where))),
        persons=hashes("person", "person"),
        rows=hashes("row", "whole"),
        near=sketch(texts, marker.sketch_key, marker.sketch_size),
        separate=separate,
    )
