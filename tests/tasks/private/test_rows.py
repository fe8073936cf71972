"""The private rows are opened, chosen and named in the private zone alone."""

import pickle
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from connectors.base import PrivateRef, RowsRef
from connectors.fingerprint import dataset_fingerprint, record_hash
from tasks.private.rows import Zone, identify, open_rows

SECRET = bytes(range(32))
LABELS = ("a", "b")


def source(number: int, without: int | None = None) -> pd.DataFrame:
    rows = [(f"text number {n}", LABELS[n % 2]) for n in range(number) if n != without]
    return pd.DataFrame(rows, columns=["text", "label"]).assign(row=range(len(rows)))


def zone(frame: pd.DataFrame, folder: Path) -> Zone:
    return Zone(lambda _: frame, partial(record_hash, SECRET), partial(dataset_fingerprint, SECRET), folder)


def taken(frame: pd.DataFrame, tmp_path: Path, **where: int | None) -> set[str]:
    private = PrivateRef("rows", RowsRef("somewhere", **where))  # type: ignore[arg-type]
    return set(open_rows(zone(frame, tmp_path), private).texts)


def test_all_rows_are_taken_unless_a_number_is_given(tmp_path: Path) -> None:
    assert len(taken(source(50), tmp_path)) == 50


def test_with_a_declared_size_each_row_is_drawn_on_its_own(tmp_path: Path) -> None:
    """Removing any row changes nothing for the others: the promise holds for the whole source."""
    whole = taken(source(200), tmp_path, rows=60, of=200)
    assert 30 < len(whole) < 90
    for gone in range(200):
        without = taken(source(200, gone), tmp_path, rows=60, of=200)
        assert whole - without <= {f"text number {gone}"}
        assert without <= whole


def test_with_a_number_alone_exactly_so_many_are_taken_and_one_may_let_another_in(tmp_path: Path) -> None:
    whole = taken(source(200), tmp_path, rows=60)
    assert len(whole) == 60
    changes = [len(whole ^ taken(source(200, gone), tmp_path, rows=60)) for gone in range(200)]
    assert max(changes) == 2, "one out, one in: a replacement, for which the noise is calibrated"


def test_the_seed_chooses_and_the_order_of_the_file_does_not(tmp_path: Path) -> None:
    shuffled = source(200).sample(frac=1, random_state=3)
    assert taken(source(200), tmp_path, rows=60) == taken(shuffled, tmp_path, rows=60)
    assert taken(source(200), tmp_path, rows=60) != taken(source(200), tmp_path, rows=60, seed=1)


def test_a_part_of_a_source_has_the_identity_of_the_source(tmp_path: Path) -> None:
    whole = identify(zone(source(40), tmp_path), PrivateRef("x", RowsRef("p")), LABELS, [])
    part = identify(zone(source(40), tmp_path), PrivateRef("y", RowsRef("q", rows=5, seed=9)), LABELS, [])
    other = identify(zone(source(40, 3), tmp_path), PrivateRef("x", RowsRef("p")), LABELS, [])
    assert whole.fingerprint == part.fingerprint
    assert other.fingerprint != whole.fingerprint
    assert len(set(whole.records) & set(other.records)) == 39


def test_rows_in_memory_show_nothing_and_cannot_be_stored(tmp_path: Path) -> None:
    rows = open_rows(zone(source(3), tmp_path), PrivateRef("x", RowsRef("p")))
    assert "text number" not in f"{rows} {rows!r}"
    with pytest.raises(TypeError, match="never serialised"):
        pickle.dumps(rows)


def test_a_reference_does_not_print_its_place() -> None:
    assert "secret-ward" not in repr(PrivateRef("x", RowsRef("/secret-ward/rows.csv")))
