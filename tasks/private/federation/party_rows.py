"""Splits rows among parties for experiments, by a Dirichlet draw per class, and writes them to one folder per party.

Yurochkin et al. 2019, section 4, and Hsu et al. 2019 (here per class, as in the WASP paper with alpha 1). A smaller
alpha makes the classes of the parties more different.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from connectors.interfaces.errors import ConfigError, InputError, MissingPackageError, PlaceError, PrivateInputError
from connectors.interfaces.rows import ALPHAS, RowReader, RowsRef
from tasks.core.allocation import unbalanced
from tasks.private.data.quarantine import sealed, write_for_owner, write_table_for_owner

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

TRIES = 100
ROWS = "rows.parquet"
NAME = "NAME-OF-THE-PARTY"
"""Placeholder in the files of parties."""


@dataclass(frozen=True, slots=True)
class Partition:
    """Parameters of a split of rows among parties; ConfigError for numbers out of range.

    `parties`: L. `alpha`: of the Dirichlet distribution. `least`: least rows of a party. `class_alpha`: first take
    `take` rows with class proportions from Dirichlet(`class_alpha`), so that the parties' rows together are unbalanced.
    """

    parties: int
    alpha: float = 1.0
    seed: int = 0
    least: int = 1
    take: int | None = None
    class_alpha: float | None = None

    def __post_init__(self) -> None:
        alpha, (least, most) = self.class_alpha, ALPHAS
        if self.parties < 2:
            raise ConfigError(f"parties: {self.parties} is not allowed. Write 2 or more.")
        if not (np.isfinite(self.alpha) and self.alpha > 0):
            raise ConfigError(f"alpha: {self.alpha} is not allowed. Write a positive number: 1 as in the paper.")
        if alpha is not None and (not least <= alpha <= most or self.take is None):
            raise ConfigError(
                f"class_alpha: {alpha} is not allowed without take, or outside {least:g} to {most:g}. Write a number "
                "such as 0.3, and take."
            )


def write_parties(
    read: RowReader, where: RowsRef, partition: Partition, folder: Path, files: Mapping[str, str], problems: Path
) -> list[str]:
    """Distribute the rows of `where` to one subfolder of the new `folder` per party; return their names.

    `files`: further files of each party, with `NAME` for its name. `problems`: folder for error details. Rows of one
    person stay together, under their most frequent class. Only the owner can access the folders, which appear at once.
    Raises ConfigError if the folder exists, PlaceError if the source does not exist, PrivateInputError with the code
    PRIVATE-READ if it cannot be read as rows.
    """
    if folder.exists():
        raise ConfigError(f"{folder}: exists; name a new folder (rows of different partitions must not mix).")
    with sealed(problems):
        rows = _read(read, where, problems)
        if partition.take is not None and partition.class_alpha is not None:
            labels = rows["label"].fillna("").tolist()
            rows = rows.iloc[take_unbalanced(labels, partition.take, partition.class_alpha, partition.seed)]
        parties = _parties(rows, partition)
        names = [f"party-{number + 1}" for number in range(partition.parties)]
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{folder.name}.", suffix=".tmp", dir=folder.parent) as scratch:
            whole = Path(scratch) / "whole"
            whole.mkdir(mode=0o700)
            for number, name in enumerate(names):
                write_table_for_owner(whole / name / ROWS, rows[parties == number].drop(columns="row"))
                for file, text in files.items():
                    write_for_owner(whole / name / file, text.replace(NAME, name))
            whole.rename(folder)
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


def take_unbalanced(labels: Sequence[str], take: int, alpha: float, seed: int) -> Ints:
    """Return the sorted indices of `take` rows whose classes have proportions from Dirichlet(alpha, ..., alpha)."""
    names = np.array(labels, dtype=str)
    order = np.random.default_rng(seed).permutation(len(names))
    counts = unbalanced(Counter(sorted(names.tolist())), min(take, len(names)), alpha, seed)
    return np.sort(np.concatenate([order[names[order] == name][:number] for name, number in counts.items()]))


def split_rows(labels: Sequence[str], partition: Partition) -> Ints:
    """Return the party, from 0, of each of `labels`, shape (rows,).

    Equal seeds give equal parts. Each class is shuffled and cut by proportions from Dirichlet(alpha, ..., alpha). The
    whole draw is repeated while a party has fewer than `least` rows. Raises ConfigError after a hundred draws.
    """
    generator = np.random.default_rng(partition.seed)
    names = np.array(labels, dtype=str)
    for _ in range(TRIES):
        parties = np.empty(len(names), dtype=np.int64)
        for name in np.unique(names):
            positions = generator.permutation(np.flatnonzero(names == name))
            shares = generator.dirichlet(np.full(partition.parties, partition.alpha))
            cuts = np.round(np.cumsum(shares)[:-1] * len(positions)).astype(np.int64)
            for party, part in enumerate(np.split(positions, cuts)):
                parties[part] = party
        if np.bincount(parties, minlength=partition.parties).min() >= partition.least:
            return parties
    raise ConfigError(
        f"None of {TRIES} draws gave each of {partition.parties} parties {partition.least} row(s). Raise alpha, or use "
        "fewer parties."
    )
