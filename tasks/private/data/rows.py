"""Opens the private rows: takes them, checks them, names them by keyed hash.

What is wrong inside them is written for their owner into the private zone; everybody else gets a code.
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
from connectors.interfaces.redaction import redact
from connectors.interfaces.rows import HeaderReader, PrivateRef, RowReader, RowsRef
from connectors.interfaces.text_forms import normal_form
from tasks.core.headers import check_header
from tasks.private.data.quarantine import sealed, write_for_owner
from tasks.selection.weights import allocate

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROWS_COUNTED = "counted from 0, a header line is no row: row 5 is line 7 of a CSV file without line breaks in its cells"

RecordHash = Callable[[str, str], str]
"""(label, text) -> keyed hash of one record."""


@dataclass(frozen=True, slots=True, repr=False)
class PrivateRows:
    """Private rows in memory. Its repr shows nothing; it must not leave this folder."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]
    persons: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        return "PrivateRows(hidden)"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("private rows are never serialised")


@dataclass(frozen=True, slots=True)
class Identity:
    """Keyed names of a private dataset: of the whole (with labels and persons) and of each text; useless without key.

    The names of texts know no label: the same texts under other labels are the same people's.
    """

    fingerprint: str
    records: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Zone:
    """What the private zone needs from outside: how rows are opened, how they are named, where details go.

    `key` is the name of the key that names them, `choice` a secret that decides which rows of a person are kept.
    """

    read: RowReader
    record_hash: RecordHash
    fingerprint: Callable[[Sequence[str]], str]
    folder: Path
    key: str = ""
    choice: bytes = b""


def check_source(read_header: HeaderReader, where: RowsRef, folder: Path) -> None:
    """Refuse a private source that cannot be opened or lacks a column that the configuration names; no row is read.

    A first line may be a row where a table has no header: it is compared and not quoted. Raises ConfigError.
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

    The identity is that of all rows of the source, whatever part a run takes, so that a subset shares its budget
    (design: a subset is a version, not a new dataset). Raises PrivateInputError with a code: PRIVATE-ROWS (empty
    text, unknown label, no person), PRIVATE-IN-TEST (a private row is also a test or public row), PRIVATE-TOO-FEW,
    PRIVATE-NONE, PRIVATE-READ (the source cannot be read as rows), PRIVATE-STEP (anything else); PlaceError when there
    is no source. `labels` None: the task's are not known yet. `may_be_none`: of several parties one may have no rows,
    and to refuse it would tell the others.
    """
    with sealed(zone.folder):
        return _identify(zone, private, labels, public_texts, may_be_none)


def _identify(
    zone: Zone, private: PrivateRef, labels: Sequence[str] | None, public_texts: Sequence[str], may_be_none: bool
) -> Identity:
    frame = _read(zone, private)
    none: list[dict[str, object]] = [{"reason": "the source holds no rows"}]
    _refuse(zone, private, "PRIVATE-NONE", none if frame.empty and not may_be_none else [])
    _refuse(zone, private, "PRIVATE-ROWS", _bad_rows(frame, labels))
    _refuse(zone, private, "PRIVATE-IN-TEST", _also_public(frame, public_texts))
    wanted = private.where.rows
    short = f"rows = {wanted} were asked for, the source holds {len(frame)}; lower private.rows"
    few: list[dict[str, object]] = [{"reason": short}]
    exactly = wanted is not None and private.where.of is None
    _refuse(zone, private, "PRIVATE-TOO-FEW", few if exactly and len(frame) < (wanted or 0) else [])
    return Identity(_fingerprint(zone, frame), tuple(zone.record_hash("", text) for _, _, text in _each(frame)))


def open_rows(zone: Zone, private: PrivateRef, fingerprint: str) -> PrivateRows:
    """Return the rows that a run takes, chosen by a seeded hash of each row's content; all without `rows`.

    With `of` (the declared size of the source) a row is taken when its hash lies below rows/of: whether it is taken
    hangs on that row alone, so adding or removing a row changes nothing for the others. Without it exactly `rows` are
    taken, and removing one lets another in: the caller must then calibrate for a replaced row. Of a source that is
    declared public exactly `rows` are drawn, of each class its share (largest remainder); privacy then speaks of the
    drawn rows, since which these are is public.

    Raises PrivateInputError with the code PRIVATE-CHANGED when the source is no longer the one with this fingerprint:
    nobody looked up whose budget the new rows belong to.
    """
    frame, where = _read(zone, private), private.where
    other = "the rows are not those the run was started with; type the same wasp run again: it is charged as it is now"
    changed: list[dict[str, object]] = [{"reason": other}]
    _refuse(zone, private, "PRIVATE-CHANGED", changed if _fingerprint(zone, frame) != fingerprint else [])
    if where.rows is not None:
        order = np.array([_order(where.seed, label, text) for _, label, text in _each(frame)])
        if where.public:
            chosen = _stratified(frame["label"].tolist(), order, where.rows)
        elif where.of is not None:
            chosen = np.flatnonzero(order < where.rows / where.of)
        else:
            chosen = np.argsort(order, kind="stable")[: where.rows]
        frame = frame.iloc[chosen]
    persons = tuple(frame["person"].tolist()) if "person" in frame else None
    return PrivateRows(tuple(frame["text"].tolist()), tuple(frame["label"].tolist()), persons)


