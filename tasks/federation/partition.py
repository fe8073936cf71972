"""Share rows out among parties, for experiments with several: a Dirichlet draw per class.

Yurochkin et al. 2019, section 4, and Hsu et al. 2019 (here per class, as the WASP paper has it with alpha 1). The
smaller alpha is, the more the classes of one party differ from those of another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from connectors.interfaces.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

TRIES = 100


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
