"""Reads private records: selects them and identifies them by keyed hashes.

No content of a record makes a run fail: that would reveal it without noise. A record that cannot be used is left out.
Problems are described in the private zone, for the owner of the records; errors contain only a code.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from connectors.interfaces.errors import (
    InputError,
    MissingPackageError,
    NoFittingRowsError,
    NoRowsError,
    PlaceError,
    PrivateInputError,
)
from connectors.interfaces.ledger import NO_MARKS, Marks
from connectors.interfaces.redaction import redact
from connectors.interfaces.rows import HeaderReader, PrivateRef, RowReader, RowsRef
from connectors.interfaces.text_forms import normal_form
from tasks.private.rows.headers import check_header
from tasks.private.rows.marks import Marker, marks_of
from tasks.private.rows.quarantine import Unprintable, sealed, write_for_owner
from tasks.steps.allocation import allocate, unbalanced

ROWS_COUNTED = "counted from 0 without the header line: row 5 is line 7 of a CSV file without line breaks in its cells"

MAX_EQUAL = 2
"""Rows with the same text that are never suspicious."""
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
"""Stands in a text for bytes or surrogates that cannot be decoded."""

RecordHash = Callable[[str, str], str]
"""(label, text) -> keyed hash of one record."""


@dataclass(frozen=True, slots=True, repr=False)
class OpenedRows(Unprintable):
    """Private records in memory. The repr shows nothing; instances must not leave this package."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]
    persons: tuple[str, ...] | None = None

    def of(self, labels: Iterable[str]) -> OpenedRows:
        """Return the rows with one of these labels; each is selected independently."""
        known = set(labels)
        return self.take([index for index, label in enumerate(self.labels) if label in known])

    def take(self, indices: Sequence[int]) -> OpenedRows:
        """Return the rows at these indices, in this order."""
        texts, labels = (
            tuple(column[index] for index in indices) for column in (self.texts, self.labels)
        )
        persons = None
        if self.persons is not None:
            persons = tuple(self.persons[index] for index in indices)
        return OpenedRows(texts, labels, persons)


@dataclass(frozen=True, slots=True)
class Identity:
    """Keyed hashes of a private dataset, useless without the key.

    `fingerprint` covers the whole dataset with labels and persons. `records` has a hash of each text without its label:
    the same texts under other labels belong to the same people. `marks` recognise these people in other datasets.
    """

    fingerprint: str
    records: tuple[str, ...]
    marks: Marks = NO_MARKS


@dataclass(frozen=True, slots=True)
class PrivateZone:
    """Dependencies of the private zone: the row reader, the hash functions and the folder for error details.

    `key` is the name of the hash key. `choice` is a secret that decides which rows of a person are used. `marker` has
    the hash functions of marks.
    """

    read: RowReader
    record_hash: RecordHash
    fingerprint: Callable[[Sequence[str]], str]
    folder: Path
    key: str = ""
    choice: bytes = b""
    marker: Marker | None = None


def check_source(
    read_header: HeaderReader, where: RowsRef, folder: Path, for_owner: bool = False
) -> None:
    """Check that a private source opens and has the configured columns; read no row.

    In a table without a header the first line may be a row: it is compared, and quoted `for_owner` only. Raises
    ConfigError.
    """
    with sealed(folder):
        check_header("private", where, read_header, is_public=for_owner)


def identify(
    zone: PrivateZone,
    private: PrivateRef,
    labels: Sequence[str] | None,
    public_texts: Sequence[str],
) -> Identity:
    """Return the keyed identity of the whole private source; no content of a row is refused.

    The identity covers all rows with a text, regardless of the part that a run uses: a subset is a version of the
    dataset and shares its budget. Problems of rows go to their owner only, see `problems_file`. `labels` is None if
    the task's labels are not known yet.

    Raises PrivateInputError with the code PRIVATE-READ (not a readable table, or a column is missing) or PRIVATE-STEP
    (anything else), and PlaceError if the source does not exist. None of them depends on a row.
    """
    with sealed(zone.folder):
        frame, problems = read_all(zone, private, whole=True)
        _write_problems(
            zone, private, [*problems, *_problems(frame, private.where, labels, public_texts)]
        )
        texts = [text for text in frame["text"] if _is_filled(text)]
        records = tuple(zone.record_hash("", text) for text in texts)
        marks = marks_of(zone.marker, private, frame, dict(zip(records, texts, strict=True)))
        return Identity(_fingerprint(zone, private, frame), records, marks)


