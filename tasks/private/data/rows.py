"""Reads private records: selects them, checks them and identifies them by keyed hashes.

Problems are described in the private zone, for the owner of the records; errors contain only a code.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from connectors.interfaces.errors import InputError, MissingPackageError, NoRowsError, PlaceError, PrivateInputError
from connectors.interfaces.ledger import NO_MARKS, Marks
from connectors.interfaces.redaction import redact
from connectors.interfaces.rows import HeaderReader, PrivateRef, RowReader, RowsRef
from connectors.interfaces.text_forms import normal_form
from tasks.core.allocation import allocate
from tasks.core.headers import check_header
from tasks.private.data.marks import Marker, marks_of
from tasks.private.data.quarantine import sealed, write_for_owner

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROWS_COUNTED = "counted from 0 without the header line: row 5 is line 7 of a CSV file without line breaks in its cells"

RecordHash = Callable[[str, str], str]
"""(label, text) -> keyed hash of one record."""


@dataclass(frozen=True, slots=True, repr=False)
class OpenedRows:
    """Private records in memory. The repr shows nothing; instances must not leave this package."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]
    persons: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        return "PrivateRows(hidden)"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("private records are never serialised")


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
class Zone:
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


def check_source(read_header: HeaderReader, where: RowsRef, folder: Path) -> None:
    """Check that a private source opens and has the configured columns; read no row.

    In a table without a header the first line may be a row: it is compared, not quoted. Raises ConfigError.
    """
    with sealed(folder):
        check_header("private", where, read_header, is_public=False)


def identify(
    zone: Zone,
    private: PrivateRef,
    labels: Sequence[str] | None,
    public_texts: Sequence[str],
    may_be_none: bool = False,
) -> Identity:
    """Check the whole private source and return its keyed identity.

    The identity covers all rows of the source, regardless of the part that a run uses: a subset is a version of the
    dataset and shares its budget.

    `labels` is None if the task's labels are not known yet. `may_be_none` accepts a source without rows: one of several
    parties may have none, and a refusal would reveal that.

    Raises PrivateInputError with one of these codes: PRIVATE-ROWS (empty text, unknown label, no person),
    PRIVATE-IN-TEST (a private row is also a test or public row), PRIVATE-TOO-FEW, PRIVATE-NONE, PRIVATE-READ (the
    source cannot be read as rows), PRIVATE-STEP (anything else). Raises PlaceError if the source does not exist.
    """
    with sealed(zone.folder):
        return _identify(zone, private, labels, public_texts, may_be_none)


def _identify(
    zone: Zone, private: PrivateRef, labels: Sequence[str] | None, public_texts: Sequence[str], may_be_none: bool
) -> Identity:
    frame = _read(zone, private, whole=True)
    none: list[dict[str, object]] = [{"reason": "the source has no rows"}]
    _refuse(zone, private, "PRIVATE-NONE", none if frame.empty and not may_be_none else [])
    _refuse(zone, private, "PRIVATE-ROWS", _bad_rows(frame, labels))
    _refuse(zone, private, "PRIVATE-IN-TEST", _also_public(frame, public_texts))
    count = private.where.rows
    reason = f"private.rows is {count}, the source has {len(frame)} rows; lower private.rows"
    few: list[dict[str, object]] = [{"reason": reason}]
    exactly = count is not None and private.where.of is None
    _refuse(zone, private, "PRIVATE-TOO-FEW", few if exactly and len(frame) < (count or 0) else [])
    records = tuple(zone.record_hash("", text) for _, _, text in _records(frame))
    return Identity(_fingerprint(zone, frame), records, marks_of(zone.marker, private, frame))


def open_rows(zone: Zone, private: PrivateRef, fingerprint: str) -> OpenedRows:
    """Return the rows that a run uses; all rows if `rows` is not set.

    A seeded hash of each row's content selects them. There are three cases:

    - With `of` (the declared size of the source) a row is used if its hash is below rows/of. The decision depends on
      that row alone, so adding or removing a row does not affect the others.
    - Without `of` exactly `rows` rows are used. Removing one lets another in, so the caller must calibrate for a
      replaced row.
    - From a source that is declared public exactly `rows` rows are drawn, each class in its proportion (largest
      remainder). The privacy guarantee then covers the drawn rows, because the selection is public.

    Raises PrivateInputError with the code PRIVATE-CHANGED if the fingerprint of the source has changed: the budget of
    the new rows was not looked up.
    """
    frame, where = _read(zone, private), private.where
    reason = "the rows have changed since the run started; repeat the same wasp run: it is charged for the current rows"
    changed: list[dict[str, object]] = [{"reason": reason}]
    _refuse(zone, private, "PRIVATE-CHANGED", changed if _fingerprint(zone, frame) != fingerprint else [])
    if where.rows is not None:
        order = np.array([_order(where.seed, label, text) for _, label, text in _records(frame)])
        if where.public:
            chosen = _stratified(frame["label"].tolist(), order, where.rows)
        elif where.of is not None:
            chosen = np.flatnonzero(order < where.rows / where.of)
        else:
            chosen = np.argsort(order, kind="stable")[: where.rows]
        frame = frame.iloc[chosen]
    persons = tuple(frame["person"].tolist()) if "person" in frame else None
    return OpenedRows(tuple(frame["text"].tolist()), tuple(frame["label"].tolist()), persons)


