"""Distribute private rows for an experiment to one folder per party."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from connectors.interfaces.errors import ConfigError, InputError, MissingPackageError, PlaceError, PrivateInputError
from connectors.interfaces.rows import RowReader, RowsRef
from tasks.federation.partition import Partition, row_order, split_rows
from tasks.private.data.quarantine import sealed, write_for_owner, write_table_for_owner
from tasks.private.data.rows import by_class

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

ROWS = "rows.parquet"


def write_parties(read: RowReader, where: RowsRef, partition: Partition, folder: Path, problems: Path) -> list[str]:
    """Distribute the rows of `where` to one subfolder of the new `folder` per party; return their names.

    `problems`: folder for error details. Rows of one person stay together, under their most frequent class. With
    `class_alpha` the `rows` of `where` are drawn with unbalanced classes. Only the owner can access the folders.
    Raises ConfigError if the folder exists, PlaceError if the source does not exist, PrivateInputError with the code
    PRIVATE-READ if it cannot be read as rows.
    """
    if folder.exists():
        raise ConfigError(f"{folder}: exists; name a new folder (rows of different partitions must not mix).")
    with sealed(problems):
        if where.class_alpha is None:
            rows = _read(read, where, problems)
        else:
            rows = _read(read, replace(where, rows=None), problems)
            order = row_order(len(rows), partition.seed)
            rows = rows.iloc[by_class(rows["label"].fillna("").tolist(), order, where)]
        parties = _parties(rows, partition)
        names = [f"party-{number + 1}" for number in range(partition.parties)]
        folder.mkdir(mode=0o700, parents=True)
        for number, name in enumerate(names):
            write_table_for_owner(folder / name / ROWS, rows[parties == number].drop(columns="row"))
    return names


def _read(read: RowReader, where: RowsRef, problems: Path) -> pd.DataFrame:
    try:
        return read(where)
    except (PlaceError, MissingPackageError):
        raise
    except InputError as error:
        # The message may quote a row: the first line of a table without a header, a line that does not parse.
        reason = str(error)
    path = problems / "partition.txt"
    write_for_owner(path, f"{reason}\n")
    raise PrivateInputError("PRIVATE-READ", path)


def _parties(rows: pd.DataFrame, partition: Partition) -> Ints:
    labels = rows["label"].fillna("").tolist()
    if "person" not in rows:
        return split_rows(labels, partition)
    persons = rows["person"].fillna("").tolist()
    classes: dict[str, Counter[str]] = {}
    for person, label in zip(persons, labels, strict=True):
        classes.setdefault(person, Counter())[label] += 1
    main = [min(counts, key=lambda label: (-counts[label], label)) for counts in classes.values()]
    of_person = dict(zip(classes, split_rows(main, partition).tolist(), strict=True))
    return np.array([of_person[person] for person in persons], dtype=np.int64)