def _read(zone: Zone, private: PrivateRef) -> pd.DataFrame:
    try:
        return zone.read(replace(private.where, rows=None))
    except (PlaceError, MissingPackageError):
        raise
    except NoRowsError:
        columns = ["row", "text", "label", *(["person"] if private.where.person else [])]
        return pd.DataFrame({name: pd.Series(dtype="int64" if name == "row" else "str") for name in columns})
    except InputError as error:
        # The first line of a table without header, a line that does not parse: its words may be a row's.
        problem: dict[str, object] = {"reason": str(error)}
    _refuse(zone, private, "PRIVATE-READ", [problem])
    raise AssertionError("a source that cannot be read was refused")


def _fingerprint(zone: Zone, frame: pd.DataFrame) -> str:
    whose = frame["person"].tolist() if "person" in frame else [""] * len(frame)
    labels = [f"{label}\x00{person}" if person else label for label, person in zip(frame["label"], whose, strict=True)]
    return zone.fingerprint([zone.record_hash(label, text) for label, text in zip(labels, frame["text"], strict=True)])


def _each(frame: pd.DataFrame) -> Iterator[tuple[int, str, Any]]:
    return zip(frame["row"].tolist(), frame["label"].tolist(), frame["text"].tolist(), strict=True)


def _order(seed: int, label: str, text: str) -> float:
    """Return a number in [0, 1) that a row has by its content and the seed."""
    drawn = hashlib.sha256(f"{seed}\x00{label}\x00{text}".encode()).digest()[:6]
    return int.from_bytes(drawn) / 2**48


def _stratified(labels: Sequence[str], order: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Return `count` places, those first in `order` of each class, in the classes' proportions."""
    sizes = Counter(sorted(labels))
    counts = allocate(count, dict(sizes), floor=0.0)
    ranked = np.argsort(order, kind="stable")
    names = np.array(labels, dtype=object)[ranked]
    return np.sort(np.concatenate([ranked[names == label][:number] for label, number in counts.items()]))


def _bad_rows(frame: pd.DataFrame, labels: Sequence[str] | None) -> list[dict[str, object]]:
    problems: list[dict[str, object]] = []
    for row, label, text in _each(frame):
        if not isinstance(text, str):
            problems.append({"row": row, "field": "text", "reason": "the text is null"})
        elif not text.strip():
            problems.append({"row": row, "field": "text", "reason": "the text is empty"})
        if not isinstance(label, str) or not label.strip():
            problems.append({"row": row, "field": "label", "reason": "the label is empty"})
        elif labels is not None and label not in labels:
            reason = f"the label is not one of the task's: {', '.join(labels)}"
            problems.append({"row": row, "field": "label", "reason": reason})
    return problems + _nobody(frame)


def _nobody(frame: pd.DataFrame) -> list[dict[str, object]]:
    if "person" not in frame:
        return []
    named = (isinstance(person, str) and bool(person.strip()) for person in frame["person"])
    rows = [row for row, has_name in zip(frame["row"].tolist(), named, strict=True) if not has_name]
    return [{"row": row, "field": "person", "reason": "it is not said whose row this is"} for row in rows]


def _also_public(frame: pd.DataFrame, public_texts: Sequence[str]) -> list[dict[str, object]]:
    public = {normal_form(text) for text in public_texts}
    rows = [row for row, _, text in _each(frame) if normal_form(text) in public]
    return [{"row": row, "field": "text", "reason": "the same text is a test or public row"} for row in rows]


def _refuse(zone: Zone, private: PrivateRef, code: str, problems: list[dict[str, object]]) -> None:
    if not problems:
        return
    path = zone.folder / f"{re.sub(r'[^A-Za-z0-9._-]', '_', private.name)[:100]}.json"
    found = {"code": code, "source": private.where.path, "rows": ROWS_COUNTED, "problems": problems}
    write_for_owner(path, json.dumps(found, indent=2))
    raise PrivateInputError(code, path, redact(private.where.path))
