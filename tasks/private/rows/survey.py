"""Describes private records to their owner, who sets up a run: classes, number, language.

Computed without noise, and shown to the owner alone. Of it only what the owner confirms becomes public: the names of
the classes, and a rounded number of records.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd

from connectors.interfaces.errors import EncodingError, InputError
from connectors.interfaces.redaction import redact
from connectors.interfaces.rows import RowsRef
from connectors.interfaces.text_forms import label_form
from tasks.private.rows.near_copies import letters_of, nearly_repeats
from tasks.private.rows.quarantine import sealed, write_table_for_owner
from tasks.private.rows.rows import PrivateZone, count_problems, position, stored, usable_rows
from tasks.writing.forms import PROSE, likely_form, median_words, stated_words
from tasks.writing.language_check import likely_language

READ_TEXTS = 500
MEASURED_TEXTS = 2000
"""Texts whose length is compared with the encoder's limit: the share is then known within about two percent."""
NEAR_A_TEST_ROW = "nearly repeats a test row"
MAX_ROWS_OF_A_PERSON = 20
"""Rows per value up to which a column may identify persons; classes, wards and dates have more."""


@dataclass(frozen=True, slots=True)
class Survey:
    """A description for the owner; its repr shows no number.

    Attributes:
        rows: number of records with a text, a label and, if there is such a column, a person.
        classes: records by label.
        language: most likely language (ISO 639-1).
        persons: number of persons; None without a person column.
        left_out: rows that a run leaves out, by reason.
        noticed: rows with another problem, by reason.
        not_utf8: place of the first line that is not UTF-8; empty if there is none.
        repeated: number of values of other columns that may identify persons.
        spellings: of each class that several labels are read as, these labels as stored.
        cut: share of the records of which the encoder reads only the beginning.
        form: most likely form of the texts.
        words: length to declare for prompts, rounded; None where they need none.
    """

    rows: int = field(repr=False)
    classes: dict[str, int] = field(repr=False)
    language: str
    persons: int | None = field(default=None, repr=False)
    left_out: dict[str, int] = field(default_factory=dict, repr=False)
    noticed: dict[str, int] = field(default_factory=dict, repr=False)
    not_utf8: str = ""
    repeated: dict[str, int] = field(default_factory=dict, repr=False)
    spellings: dict[str, list[str]] = field(default_factory=dict, repr=False)
    cut: float = field(default=0.0, repr=False)
    form: str = PROSE
    words: int | None = field(default=None, repr=False)

    @property
    def declared_rows(self) -> int:
        """Number of persons, else of records, to declare: rounded down to one significant digit, at least 1."""
        number = self.rows
        # A person is what the noise protects where there is such a column; a person's rows count once.
        if self.persons is not None:
            number = self.persons
        scale = 1
        if number:
            scale = 10 ** int(math.log10(number))
        return max(1, number // scale * scale)


IsCut = Callable[[Sequence[str]], Sequence[bool]]
"""Returns which texts are longer than the encoder reads."""


def survey(zone: PrivateZone, where: RowsRef, is_cut: IsCut) -> Survey:
    """Read all records once and describe them, for their owner only.

    Unlike a run, this refuses a malformed line: its owner can correct it before any budget is spent.
    Raises InputError for an unreadable source, a malformed line or a missing column, and if no record can be used.
    """
    with sealed(zone.folder):
        return _describe(*_read(zone, where), where, is_cut)


def split(
    zone: PrivateZone,
    where: RowsRef,
    share: float,
    labels: Sequence[str],
    files: tuple[Path, Path],
    is_cut: IsCut,
) -> Survey:
    """Write private and test rows to two files with mode 0600; return the description of the private rows.

    A hash of the person, else of the letters of the text, decides on which side a row is: all rows of a person, or of a
    text, are on one side, and the order of the source does not matter. Test rows have one of `labels`; other rows of
    their side are in neither file, nor are records that nearly repeat a test row. So the file that a record enters
    depends on this record and on test rows, never on another private record.
    """
    with sealed(zone.folder):
        table, not_utf8 = _read(zone, where)
        own = table["text"].map(letters_of, na_action="ignore")
        if "person" in table:
            own = table["person"]
        is_test = own.fillna("").map(lambda value: position(value) < share)
        test = table[is_test & usable_rows(table) & table["label"].isin(labels)]
        if test.empty:
            raise InputError(
                f"--test-share: {share:g} of the rows leaves no test row. Write a larger share."
            )
        private = table[~is_test]
        copies = usable_rows(private)
        copies[copies] = nearly_repeats(private["text"][copies].tolist(), test["text"].tolist())
        private = private[~copies]
        if private.empty:
            raise InputError(
                f"--test-share: {share:g} of the rows leaves no private row, because each nearly repeats a test row. "
                "Write a smaller share, or test rows of another source into the configuration."
            )
        columns = [name for name in ("text", "label", "person") if name in table]
        for path, rows in zip(files, (private, test), strict=True):
            write_table_for_owner(path, rows[columns])
        described = _describe(private, not_utf8, where, is_cut)
    if copies.any():
        reasons = described.left_out | {NEAR_A_TEST_ROW: int(copies.sum())}
        described = replace(described, left_out=reasons)
    return described


def _describe(table: pd.DataFrame, not_utf8: str, where: RowsRef, is_cut: IsCut) -> Survey:
    usable = usable_rows(table)
    left_out, noticed = count_problems(table, usable)
    records = table[usable]
    if records.empty:
        reasons = ", ".join(f"{reason} ({count})" for reason, count in left_out.items())
        raise InputError(
            f"{redact(where.path)}: none of the {len(table)} rows can be used: {reasons}. Check the names of the "
            "columns, or correct the rows."
        )
    # Every n-th record: the order of a source may follow the class or the length of its texts.
    every = list(records["text"].iloc[:: math.ceil(len(records) / MEASURED_TEXTS)])
    cut = is_cut(every)
    form = likely_form(every)
    return Survey(
        rows=len(records),
        classes=dict(Counter(records["label"]).most_common()),
        language=likely_language(records["text"].head(READ_TEXTS).tolist()),
        persons=records["person"].nunique() if "person" in records else None,
        left_out=left_out,
        noticed=noticed,
        not_utf8=not_utf8,
        repeated=_repeated(records),
        spellings=_spellings(records),
        cut=sum(cut) / len(cut),
        form=form,
        words=stated_words(form, median_words(every)),
    )


def _spellings(records: pd.DataFrame) -> dict[str, list[str]]:
    """Return the different spellings of each label, such as 1.1 and 1.10, without those of blanks and Unicode."""
    written: dict[str, set[str]] = {}
    for label, spelling in zip(records["label"], stored(records, "label"), strict=True):
        written.setdefault(label, set()).add(label_form(spelling))
    return {label: sorted(spellings) for label, spellings in written.items() if len(spellings) > 1}


def _read(zone: PrivateZone, where: RowsRef) -> tuple[pd.DataFrame, str]:
    """Return all rows, and the place of the first line that is not UTF-8."""
    where = replace(where, for_owner=True)
    # Read a second time with replaced bytes, as a run reads them: the owner sees the place and the other problems.
    try:
        return zone.read(where), ""
    except EncodingError as error:
        return zone.read(replace(where, any_bytes=True)), str(error).partition(":")[0]


def _repeated(records: pd.DataFrame) -> dict[str, int]:
    """Return the number of values of each other column with 1 to `MAX_ROWS_OF_A_PERSON` rows per value on average."""
    others = [str(name) for name in records if str(name).startswith("other ")]
    numbers = {name.removeprefix("other "): records[name].nunique() for name in others}
    return {
        name: number
        for name, number in numbers.items()
        if number < len(records) <= MAX_ROWS_OF_A_PERSON * number
    }
