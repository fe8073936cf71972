"""Distribute private rows for an experiment to one folder per party."""

from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.rows import PrivateRef
from connectors.interfaces.text_forms import is_class_name
from tasks.private.parties.partition import Partition, row_order, split_rows
from tasks.private.rows.quarantine import sealed, write_table_for_owner
from tasks.private.rows.rows import PrivateZone, by_class, read_all, usable_rows

ROWS = "rows.parquet"


def write_parties(
    zone: PrivateZone, private: PrivateRef, partition: Partition, folder: Path
) -> list[str]:
    """Distribute the rows of `private` to one subfolder of the new `folder` per party; return their names.

    If its `rows` is set, so many are drawn, each class in its proportion or as `class_alpha` draws. Rows of one person
    stay together, under their most frequent class. Only the owner can access the folders. Raises ConfigError if the
    folder exists, PlaceError if the source does not exist, PrivateInputError with the code PRIVATE-READ if it cannot be
    read as rows.
    """
    if folder.exists():
        raise ConfigError(
            f"{folder}: exists; name a new folder (rows of different partitions must not mix)."
        )
    with sealed(zone.folder):
        rows, _ = read_all(zone, private)
        if private.where.rows is not None:
            order = row_order(len(rows), partition.seed)
            rows = rows.iloc[by_class(rows["label"].fillna("").tolist(), order, private.where)]
        if rows.empty:
            raise ConfigError(
                "The source has no rows, so there is nothing to split. Name a source with rows."
            )
        parties = _parties(rows, partition)
        columns = [column for column in ("text", "label", "person") if column in rows]
        names = [f"party-{number + 1}" for number in range(partition.parties)]
        folder.mkdir(mode=0o700, parents=True)
        for number, name in enumerate(names):
            write_table_for_owner(folder / name / ROWS, rows.loc[parties == number, columns])
    return names


def labels_of(zone: PrivateZone, private: PrivateRef) -> list[str]:
    """Return the labels of usable rows that can name a class; private, for the owner's own files only."""
    with sealed(zone.folder):
        rows, _ = read_all(zone, private)
        return sorted(filter(is_class_name, set(rows["label"][usable_rows(rows)])))


def _parties(rows: pd.DataFrame, partition: Partition) -> NDArray[np.int64]:
    labels = rows["label"].fillna("").tolist()
    if "person" not in rows:
        return split_rows(labels, partition)
    persons = rows["person"].fillna("").tolist()
    classes: dict[str, Counter[str]] = {}
    for person, label in zip(persons, labels, strict=True):
        classes.setdefault(person, Counter())[label] += 1
    # Equal numbers are decided by name, not by the order of the rows.
    main = [min(counts, key=lambda label: (-counts[label], label)) for counts in classes.values()]
    of_person = dict(zip(classes, split_rows(main, partition).tolist(), strict=True))
    return np.array([of_person[person] for person in persons], dtype=np.int64)