def _read(zone: Zone, private: PrivateRef, whole: bool = False) -> pd.DataFrame:
    try:
        return zone.read(replace(private.where, rows=None, whole=whole))
    except (PlaceError, MissingPackageError):
        raise
    except NoRowsError:
        columns = ["row", "text", "label", *(["person"] if private.where.person else [])]
        return pd.DataFrame({name: pd.Series(dtype="int64" if name == "row" else "str") for name in columns})
    except InputError as error:
        # The message may quote a row: the first line of a table without a header, a line that does not parse.
        problem: dict[str, object] = {"reason": str(error)}
    _refuse(zone, private, "PRIVATE-READ", [problem])
    raise AssertionError("a source that cannot be read was refused")


def _fingerprint(zone: Zone, frame: pd.DataFrame) -> str:
    persons = frame["person"].tolist() if "person" in frame else [""] * len(frame)
    labels = [
        f"{label}\x00{person}" if person else label for label, person in zip(frame["label"], persons, strict=True)
    ]
    return zone.fingerprint([zone.record_hash(label, text) for label, text in zip(labels, frame["text"], strict=True)])


def _records(frame: pd.DataFrame) -> Iterator[tuple[int, str, Any]]:
    return zip(frame["row"].tolist(), frame["label"].tolist(), frame["text"].tolist(), strict=True)


def _order(seed: int, label: str, text: str) -> float:
    """Return a number in [0, 1) that depends on a row's content and the seed."""
    digest = hashlib.sha256(f"{seed}\x00{label}\x00{text}".encode()).digest()[:6]
    return int.from_bytes(digest) / 2**48


def _stratified(labels: Sequence[str], order: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Return `count` row indices, the first in `order` of each class, in proportion."""
    sizes = Counter(sorted(labels))
    counts = allocate(count, dict(sizes), floor=0.0)
    ranked = np.argsort(order, kind="stable")
    names = np.array(labels, dtype=object)[ranked]
    return np.sort(np.concatenate([ranked[names == label][:number] for label, number in counts.items()]))


def _bad_rows(frame: pd.DataFrame, labels: Sequence[str] | None) -> list[dict[str, object]]:
    problems: list[dict[str, object]] = []
    for row, label, text in _records(frame):
        if not isinstance(text, str):
            problems.append({"row": row, "field": "text", "reason": "the text is null"})
        elif not text.strip():
            problems.append({"row": row, "field": "text", "reason": "the text is empty"})
        if not isinstance(label, str) or not label.strip():
            problems.append({"row": row, "field": "label", "reason": "the label is empty"})
        elif labels is not None and label not in labels:
            reason = f"the label is not one of the task's: {', '.join(labels)}"
            problems.append({"row": row, "field": "label", "reason": reason})
    return problems + _rows_without_person(frame)


def _rows_without_person(frame: pd.DataFrame) -> list[dict[str, object]]:
    if "person" not in frame:
        return []
    is_named = (isinstance(person, str) and bool(person.strip()) for person in frame["person"])
    rows = [row for row, has_name in zip(frame["row"].tolist(), is_named, strict=True) if not has_name]
    return [{"row": row, "field": "person", "reason": "the person is empty"} for row in rows]


def _also_public(frame: pd.DataFrame, public_texts: Sequence[str]) -> list[dict[str, object]]:
    public = {normal_form(text) for text in public_texts}
    rows = [row for row, _, text in _records(frame) if normal_form(text) in public]
    return [{"row": row, "field": "text", "reason": "the same text is a test or public row"} for row in rows]


def _refuse(zone: Zone, private: PrivateRef, code: str, problems: list[dict[str, object]]) -> None:
    if not problems:
        return
    path = zone.folder / f"{re.sub(r'[^A-Za-z0-9._-]', '_', private.name)[:100]}.json"
    details = {"code": code, "source": private.where.path, "rows": ROWS_COUNTED, "problems": problems}
    write_for_owner(path, json.dumps(details, indent=2))
    raise PrivateInputError(code, path, redact(private.where.path))
