"""Write the rows of a dataset into one folder per party, for experiments (see tasks/federation/partition.py)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from connectors.interfaces.errors import ConfigError, InputError, MissingPackageError, PlaceError, PrivateInputError
from connectors.interfaces.rows import RowReader, RowsRef
from tasks.federation.partition import Partition, split_rows
from tasks.private.data.quarantine import sealed, write_for_owner

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

ROWS = "rows.parquet"


@dataclass(frozen=True, slots=True)
class Target:
    """Where parts go: a new `folder`, whole or not at all; `about`: further files of each party, by name, in which
    `{party}` becomes its name; `problems`: where the rows' owner reads what is wrong with them.
    """

    folder: Path
    about: Mapping[str, str]
    problems: Path


def write_parties(read: RowReader, where: RowsRef, partition: Partition, target: Target) -> list[str]:
    """Share the rows of `where` out into a folder for each party, and return the parties' names.

    Rows of one person stay together, under the class that most of them have. Folders are open to their owner alone.
    Raises ConfigError for numbers that cannot be and when the folder is there already, PlaceError when there is no
    source, PrivateInputError with the code PRIVATE-READ when it cannot be read as rows.
    """
    folder = target.folder
    if folder.exists():
        raise ConfigError(f"{folder}: exists; name a new folder, so that no party's rows are mixed with older ones.")
    with sealed(target.problems):
        rows = _read(read, where, target)
        parties = _parties(rows, partition)
        names = [f"party-{number + 1}" for number in range(partition.parties)]
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{folder.name}.", suffix=".tmp", dir=folder.parent) as scratch:
            for number, name in enumerate(names):
                _write(Path(scratch) / "whole" / name, rows[parties == number].drop(columns="row"))
                for file, text in target.about.items():
                    write_for_owner(Path(scratch) / "whole" / name / file, text.replace("{party}", name))
            (Path(scratch) / "whole").rename(folder)
    return names


def _read(read: RowReader, where: RowsRef, target: Target) -> pd.DataFrame:
    try:
        return read(where)
    except (PlaceError, MissingPackageError):
        raise
    except InputError as error:
        # The first line of a table without a header, a line that does not parse: its words may be a row's.
        reason = str(error)
    path = target.problems / "partition.txt"
    write_for_owner(path, f"{reason}\n")
    raise PrivateInputError("PRIVATE-READ", path)


def _parties(rows: pd.DataFrame, partition: Partition) -> Ints:
    labels = rows["label"].fillna("").tolist()
    if "person" not in rows:
        return split_rows(labels, partition)
    whose = rows["person"].fillna("").tolist()
    classes: dict[str, Counter[str]] = {}
    for person, label in zip(whose, labels, strict=True):
        classes.setdefault(person, Counter())[label] += 1
    main = [min(found, key=lambda label: (-found[label], label)) for found in classes.values()]
    of_person = dict(zip(classes, split_rows(main, partition).tolist(), strict=True))
    return np.array([of_person[person] for person in whose], dtype=np.int64)


def _write(party: Path, rows: pd.DataFrame) -> None:
    party.parent.mkdir(mode=0o700, exist_ok=True)
    party.mkdir(mode=0o700)
    (party / ROWS).touch(mode=0o600)
    rows.to_parquet(party / ROWS, index=False)
