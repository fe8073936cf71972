"""Share the rows of a dataset out among parties, for experiments with several: a Dirichlet draw per class.

Yurochkin et al. 2019, section 4, and Hsu et al. 2019 (here per class, as the WASP paper has it with alpha 1). The
small alpha is, the more the classes of one party differ from those of another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from connectors.base import (
    ConfigError,
    InputError,
    MissingPackageError,
    PlaceError,
    PrivateInputError,
    RowReader,
    RowsRef,
)
from tasks.private.sealed import sealed, write_for_owner

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

TRIES = 100
ROWS = "rows.parquet"


@dataclass(frozen=True, slots=True)
class Partition:
    """How rows are shared out: `parties` (L), the Dirichlet's `alpha`, the seed, and the least rows of a party."""

    parties: int
    alpha: float = 1.0
    seed: int = 0
    least: int = 1


def shared_out(labels: Sequence[str], partition: Partition) -> Ints:
    """Return the party, from 0, of each of `labels`, shape (rows,); equal seeds give equal parts.

    Each class is shuffled and cut by proportions drawn from Dirichlet(alpha, ..., alpha). The whole draw is repeated
    while a party has fewer than `least`; ConfigError when a hundred draws do not help, or for numbers that cannot be.
    """
    _check(partition, len(labels))
    generator = np.random.default_rng(partition.seed)
    names = np.array(labels, dtype=str)
    for _ in range(TRIES):
        parties = np.empty(len(names), dtype=np.int64)
        for name in np.unique(names):
            places = generator.permutation(np.flatnonzero(names == name))
            shares = generator.dirichlet(np.full(partition.parties, partition.alpha))
            cuts = np.round(np.cumsum(shares)[:-1] * len(places)).astype(np.int64)
            for party, part in enumerate(np.split(places, cuts)):
                parties[part] = party
        if np.bincount(parties, minlength=partition.parties).min() >= partition.least:
            return parties
    raise ConfigError(
        f"Among {TRIES} draws none gave each of {partition.parties} parties {partition.least} row(s); raise alpha, or "
        "ask for fewer parties."
    )


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
        return shared_out(labels, partition)
    whose = rows["person"].fillna("").tolist()
    classes: dict[str, Counter[str]] = {}
    for person, label in zip(whose, labels, strict=True):
        classes.setdefault(person, Counter())[label] += 1
    main = [min(found, key=lambda label: (-found[label], label)) for found in classes.values()]
    of_person = dict(zip(classes, shared_out(main, partition).tolist(), strict=True))
    return np.array([of_person[person] for person in whose], dtype=np.int64)


def _write(party: Path, rows: pd.DataFrame) -> None:
    party.parent.mkdir(mode=0o700, exist_ok=True)
    party.mkdir(mode=0o700)
    (party / ROWS).touch(mode=0o600)
    rows.to_parquet(party / ROWS, index=False)


def _check(partition: Partition, rows: int) -> None:
    if partition.parties < 2:
        raise ConfigError(f"parties is {partition.parties}; a dataset is shared out among 2 or more.")
    if not (np.isfinite(partition.alpha) and partition.alpha > 0):
        raise ConfigError(
            f"alpha is {partition.alpha}; write a positive number: 1 as in the paper, more for equal parts."
        )
    if partition.seed < 0 or partition.least < 0:
        raise ConfigError("seed and least are whole numbers from 0.")
    if rows < partition.parties * partition.least:
        raise ConfigError(
            f"There are fewer rows (or persons) than {partition.parties} parties need with {partition.least} each; ask "
            "for fewer parties."
        )
