"""Canonical forms join records of one class and of one person, and leave the identity of a dataset as it was."""

from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.rows import PrivateRef, RowsRef
from connectors.rows.reader import read_rows
from connectors.security.record_hashes import dataset_fingerprint, mark_hash, record_hash
from tasks.private.rows.marks import Marker
from tasks.private.rows.rows import PrivateZone, identify, open_rows, require_rows_of
from tasks.private.rows.survey import survey

SECRET = bytes(32)


def zone(folder: Path) -> PrivateZone:
    """Return a zone that reads files, with keyed hashes and marks."""
    marker = Marker(partial(mark_hash, SECRET), lambda _: ())
    hashes = partial(record_hash, SECRET), partial(dataset_fingerprint, SECRET)
    return PrivateZone(read_rows, *hashes, folder / "problems", "key", b"", marker)


def frame(**columns: Any) -> pd.DataFrame:
    """Return twelve rows."""
    return pd.DataFrame({"text": [f"text number {n}" for n in range(12)]} | columns)


DAYS = pd.to_datetime([f"2024-01-{n // 2 + 1:02d}" for n in range(12)])
BEFORE = {
    "numbers.parquet": (
        frame(label=[1.0, 2.0, None] * 4, person=DAYS),
        "2ca491c831580c4b",
        "119642cc18d07231",
        [4, 0, 3, 6],
    ),
    "texts.csv": (
        frame(label=["pain ", "U\u0308bel", "True"] * 4, person=[f"{n}.0" for n in range(12)]),
        "b07722ea1047d285",
        "0388fa8fbb95679f",
        [6, 2, 11, 10],
    ),
}
"""Rows; start of the fingerprint and of a mark of a person, drawn rows: of the version before these forms."""


@pytest.mark.parametrize("file", BEFORE)
def test_a_dataset_of_an_earlier_version_keeps_fingerprint_marks_and_drawn_rows(
    tmp_path: Path, file: str
) -> None:
    rows, fingerprint, mark, drawn = BEFORE[file]
    rows.to_csv(tmp_path / file, index=False) if file.endswith("csv") else rows.to_parquet(
        tmp_path / file
    )
    private = PrivateRef("x", RowsRef(str(tmp_path / file), person="person", rows=4))
    identity = identify(zone(tmp_path), private, None, ())
    assert identity.fingerprint.startswith(fingerprint)
    assert any(known.startswith(mark) for known in identity.marks.persons)
    opened = open_rows(zone(tmp_path), private, identity.fingerprint)
    assert list(opened.texts) == [f"text number {row}" for row in drawn]


PERSONS = {
    "csv": [f"{1000 + n // 2}" for n in range(12)],
    "csv with a missing value": [f"{1000 + n // 2}.0" for n in range(12)],
    "int": [1000 + n // 2 for n in range(12)],
    "double": [1000.0 + n // 2 for n in range(12)],
    "text with blanks": [f" {1000 + n // 2}\u00a0" for n in range(12)],
    "mixed": [f"{1000 + n // 2}{'.0' * (n % 2)}" for n in range(12)],
}


def test_persons_are_the_same_however_they_are_stored(tmp_path: Path) -> None:
    marks, groups = {}, {}
    for number, (kind, persons) in enumerate(PERSONS.items()):
        rows, path = frame(label="a", person=persons), tmp_path / f"{number}.parquet"
        if kind.startswith("csv"):
            path = path.with_suffix(".csv")
            rows.to_csv(path, index=False)
        else:
            rows.to_parquet(path)
        private = PrivateRef("x", RowsRef(str(path), person="person"))
        identity = identify(zone(tmp_path), private, None, ())
        marks[kind] = identity.marks.persons
        groups[kind] = open_rows(zone(tmp_path), private, identity.fingerprint).persons
    assert len(set(marks.values())) == 1
    assert set(groups.values()) == {tuple(f"{1000 + n // 2}" for n in range(12))}


def test_the_owner_sees_labels_that_are_one_number(tmp_path: Path) -> None:
    frame(label=["1.1", "1.10", "2"] * 4).to_csv(tmp_path / "r.csv", index=False)
    read = partial(survey, zone(tmp_path), is_cut=lambda texts: [False] * len(texts))
    seen = read(RowsRef(str(tmp_path / "r.csv")))
    assert (seen.classes, seen.spellings) == ({"1.1": 8, "2": 4}, {"1.1": ["1.1", "1.10"]})
    named = survey(
        zone(tmp_path),
        RowsRef(str(tmp_path / "r.csv"), names=("1.1", "1.10")),
        lambda texts: [False] * len(texts),
    )
    assert named.classes == {"1.1": 4, "1.10": 4, "2": 4}


def test_rows_without_a_class_of_the_task_are_refused_outside_a_run(tmp_path: Path) -> None:
    frame(label=["3.0", "4.0"] * 6).to_csv(tmp_path / "r.csv", index=False)
    private = PrivateRef("x", RowsRef(str(tmp_path / "r.csv")), lambda texts: [False] * len(texts))
    require_rows_of(zone(tmp_path), private, ["4", "9"])
    with pytest.raises(
        ConfigError, match="no row of .*r.csv has a text and one of the classes a, b"
    ):
        require_rows_of(zone(tmp_path), private, ["a", "b"])
