"""References to rows of a table, and the reader that opens them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class RowsRef:
    """Where rows lie: file, URL or SQL, and the columns to take. A reference only; holds no row.

    `rows`: how many to take (None: all), chosen by `seed`. `of`: declared size of the source; each row is then taken by
    a draw of its own, with chance rows/of. `public`: the rows are public; exactly `rows` are drawn, each class in its
    proportion. `person`: column that says whose row it is. `classes`: (class, beginnings of labels that are of it)
    where the column holds codes; a row of no class is left out.
    """

    path: str
    text: str = "text"
    label: str = "label"
    attribute: str | None = None
    person: str | None = None
    rows: int | None = None
    seed: int = 0
    of: int | None = None
    query: str | None = None
    classes: tuple[tuple[str, tuple[str, ...]], ...] = ()
    public: bool = False

    @property
    def choice(self) -> list[object]:
        """What decides which rows are taken, for the keys of steps."""
        return [self.rows, self.of, self.seed, *(["public"] if self.public else [])]

    @property
    def lets_rows_in(self) -> bool:
        """Whether removing a private row would let another one in."""
        return self.rows is not None and self.of is None and not self.public


@dataclass(frozen=True, slots=True)
class TermsRef:
    """Where a public vocabulary lies, and what of it counts.

    `term`: column of the terms; `rank`: column of their rank, 1 first; empty: the order of the file. The first `skip`
    terms, those shorter than `shortest` letters and, with `stop_words`, common English words never count, however they
    are written; of the others the first `most`.
    """

    path: str
    term: str = "term"
    rank: str = "rank"
    skip: int = 0
    shortest: int = 1
    stop_words: bool = True
    most: int | None = None


@dataclass(frozen=True, slots=True)
class PrivateRef:
    """The private dataset of a run by name and place; opened in tasks/private alone. Never prints its place."""

    name: str
    where: RowsRef = field(repr=False)


RowReader = Callable[[RowsRef], "pd.DataFrame"]
"""Opens a reference. Columns: row (int64, 0-based position in the source), text, label, and, where the reference
names them, attribute and person; all strings. Raises InputError for a missing file, column or an unreadable source."""


@dataclass(frozen=True, slots=True)
class Header:
    """Columns that a source names apart from its rows. `is_schema`: surely not a row, as a first line may be."""

    columns: tuple[str, ...]
    is_schema: bool


HeaderReader = Callable[[RowsRef], "Header | None"]
"""None: the columns of this source are known only from its rows."""
