"""The Dirichlet partition: every row lands exactly once, by the proportions drawn, and nobody else reads it."""

import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from connectors.interfaces.errors import ConfigError, PrivateInputError
from connectors.interfaces.rows import PrivateRef, RowsRef
from flows.runtime.stores import open_zone
from tasks.private.parties.partition import Partition, split_rows
from tasks.private.parties.rows import write_parties
from tasks.steps.allocation import unbalanced

LABELS = ["a"] * 400 + ["b"] * 250 + ["c"] * 50


def rows(path: Path, **more: list[str]) -> RowsRef:
    frame = pd.DataFrame(
        {"text": [f"text number {n}" for n in range(len(LABELS))], "label": LABELS} | more
    )
    frame.to_parquet(path)
    return RowsRef(str(path), person="person" if more else None)


def write(folder: Path, where: RowsRef, partition: Partition) -> list[str]:
    return write_parties(
        open_zone(folder), PrivateRef("rows", where), partition, folder / "parties"
    )


def parts_of(
    folder: Path, partition: Partition, drawn: dict | None = None, **more: list[str]
) -> list[pd.DataFrame]:
    where = replace(rows(folder / "rows.parquet", **more), **drawn or {})
    names = write(folder, where, partition)
    return [pd.read_parquet(folder / "parties" / name / "rows.parquet") for name in names]


def test_every_row_lands_exactly_once_with_its_label(tmp_path: Path) -> None:
    parts = parts_of(tmp_path, Partition(7, 1.0, 3))
    together = pd.concat(parts).sort_values("text", ignore_index=True)
    assert together.equals(
        pd.read_parquet(tmp_path / "rows.parquet").sort_values("text", ignore_index=True)
    )
    assert len([part for part in parts if len(part)]) == 7


def test_equal_seeds_give_equal_parts_and_other_seeds_others() -> None:
    first, same, other = (
        split_rows(LABELS, Partition(5, 1.0, seed)).tolist() for seed in (1, 1, 2)
    )
    assert first == same != other


def test_the_parts_of_a_class_follow_the_proportions_that_were_drawn() -> None:
    """The generator can be followed by hand."""
    for seed in range(20):
        parties = split_rows(LABELS, Partition(4, 0.5, seed))
        generator = np.random.default_rng(seed)
        for name in ("a", "b", "c"):
            places = [n for n, label in enumerate(LABELS) if label == name]
            generator.permutation(places)
            shares = generator.dirichlet([0.5] * 4)
            counts = np.bincount(parties[places], minlength=4)
            assert np.abs(counts - shares * len(places)).max() <= 1


def test_the_parties_together_can_be_unbalanced(tmp_path: Path) -> None:
    drawn = {"rows": 100, "class_alpha": 1.0, "seed": 3}
    labels = pd.concat(parts_of(tmp_path, Partition(4, 1.0, seed=3), drawn))["label"]
    assert labels.value_counts().to_dict() == unbalanced(
        {"a": 400, "b": 250, "c": 50}, 100, 1.0, seed=3
    )


def test_rows_of_a_person_stay_together(tmp_path: Path) -> None:
    persons = [f"person {n % 90}" for n in range(len(LABELS))]
    homes = [set(part["person"]) for part in parts_of(tmp_path, Partition(6), person=persons)]
    assert sum(map(len, homes)) == len(set.union(*homes)) == 90


def test_only_the_owner_may_read(tmp_path: Path) -> None:
    write(tmp_path, rows(tmp_path / "rows.parquet"), Partition(3))
    for location in [tmp_path / "parties", *(tmp_path / "parties").rglob("*")]:
        assert stat.S_IMODE(location.stat().st_mode) == (0o700 if location.is_dir() else 0o600), (
            location
        )


def test_a_source_without_rows_is_refused(tmp_path: Path) -> None:
    pd.DataFrame({"text": [], "label": []}, dtype=str).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ConfigError, match="has no rows"):
        write(tmp_path, RowsRef(str(tmp_path / "rows.parquet")), Partition(2))
    assert not (tmp_path / "parties").exists()


def test_what_is_wrong_with_rows_is_reported_to_their_owner_alone(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a secret sentence,positive\nanother one,negative\n")
    with pytest.raises(PrivateInputError, match="PRIVATE-READ") as refused:
        write(tmp_path, RowsRef(str(tmp_path / "rows.csv")), Partition(2))
    assert "secret" not in str(refused.value)
    assert "a secret sentence" in (tmp_path / "private" / "problems" / "rows.json").read_text()
    assert not (tmp_path / "parties").exists()