def require_rows_of(zone: PrivateZone, private: PrivateRef, labels: Sequence[str]) -> None:
    """Raise NoFittingRowsError if no row has a text and one of `labels`.

    Only for public rows, and for the owner of private rows outside a run: the answer has no noise.
    """
    with sealed(zone.folder):
        where = replace(private.where, names=tuple(labels))
        frame, _ = read_all(zone, replace(private, where=where))
        if not frame["label"][usable_rows(frame)].isin(list(labels)).any():
            raise NoFittingRowsError(
                f"private: no row of {redact(where.path)} has a text and one of the classes {', '.join(labels)}. "
                "Correct the columns, or the labels of the task"
            )


def problems_file(zone: PrivateZone, private: PrivateRef) -> Path:
    """Return the file that lists the problems of a dataset's rows, for their owner.

    Each has a reason and, if it concerns one row, its number and field: a row that cannot vote, a text without letters,
    a label that is not one of the task's, a text that is also a test or public row, fewer rows than `rows`, no rows, a
    class without rows, one text in most rows.
    """
    return zone.folder / f"{re.sub(r'[^A-Za-z0-9._-]', '_', private.name)[:100]}.json"


def open_rows(zone: PrivateZone, private: PrivateRef, fingerprint: str) -> OpenedRows:
    """Return the rows that a run uses; all usable rows if `rows` is not set.

    A row without text, label or configured person is left out, a decision that depends on that row alone. A seeded hash
    of each row's content selects among the others. There are three cases:

    - With `of` (the declared size of the source) a row is used if its hash is below rows/of. The decision depends on
      that row alone, so adding or removing a row does not affect the others.
    - Without `of` `rows` rows are used, or all if there are fewer. Removing one lets another in, so the caller must
      calibrate for a replaced row.
    - From a source that is declared public `rows` rows are drawn, each class in its proportion (largest remainder) or
      in one that `class_alpha` draws, or all if there are fewer. The privacy guarantee then covers the drawn rows,
      because the selection is public.

    Raises PrivateInputError with the code PRIVATE-CHANGED if the fingerprint of the source has changed: the budget of
    the new rows was not looked up.
    """
    frame, _ = read_all(zone, private)
    where = private.where
    if _fingerprint(zone, private, frame) != fingerprint:
        reason = "the rows have changed since the run started; repeat the same wasp run: it is charged for them"
        raise _refusal(zone, private, "PRIVATE-CHANGED", reason)
    frame = frame[usable_rows(frame)]
    if where.rows is not None and not frame.empty:
        records = zip(stored(frame, "label"), frame["text"], strict=True)
        order = np.array(
            [position(f"{where.seed}\x00{label}\x00{text}") for label, text in records]
        )
        # A hash of the content orders the rows: neither their order in the source nor a random state decides.
        if where.public:
            chosen = by_class(frame["label"].tolist(), order, where)
        elif where.of is not None:
            chosen = np.flatnonzero(order < where.rows / where.of)
        else:
            chosen = np.argsort(order, kind="stable")[: where.rows]
        frame = frame.iloc[chosen]
    persons = None
    if "person" in frame:
        persons = tuple(frame["person"].tolist())
    return OpenedRows(tuple(frame["text"].tolist()), tuple(frame["label"].tolist()), persons)


