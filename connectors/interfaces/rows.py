"""References to rows of a table, and the reader that opens them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from connectors.interfaces.addresses import PublicFile

if TYPE_CHECKING:
    import pandas as pd


BUILTIN = "builtin:"
"""Prefix of rows that come with the package. They are fictitious."""

OTHERS = "*"
"""Stands in `classes` for all codes that begin with no listed prefix."""

NO_CLASS = "all"
"""Label of every row of a source without classes, and the only class of a task without labels."""

MIN_RATIO = 2
"""Least ratio of the largest to the smallest class of an unbalanced draw."""
ALPHAS = (0.01, 10.0)
"""Smallest and largest Dirichlet parameter of an unbalanced draw."""


@dataclass(frozen=True, slots=True)
class RowsRef:
    """The location of rows: file, URL or SQL, and the columns. Contains no row.

    `label`: empty for rows without classes, which all get NO_CLASS. `rows`: number of rows to take (None: all), chosen
    by `seed`. `of`: declared size of the source; each row is then drawn independently with probability rows/of.
    `public`: the rows are public; exactly `rows` are drawn, stratified by class, or unbalanced, with proportions from
    Dirichlet(`class_alpha`). `person`: column with the person of each row.
    `classes`: (class, label prefixes) if the column contains codes, OTHERS for all further codes; a row without a class
    is left out. `names`: classes of the task; a label of the same canonical form is read as that name. `plain_text`:
    texts are lower-cased and lose their punctuation. `whole`: the reader adds a column
    `whole` with all columns of the source. `lenient`: read a line or cell that is invalid as missing
    text, because an error would reveal a private row, and bytes that are not UTF-8 as Windows-1252. `for_owner`: as
    lenient for cells, but refuse an invalid line, and add each other column NAME as `other NAME`; with `any_bytes`,
    bytes that are not UTF-8 are Windows-1252. With `lenient` or `for_owner`, label and person are also returned as
    stored: `stored label`, `stored person`.
    """

    path: PublicFile
    text: str = "text"
    label: str = "label"
    person: str | None = None
    rows: int | None = None
    seed: int = 0
    of: int | None = None
    query: str | None = None
    classes: tuple[tuple[str, tuple[str, ...]], ...] = ()
    names: tuple[str, ...] = ()
    public: bool = False
    class_alpha: float | None = None
    plain_text: bool = False
    whole: bool = False
    for_owner: bool = False
    any_bytes: bool = False
    lenient: bool = False

    @property
    def all_columns(self) -> bool:
        """True if the reader needs all columns of the source."""
        return self.whole or self.for_owner

    @property
    def any_cells(self) -> bool:
        """True if a cell that is invalid is read as missing text."""
        return self.lenient or self.for_owner

    @property
    def choice(self) -> list[object]:
        """The parameters of the row selection and of its texts, for the keys of steps."""
        choice: list[object] = [self.rows, self.of, self.seed]
        if self.public:
            choice.append("public")
        if self.public and self.class_alpha is not None:
            choice += [self.class_alpha, MIN_RATIO]
        if self.plain_text:
            choice.append("plain_text")
        return choice

    @property
    def lets_rows_in(self) -> bool:
        """True if removing a private row would add another one."""
        return self.rows is not None and self.of is None and not self.public


@dataclass(frozen=True, slots=True)
class TermsRef:
    """The location of a public vocabulary, and the selection of its terms.

    `term`: column of the terms; `rank`: column of their rank, starting at 1; empty: file order. Excluded are the first
    `skip` terms, terms shorter than `shortest` letters, and common English words in any spelling.
    """

    path: PublicFile
    term: str = "term"
    rank: str = "rank"
    skip: int = 0
    shortest: int = 1


@dataclass(frozen=True, slots=True)
class PrivateRef:
    """The private dataset of a run: name and location.

    Only tasks/private opens it. Its repr does not contain the location. `separate`: the owner declares that other
    datasets of the same place, or with the same values of `person`, contain other people.
    """

    name: str
    where: RowsRef = field(repr=False)
    separate: bool = False


RowReader = Callable[[RowsRef], "pd.DataFrame"]
"""Opens a reference. Columns: row (int64, 0-based position in the source), text, label and, if the reference names
it, person; all strings, label and person in their canonical form. Raises InputError for a missing file or column and
an unreadable source."""


@dataclass(frozen=True, slots=True)
class Header:
    """The column names of a source.

    `is_schema`: they are certainly no data row, unlike the first line of a file.
    """

    columns: tuple[str, ...]
    is_schema: bool


HeaderReader = Callable[[RowsRef], "Header | None"]
"""None: the columns of this source are known only from its rows."""