def read_all(
    zone: PrivateZone, private: PrivateRef, whole: bool = False
) -> tuple[pd.DataFrame, list[dict[str, object]]]:
    """Return all rows, and the problems of a source whose query fails on its rows."""
    problems: list[dict[str, object]] = []
    try:
        return zone.read(replace(private.where, rows=None, whole=whole, lenient=True)), problems
    except (PlaceError, MissingPackageError):
        raise
    except NoRowsError as error:
        problems.append({"reason": f"the source has no rows: {error}"})
    except InputError as error:
        # The message may quote a row: the first line of a table without a header.
        reason = str(error)
    if not problems:
        raise _refusal(zone, private, "PRIVATE-READ", reason)
    # A run on a source without rows releases noise: an error would reveal that it is empty.
    types = {"row": "int64", "text": "str", "label": "str"}
    if private.where.person:
        types["person"] = "str"
    return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in types.items()}), problems


def _fingerprint(zone: PrivateZone, private: PrivateRef, frame: pd.DataFrame) -> str:
    """Return the keyed hash of all rows with a text; of the name if there is none, as two empty sources differ.

    It covers labels and persons as stored, so that the datasets of earlier versions keep their fingerprint.
    """
    hashes = []
    persons = [""] * len(frame)
    if "person" in frame:
        persons = stored(frame, "person")
    for text, label, person in zip(frame["text"], stored(frame, "label"), persons, strict=True):
        if _is_filled(text):
            named, whose = (value if _is_filled(value) else "" for value in (label, person))
            # A row without a person has the hash that it has in a table without such a column.
            if whose:
                named = f"{named}\x00{whose}"
            hashes.append(zone.record_hash(named, text))
    return zone.fingerprint(hashes or [zone.record_hash("no rows", private.name)])


def stored(frame: pd.DataFrame, column: str) -> list[Any]:
    """Return labels or persons as the source stores them, not in their canonical form."""
    values: list[Any] = frame.get(f"stored {column}", frame[column]).tolist()
    return values


def _persons(frame: pd.DataFrame) -> list[object]:
    if "person" not in frame:
        return [""] * len(frame)
    persons: list[object] = frame["person"].tolist()
    return persons


def _is_filled(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value.strip())


def usable_rows(frame: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which rows have a text, a label and, if configured, a person."""
    columns = [name for name in ("text", "label", "person") if name in frame]
    return np.array(
        [all(map(_is_filled, row)) for row in zip(*(frame[name] for name in columns), strict=True)],
        bool,
    )


def _records(frame: pd.DataFrame) -> Iterator[tuple[int, object, object]]:
    return zip(frame["row"].tolist(), frame["label"].tolist(), frame["text"].tolist(), strict=True)


def position(value: str) -> float:
    """Return a number in [0, 1) that depends on a value alone."""
    # Six bytes: a float holds 48 bits exactly, so the number is below 1 for every hash.
    first = hashlib.sha256(value.encode("utf-8", "surrogatepass")).digest()[:6]
    return int.from_bytes(first) / 2**48


def by_class(labels: Sequence[str], order: NDArray[Any], where: RowsRef) -> NDArray[np.int64]:
    """Return `where.rows` row indices, the first in `order` of each class, in proportion or as `class_alpha` draws."""
    # Sorted: equal remainders are decided by name, not by the order of rows.
    sizes = Counter(sorted(labels))
    count = min(where.rows or 0, len(labels))
    if where.class_alpha is None:
        counts = allocate(count, dict(sizes), floor=0.0)
    else:
        counts = unbalanced(sizes, count, where.class_alpha, where.seed)
    ranked = np.argsort(order, kind="stable")
    names = np.array(labels, dtype=object)[ranked]
    return np.sort(
        np.concatenate([ranked[names == label][:number] for label, number in counts.items()])
    )


def _problems(
    frame: pd.DataFrame, where: RowsRef, labels: Sequence[str] | None, public_texts: Sequence[str]
) -> list[dict[str, object]]:
    """Return the problems of rows and of their number, in the order of rows."""
    problems = _problems_of_rows(frame, labels, public_texts)
    problems += _problems_of_persons(frame)
    problems += _problems_of_all(frame, labels)
    if where.rows is not None and where.of is None and len(frame) < where.rows:
        problems.append(
            {
                "reason": f"private.rows is {where.rows}, the source has {len(frame)} rows; all are used"
            }
        )
    return problems


def _problems_of_rows(
    frame: pd.DataFrame, labels: Sequence[str] | None, public_texts: Sequence[str]
) -> list[dict[str, object]]:
    public = {normal_form(text) for text in public_texts}
    problems: list[dict[str, object]] = []
    for (row, label, text), person in zip(_records(frame), _persons(frame), strict=True):
        reasons = {
            "text": _problem_of_text(text, public),
            "label": _problem_of_label(label, labels),
        }
        if "person" in frame and not _is_filled(person):
            reasons["person"] = "the person is empty"
        problems += [
            {"row": row, "field": field, "reason": reason}
            for field, reason in reasons.items()
            if reason
        ]
    return problems


def count_problems(
    frame: pd.DataFrame, usable: NDArray[np.bool_]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the reasons of rows that a run leaves out, and the problems of rows that it uses, with their numbers.

    A row is counted once, under its first problem. Private, for the owner of the rows only.
    """
    is_usable = dict(zip(frame["row"].tolist(), usable.tolist(), strict=True))
    reasons: dict[object, str] = {}
    for problem in _problems_of_rows(frame, None, ()):
        reasons.setdefault(problem["row"], str(problem["reason"]))
    left_out = Counter(reason for row, reason in reasons.items() if not is_usable[row])
    return dict(left_out), dict(
        Counter(reason for row, reason in reasons.items() if is_usable[row])
    )


def _problems_of_all(frame: pd.DataFrame, labels: Sequence[str] | None) -> list[dict[str, object]]:
    """Return what is suspicious about all rows together: a class without rows, and one text in most rows."""
    present = set(frame["label"])
    reasons = [f"no row has the label '{label}'" for label in labels or () if label not in present]
    texts = Counter(text for text in frame["text"] if _is_filled(text))
    if texts and max(texts.values()) > max(MAX_EQUAL, len(frame) / 2):
        reasons.append(
            f"one text is in {max(texts.values())} of {len(frame)} rows; check how the source was written"
        )
    return [{"reason": reason} for reason in reasons]


def _problems_of_persons(frame: pd.DataFrame) -> list[dict[str, object]]:
    """Return the first row of each person whose value differs from an earlier one in case or white space only."""
    first_rows: dict[str, int] = {}
    for row, person in zip(frame["row"].tolist(), _persons(frame), strict=True):
        if _is_filled(person):
            first_rows.setdefault(person, row)
    forms: dict[str, int] = {}
    problems: list[dict[str, object]] = []
    for person, row in first_rows.items():
        earlier = forms.setdefault(normal_form(person), row)
        if earlier != row:
            reason = f"the person is written differently in row {earlier}, so the two count as different people"
            problems.append({"row": row, "field": "person", "reason": reason})
    return problems


def _problem_of_text(text: object, public: set[str]) -> str:
    if not isinstance(text, str):
        return "the text is missing or cannot be read"
    if not text.strip():
        return "the text is empty"
    if REPLACEMENT in text:
        return "the text has characters that could not be decoded; save the source as UTF-8"
    if not any(map(str.isalpha, text)):
        return "the text has no letters; check the name of the text column"
    if normal_form(text) in public:
        return "the same text is a test or public row"
    return ""


def _problem_of_label(label: object, labels: Sequence[str] | None) -> str:
    if not _is_filled(label):
        return "the label is empty"
    if labels is None or label in labels:
        return ""
    return f"the label is not one of the task's: {', '.join(labels)}"


def _write_problems(
    zone: PrivateZone, private: PrivateRef, problems: list[dict[str, object]]
) -> Path:
    path = problems_file(zone, private)
    counts = Counter(str(problem["reason"]) for problem in problems)
    details = {
        "source": private.where.path,
        "counts": counts,
        "rows": ROWS_COUNTED,
        "problems": problems,
    }
    write_for_owner(path, json.dumps(details, indent=2))
    return path


def _refusal(zone: PrivateZone, private: PrivateRef, code: str, reason: str) -> PrivateInputError:
    path = _write_problems(zone, private, [{"code": code, "reason": reason}])
    return PrivateInputError(code, path, redact(private.where.path))
